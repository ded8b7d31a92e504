//! What a principal caches between calls: results that do not depend on a call. The cache is bounded, and clearing it costs
//! only time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use cedar_policy::Entities;

use crate::answer::PartialEvaluation;

/// The most tools that are cached. When the cache is full, it is cleared.
const REMEMBERED_MAX: usize = 256;

/// The caches of a principal.
#[derive(Debug, Default)]
pub(crate) struct PrincipalCache {
    /// The principal's entities together with a tool, by the tool's number.
    pub entities: BoundedCache<u64, Entities>,
    /// The settled results for a tool, by the numbers of the policies and the tool.
    pub partial_evaluations: BoundedCache<(u64, u64), PartialEvaluation>,
}

#[derive(Debug)]
pub(crate) struct BoundedCache<K, V>(Mutex<HashMap<K, Arc<V>>>);

impl<K: Eq + Hash, V> BoundedCache<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    pub(crate) fn insert(&self, key: K, value: Arc<V>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(key, value);
    }
}

impl<K, V> Default for BoundedCache<K, V> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}
