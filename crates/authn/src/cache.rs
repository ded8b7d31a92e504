//! What is remembered for a while so that it need not be looked up or verified again: bounded in number and in time. Nothing that
//! is remembered here says that a credential is not revoked.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use servanda_contract::Timestamp;

/// Things by a key, each until its time is over.
#[derive(Debug)]
pub(crate) struct AuthnCache<K, V> {
    kept: Mutex<HashMap<K, (V, Timestamp)>>,
    entries_max: usize,
}

impl<K: Eq + Hash, V: Clone> AuthnCache<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { kept: Mutex::default(), entries_max }
    }

    /// What is remembered under that key, if its time is not over.
    pub(crate) fn recall(&self, key: &K, now: Timestamp) -> Option<V> {
        let kept = self.kept();
        kept.get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    /// Remembers. When there is no room, what is over is forgotten, and if that is not enough everything: whoever comes again is
    /// looked up again.
    pub(crate) fn remember(&self, key: K, value: V, until: Timestamp, now: Timestamp) {
        let mut kept = self.kept();
        if kept.len() >= self.entries_max {
            kept.retain(|_, (_, until)| now < *until);
        }
        if kept.len() >= self.entries_max {
            kept.clear();
        }
        kept.insert(key, (value, until));
    }

    pub(crate) fn forget(&self, key: &K) {
        self.kept().remove(key);
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.kept().len()
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<K, (V, Timestamp)>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
