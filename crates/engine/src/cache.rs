//! Answers of reads, kept for as long as their contracts say. An answer is found by what was proposed, to the byte, and by whom. It is
//! dropped when the upstream says that it changed, and when a call may have changed what was read.
//!
//! The cache belongs to one process: what other replicas change, and what a task changes before its end is known, is noticed when the
//! answer's time is over. The contract says which answers may be kept and who may see them.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use servanda_contract::{Caller, Digest};
use servanda_effects::overlap;
use tokio::time::Instant;

/// The most bytes of answers that are kept.
const BYTES_MAX: usize = 64 << 20;
/// The most answers that are kept, however small.
const ENTRIES_MAX: usize = 65_536;
/// An answer that is larger than one `ANSWER_SHARE`th of all bytes is not kept, because it would push out too many others.
const ANSWER_SHARE: usize = 16;
/// The longest time that an answer is kept, whatever its contract says.
const TTL_MS_MAX: u64 = 3_600_000;

/// The cached answers.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    state: Mutex<CacheState>,
}

/// Who may get an answer: one principal, or every caller of a tenant.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CacheScope {
    tenant: String,
    principal: Option<String>,
}

/// A read that may be answered from the cache.
#[derive(Debug, Clone)]
pub(crate) struct CacheableRead {
    pub(crate) scope: CacheScope,
    /// The digest of the proposal: tenant, tool, contract, canonical arguments.
    pub(crate) request: Digest,
    pub(crate) upstream: Arc<str>,
    /// The names of what it reads; if it names nothing, it may read anything of its upstream.
    pub(crate) resources: Vec<String>,
    pub(crate) ttl_ms: u64,
}

/// A read in progress. Its answer is kept only if nothing changed since it began.
#[derive(Debug)]
pub(crate) struct PendingRead {
    read: CacheableRead,
    change: (u64, u64),
}

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<(CacheScope, Digest), Entry>,
    /// The keys in the order in which they came; the oldest is dropped first.
    order: BTreeMap<u64, (CacheScope, Digest)>,
    next: u64,
    bytes: usize,
    /// Counts by upstream what may have changed something.
    changes: HashMap<Arc<str>, u64>,
    /// Counts how often the cache was cleared.
    clearings: u64,
}

#[derive(Debug)]
struct Entry {
    answer: Bytes,
    until: Instant,
    number: u64,
    upstream: Arc<str>,
    resources: Vec<String>,
}

impl CacheScope {
    /// For the caller only, or for its whole tenant.
    pub(crate) fn for_caller(caller: &Caller, shared: bool) -> Self {
        let principal = (!shared).then(|| caller.principal.clone());
        Self { tenant: caller.tenant.clone(), principal }
    }
}

impl Cache {
    /// The cached answer, or what is needed to keep the answer to come.
    pub(crate) fn find(&self, read: CacheableRead) -> Result<Bytes, Box<PendingRead>> {
        let mut kept = self.state();
        let key = (read.scope.clone(), read.request);
        match kept.entries.get(&key) {
            Some(entry) if entry.until > Instant::now() => return Ok(entry.answer.clone()),
            Some(_) => kept.remove(&key),
            None => {}
        }
        let change = kept.change_count(&read.upstream);
        Err(Box::new(PendingRead { read, change }))
    }

    /// Keeps an answer, unless something may have changed while it was under way.
    pub(crate) fn store(&self, under_way: PendingRead, answer: Bytes) {
        let PendingRead { read, change } = under_way;
        let mut kept = self.state();
        let ttl_ms = read.ttl_ms.min(TTL_MS_MAX);
        if ttl_ms == 0 || answer.len() > BYTES_MAX / ANSWER_SHARE || kept.change_count(&read.upstream) != change {
            return;
        }
        let key = (read.scope, read.request);
        kept.remove(&key);
        kept.bytes += answer.len();
        let number = kept.next;
        kept.next += 1;
        kept.order.insert(number, key.clone());
        let until = Instant::now() + Duration::from_millis(ttl_ms);
        let entry = Entry { answer, until, number, upstream: read.upstream, resources: read.resources };
        kept.entries.insert(key, entry);
        kept.shrink();
    }

    /// Drops answers because these resources of an upstream may have changed, or anything there if none are named.
    pub(crate) fn invalidate(&self, upstream: &Arc<str>, resources: &[String]) {
        let mut kept = self.state();
        *kept.changes.entry(Arc::clone(upstream)).or_default() += 1;
        let touched = |entry: &Entry| {
            entry.upstream == *upstream
                && (resources.is_empty()
                    || entry.resources.is_empty()
                    || entry.resources.iter().any(|read| resources.iter().any(|changed| overlap(read, changed))))
        };
        let gone: Vec<_> =
            kept.entries.iter().filter(|(_, entry)| touched(entry)).map(|(key, _)| key.clone()).collect();
        for key in gone {
            kept.remove(&key);
        }
    }

    /// Drops all answers, because the world was replaced.
    pub(crate) fn clear(&self) {
        let mut kept = self.state();
        *kept = CacheState { clearings: kept.clearings + 1, ..CacheState::default() };
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheState {
    fn change_count(&self, upstream: &Arc<str>) -> (u64, u64) {
        (self.clearings, self.changes.get(upstream).copied().unwrap_or_default())
    }

    fn remove(&mut self, key: &(CacheScope, Digest)) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.number);
            self.bytes -= entry.answer.len();
        }
    }

    fn shrink(&mut self) {
        while self.bytes > BYTES_MAX || self.entries.len() > ENTRIES_MAX {
            let Some((_, oldest)) = self.order.pop_first() else { return };
            self.remove(&oldest);
        }
    }
}
