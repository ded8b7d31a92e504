//! A cache for lookups and verifications, bounded in number and in time. Revocation is never cached here.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
};

use servanda_contract::Timestamp;

/// Values by key, each until it expires.
#[derive(Debug)]
pub(crate) struct AuthnCache<K, V> {
    kept: Mutex<HashMap<K, (V, Timestamp)>>,
    entries_max: usize,
}

impl<K: Eq + Hash, V: Clone> AuthnCache<K, V> {
    pub(crate) fn new(entries_max: usize) -> Self {
        Self { kept: Mutex::default(), entries_max }
    }

    /// The cached value of a key, if it has not expired.
    pub(crate) fn recall(&self, key: &K, now: Timestamp) -> Option<V> {
        let kept = self.kept();
        kept.get(key).filter(|(_, until)| now < *until).map(|(value, _)| value.clone())
    }

    /// Caches a value. When the cache is full, expired entries are dropped; if that is not enough, all are, and the
    /// next request looks its value up again.
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
