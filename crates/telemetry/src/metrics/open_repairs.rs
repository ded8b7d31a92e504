//! Which refused calls wait to be repaired, so that a call that passes can be told from a repaired one. Bounded; a chain that is
//! not remembered makes its repair count as a first try.

use std::{
    collections::HashSet,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use servanda_contract::CallRecord;

/// Chains that are remembered.
const CHAINS_MAX: usize = 4_096;

/// The open chains.
#[derive(Debug, Default)]
pub(super) struct OpenRepairs {
    /// Read without the lock by calls that pass while none is open.
    open: AtomicUsize,
    hasher: RandomState,
    chains: Mutex<HashSet<u64>>,
}

impl OpenRepairs {
    /// A call was refused and may be repaired.
    pub(super) fn opened(&self, record: &CallRecord) {
        let mut chains = self.lock();
        if chains.len() >= CHAINS_MAX {
            chains.clear();
        }
        chains.insert(self.key(record));
        self.open.store(chains.len(), Ordering::Relaxed);
    }

    /// Ends the chain of a call. Whether there was one.
    pub(super) fn ended(&self, record: &CallRecord) -> bool {
        if self.open.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut chains = self.lock();
        let was_open = chains.remove(&self.key(record));
        self.open.store(chains.len(), Ordering::Relaxed);
        was_open
    }

    fn key(&self, record: &CallRecord) -> u64 {
        let caller = &record.caller;
        self.hasher.hash_one((&caller.tenant, &caller.principal, &caller.actors, &caller.session, &record.tool))
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.chains.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
