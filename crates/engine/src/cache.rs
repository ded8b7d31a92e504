//! Answers of reads, kept for as long as their contracts say. Found by what was proposed, to the byte, and by whom; given up
//! when the upstream says that it changed, and when a call may have changed what was read.
//!
//! It belongs to one process: what other replicas change, and what a task changes before anybody learns that it ended, is
//! noticed when the answer's time is over. What may be kept at all
//! is for the contract to say, and who may see it too.

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

/// Bytes of answers that are kept.
const BYTES_MAX: usize = 64 << 20;
/// Answers that are kept, however small.
const ENTRIES_MAX: usize = 65_536;
/// An answer that is larger than this part of all is not kept: it would push out too many others.
const ANSWER_SHARE: usize = 16;
/// No answer is kept longer, whatever its contract says.
const TTL_MS_MAX: u64 = 3_600_000;

/// The answers.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    state: Mutex<CacheState>,
}

/// Whose answer it is: nobody else's, or one of the tenant's that anybody there may see.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct CacheScope {
    tenant: String,
    principal: Option<String>,
}

/// A read that may be answered from here.
#[derive(Debug, Clone)]
pub(crate) struct CacheableRead {
    pub(crate) scope: CacheScope,
    /// The digest of what is proposed: tenant, tool, contract, canonical arguments.
    pub(crate) request: Digest,
    pub(crate) upstream: Arc<str>,
    /// What it reads, by name; if nothing is named, it may be anything of its upstream.
    pub(crate) resources: Vec<String>,
    pub(crate) ttl_ms: u64,
}

/// A read under way. What comes of it is kept only if nothing changed since it began.
#[derive(Debug)]
pub(crate) struct PendingRead {
    read: CacheableRead,
    change: (u64, u64),
}

#[derive(Debug, Default)]
struct CacheState {
    entries: HashMap<(CacheScope, Digest), Entry>,
    /// In the order in which they came; the oldest goes first.
    order: BTreeMap<u64, (CacheScope, Digest)>,
    next: u64,
    bytes: usize,
    /// Counts what may have changed something, by upstream.
    changes: HashMap<Arc<str>, u64>,
    /// Counts how often everything was given up.
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
    /// The caller's own, or shared by its tenant.
    pub(crate) fn for_caller(caller: &Caller, shared: bool) -> Self {
        let principal = (!shared).then(|| caller.principal.clone());
        Self { tenant: caller.tenant.clone(), principal }
    }
}

impl Cache {
    /// The answer, or what it takes to keep the one to come.
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

    /// Keeps an answer, unless something may have changed while it was on its way.
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

    /// Something may have changed at an upstream: these resources, or anything if none is named.
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

    /// Gives everything up: the world is another one.
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
