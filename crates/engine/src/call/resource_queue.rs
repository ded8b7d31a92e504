//! Orders calls of one tenant that change the same thing, by the resource names in their contracts: one is sent after the other, in the
//! order in which they came.
//!
//! The queue belongs to one process and saves its waiting calls from asking the store again and again. Deliberately not here: keeping two
//! gateways on one store from changing the same thing at once, which the store does when an effect begins; and whether a call has to wait
//! at all, which its contract says.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_effects::{effect::EffectKey, overlap};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The most calls that have a turn or wait for one.
const TURNS_MAX: usize = 4_096;

/// All calls that have a turn or wait for one.
#[derive(Debug, Default)]
pub(crate) struct ResourceQueue {
    state: Mutex<QueueState>,
}

/// A turn, or a place in the queue. Given up when dropped.
#[derive(Debug)]
pub(crate) struct ResourceTurn {
    number: u64,
    queue: Arc<ResourceQueue>,
    /// Earlier calls that change the same thing.
    before: Vec<CancellationToken>,
}

/// What a call changes.
#[derive(Debug, Clone)]
pub(crate) struct QueuedChange {
    /// The operation. Calls of one operation do not wait for each other, because an operation is never begun twice.
    pub(crate) key: EffectKey,
    /// The names of the resources.
    pub(crate) resources: Vec<String>,
}

/// The queue has no place left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QueueFull;

#[derive(Debug, Default)]
struct QueueState {
    next: u64,
    places: BTreeMap<u64, QueuePlace>,
}

#[derive(Debug)]
struct QueuePlace {
    changes: QueuedChange,
    /// Cancelled when the place is given up.
    over: CancellationToken,
}

impl ResourceQueue {
    /// Takes a place in the queue.
    pub(crate) fn enqueue(self: &Arc<Self>, changes: QueuedChange) -> Result<ResourceTurn, QueueFull> {
        let mut line = self.state();
        if line.places.len() >= TURNS_MAX {
            return Err(QueueFull);
        }
        let before = line.places.values().filter(|place| place.changes.collide(&changes));
        let before = before.map(|place| place.over.clone()).collect();
        let number = line.next;
        line.next += 1;
        line.places.insert(number, QueuePlace { changes, over: CancellationToken::new() });
        Ok(ResourceTurn { number, queue: Arc::clone(self), before })
    }

    fn state(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ResourceTurn {
    /// Whether no earlier call is left to wait for.
    pub(crate) fn is_ready(&self) -> bool {
        self.before.iter().all(CancellationToken::is_cancelled)
    }

    /// Waits until no earlier call is left, or until `until`. Returns whether the turn has come. A call that stops waiting keeps its
    /// place.
    pub(crate) async fn wait_until(&self, until: Instant) -> bool {
        let waiting = async {
            for before in &self.before {
                before.cancelled().await;
            }
        };
        tokio::time::timeout_at(until, waiting).await.is_ok()
    }
}

impl Drop for ResourceTurn {
    fn drop(&mut self) {
        let place = self.queue.state().places.remove(&self.number);
        if let Some(QueuePlace { over, .. }) = place {
            over.cancel();
        }
    }
}

impl QueuedChange {
    fn collide(&self, other: &Self) -> bool {
        self.key.tenant == other.key.tenant
            && self.key != other.key
            && self.resources.iter().any(|one| other.resources.iter().any(|name| overlap(one, name)))
    }
}
