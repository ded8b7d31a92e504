//! Whose turn it is: of the calls of a tenant that change the same thing, by the names of their contracts' manifests, one is
//! sent after the other, in the order in which they came.
//!
//! It belongs to one process, and spares those who wait in it asking the store again and again. Deliberately not here: that no two
//! gateways on one store change the same thing at once, which the store sees to when an effect begins; and whether a call has to
//! wait at all, which its contract says.

#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_effects::{effect::EffectKey, overlap};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Calls that have their turn or wait for it.
const TURNS_MAX: usize = 4_096;

/// Everybody who has a turn or waits for one.
#[derive(Debug, Default)]
pub(crate) struct ResourceQueue {
    state: Mutex<QueueState>,
}

/// A turn, or a place in the line. Given up when it is dropped.
#[derive(Debug)]
pub(crate) struct ResourceTurn {
    number: u64,
    queue: Arc<ResourceQueue>,
    /// Those that came before and change the same.
    before: Vec<CancellationToken>,
}

/// What a call changes.
#[derive(Debug, Clone)]
pub(crate) struct QueuedChange {
    /// Which operation it is. The same one is never begun twice, so that it need not wait for itself.
    pub(crate) key: EffectKey,
    /// By name.
    pub(crate) resources: Vec<String>,
}

/// Too many wait already, or too many for whoever does not wait at all.
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
    /// Cancelled when it is free.
    over: CancellationToken,
}

impl ResourceQueue {
    /// Takes a place in the line.
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
    /// Whether nobody is before.
    pub(crate) fn is_ready(&self) -> bool {
        self.before.iter().all(CancellationToken::is_cancelled)
    }

    /// Waits until nobody is before, or until then. Says whether it has come. To stop waiting is to go on waiting later: the
    /// place is kept.
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
