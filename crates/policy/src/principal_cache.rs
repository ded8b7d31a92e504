//! What a principal remembers between calls: what was worked out for it and does not depend on a call. It is bounded, and
//! forgetting it changes nothing but time.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, PoisonError},
};

use cedar_policy::Entities;

use crate::answer::PartialEvaluation;

/// Tools that are remembered. Beyond them all is forgotten and it begins anew.
const REMEMBERED_MAX: usize = 256;

/// What a principal remembers.
#[derive(Debug, Default)]
pub(crate) struct PrincipalCache {
    /// The principal beside a tool, by the tool's number.
    pub entities: BoundedCache<u64, Entities>,
    /// What is settled for a tool, by the numbers of the policies and the tool.
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
