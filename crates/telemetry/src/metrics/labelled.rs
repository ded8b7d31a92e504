//! Values by label values, as many as a metric may have series. What comes after that goes to one value for all others, and is counted.
//!
//! Finding a value that exists asks for no memory: the map is asked with borrowed names.

use std::{
    borrow::Borrow,
    collections::HashMap,
    fmt,
    hash::{Hash, Hasher},
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
};

use super::labels::{OTHER, cut};

/// Values by `N` label values.
pub(super) struct Labelled<T, const N: usize> {
    series_max: usize,
    new: fn() -> T,
    values: RwLock<HashMap<OwnedLabels<N>, Arc<T>>>,
    other: T,
    folded: AtomicU64,
}

/// Label values, owned or borrowed.
trait Labels<const N: usize> {
    fn parts(&self) -> [&str; N];
}

struct OwnedLabels<const N: usize>([String; N]);

struct BorrowedLabels<'a, const N: usize>([&'a str; N]);

impl<T, const N: usize> Labelled<T, N> {
    pub(super) fn new(series_max: usize, new: fn() -> T) -> Self {
        Self { series_max, new, values: RwLock::default(), other: new(), folded: AtomicU64::new(0) }
    }

    /// Changes the value of these labels.
    pub(super) fn with(&self, labels: [&str; N], change: impl FnOnce(&T)) {
        let labels = BorrowedLabels(labels.map(cut));
        let known = self.values.read().unwrap_or_else(PoisonError::into_inner).get(&labels as &dyn Labels<N>).cloned();
        if let Some(value) = known.or_else(|| self.begun(&labels)) {
            change(&value);
        } else {
            self.folded.fetch_add(1, Ordering::Relaxed);
            change(&self.other);
        }
    }

    /// Calls `see` with every value and its labels; with the value for all others if it was used.
    pub(super) fn each(&self, mut see: impl FnMut([&str; N], &T)) {
        for (labels, value) in self.values.read().unwrap_or_else(PoisonError::into_inner).iter() {
            see(labels.parts(), value);
        }
        if self.folded() > 0 {
            see([OTHER; N], &self.other);
        }
    }

    /// How often a value was not told apart.
    pub(super) fn folded(&self) -> u64 {
        self.folded.load(Ordering::Relaxed)
    }

    /// A value for new labels, if there is room for one.
    fn begun(&self, labels: &BorrowedLabels<'_, N>) -> Option<Arc<T>> {
        let mut values = self.values.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = values.get(labels as &dyn Labels<N>) {
            return Some(Arc::clone(known));
        }
        if values.len() >= self.series_max {
            return None;
        }
        let value = Arc::new((self.new)());
        values.insert(OwnedLabels(labels.0.map(str::to_owned)), Arc::clone(&value));
        Some(value)
    }
}

impl<T, const N: usize> fmt::Debug for Labelled<T, N> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Labelled").field("series_max", &self.series_max).finish_non_exhaustive()
    }
}

impl<const N: usize> Labels<N> for OwnedLabels<N> {
    fn parts(&self) -> [&str; N] {
        self.0.each_ref().map(String::as_str)
    }
}

impl<const N: usize> Labels<N> for BorrowedLabels<'_, N> {
    fn parts(&self) -> [&str; N] {
        self.0
    }
}

impl<'a, const N: usize> Borrow<dyn Labels<N> + 'a> for OwnedLabels<N> {
    fn borrow(&self) -> &(dyn Labels<N> + 'a) {
        self
    }
}

impl<const N: usize> Hash for dyn Labels<N> + '_ {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.parts().hash(hasher);
    }
}

impl<const N: usize> PartialEq for dyn Labels<N> + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.parts() == other.parts()
    }
}

impl<const N: usize> Eq for dyn Labels<N> + '_ {}

impl<const N: usize> Hash for OwnedLabels<N> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.parts().hash(hasher);
    }
}

impl<const N: usize> PartialEq for OwnedLabels<N> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<const N: usize> Eq for OwnedLabels<N> {}
