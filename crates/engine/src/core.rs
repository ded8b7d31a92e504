//! What all calls and inquiries share: the present world, the ports, the bridge, and what is kept about guests.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use servanda_contract::{time::Clock, tool::EffectClass};
use servanda_effects::{
    Journal, Notebook,
    effect::{EffectId, Effects, OwnerId, ledger_tick_ms_max, owner_silence_ms_max},
};
use servanda_gates::GateLimits;
use servanda_mcp::{RpcError, envelope::code};
use servanda_upstream::{Lease, OwnerLease};
use tokio::{
    sync::{Semaphore, broadcast, watch},
    task::JoinError,
    time::Instant,
};
use tokio_util::task::TaskTracker;

use crate::{
    bridge::Bridge,
    budgets::Till,
    cache::Cache,
    callbacks::{Outbox, Told},
    gateway::News,
    keys::Keys,
    late::DoneLate,
    probes::Lookout,
    quarantine::Quarantine,
    refused_calls::RefusedCalls,
    repairs::Repairs,
    scene::Scene,
    sessions::Sessions,
    tasks::TaskIndex,
    turns::Turns,
    watches::Watches,
    works::Works,
};

/// The engine's inside.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) scene: RwLock<Arc<Scene>>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) notebook: Arc<dyn Notebook>,
    pub(crate) effects: Arc<dyn Effects>,
    /// This process, among those that share the effects.
    pub(crate) owner: OwnerId,
    /// Until when the store takes this process for alive.
    pub(crate) owner_lease: Arc<OwnerLease>,
    pub(crate) keys: Keys,
    pub(crate) in_hand: Arc<InHand>,
    /// Places for looking whether a mark was made that nobody uses.
    pub(crate) abandoning: Arc<Semaphore>,
    pub(crate) tallies: Arc<Tallies>,
    pub(crate) turns: Arc<Turns>,
    pub(crate) cache: Cache,
    pub(crate) done_late: DoneLate,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gate_limits: GateLimits,
    pub(crate) accepts_lost_commits: bool,
    pub(crate) repairs: Repairs,
    pub(crate) refused_calls: RefusedCalls,
    pub(crate) in_flight: TaskTracker,
    /// How long a caller waits for long work; none if it waits for the end.
    pub(crate) long_wait_ms_max: Option<u64>,
    pub(crate) works: Arc<Works>,
    pub(crate) bridge: Arc<Bridge>,
    pub(crate) tasks: Arc<TaskIndex>,
    pub(crate) sessions: Sessions,
    pub(crate) watches: Watches,
    pub(crate) news: broadcast::Sender<News>,
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) outbox: Outbox,
    pub(crate) lookout: Lookout,
    pub(crate) quarantine: Quarantine,
    /// Where budgets are drawn from.
    pub(crate) till: Arc<Till>,
}

/// Effects that this process is dispatching right now, so that it does not take them for forgotten.
#[derive(Debug, Default)]
pub(crate) struct InHand(Mutex<BTreeMap<EffectId, usize>>);

/// One of them. It is given out of hand when this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    id: EffectId,
    among: Arc<InHand>,
}

/// What is worth counting about repeats, since the start.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    retries: AtomicU64,
    unsafe_retries: AtomicU64,
    blind_retries: AtomicU64,
}

impl InHand {
    pub(crate) fn hold(self: &Arc<Self>, id: &EffectId) -> Held {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .entry(id.clone())
            .and_modify(|held| *held += 1)
            .or_insert(1);
        Held { id: id.clone(), among: Arc::clone(self) }
    }

    pub(crate) fn ids(&self) -> Vec<EffectId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
    }

    pub(crate) fn has(&self, id: &EffectId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // An end that is still offered and a new dispatch may hold the same effect.
        let mut held = self.among.0.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&self.id) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                held.remove(&self.id);
            }
        }
    }
}

impl Tallies {
    /// A call was sent again.
    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// A retry was wanted and would not have been safe. Says how many there were.
    pub(crate) fn count_unsafe_retry(&self) -> u64 {
        self.unsafe_retries.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// A caller sent again what nobody knew the end of. Says how many there were.
    pub(crate) fn count_blind_retry(&self) -> u64 {
        self.blind_retries.fetch_add(1, Ordering::Relaxed) + 1
    }

    #[cfg(test)]
    /// Retries made, retries that would not have been safe, blind retries of callers.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let [retries, wanted, blind] =
            [&self.retries, &self.unsafe_retries, &self.blind_retries].map(|count| count.load(Ordering::Relaxed));
        (retries, wanted, blind)
    }
}

impl Core {
    /// The lease of a dispatch for which the store was asked at that moment. What can be repeated may be sent for as long as this
    /// process lives; anything else only while no other process can have judged it.
    pub(crate) fn lease(&self, asked_at: Instant, class: EffectClass) -> Lease {
        let own = Lease::new(lease_end(asked_at), Arc::clone(&self.owner_lease));
        match class {
            EffectClass::R | EffectClass::K => own.extended(),
            EffectClass::Q | EffectClass::N => own,
        }
    }

    /// The world as it is now.
    pub(crate) fn scene(&self) -> Arc<Scene> {
        self.scene.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes another world from now on, and returns the one before.
    pub(crate) fn replace(&self, scene: Arc<Scene>) -> Arc<Scene> {
        std::mem::replace(&mut *self.scene.write().unwrap_or_else(PoisonError::into_inner), scene)
    }

    /// Who is to be told of what ends in that world, as things stand.
    pub(crate) fn told<'s>(&'s self, scene: &'s Scene) -> Told<'s> {
        let owner = self.outbox.delivers().then_some(&self.owner);
        Told { subscriptions: scene.callbacks.subscriptions(), catalog: &scene.catalog, owner, now: self.clock.now() }
    }

    /// Tells everybody that something changed. Nobody may be listening.
    pub(crate) fn announce(&self, news: News) {
        let tools = match &news {
            News::Within { news, .. } => matches!(**news, News::Tools),
            news => matches!(news, News::Tools),
        };
        if tools {
            self.changes.send_modify(|changes| *changes += 1);
        }
        let _ = self.news.send(news);
    }
}

/// When a lease ends for which the store was asked at that moment: before the store says so. The store's clock may jump, which
/// counts as a tick, and a store may go by a time that is a fifth of a tick old.
pub(crate) fn lease_end(asked_at: Instant) -> Instant {
    let tick_ms = ledger_tick_ms_max();
    asked_at + Duration::from_millis(owner_silence_ms_max() - tick_ms - tick_ms / 5)
}

/// That many milliseconds from now.
pub(crate) fn within_ms(ms: u64) -> Instant {
    Instant::now() + Duration::from_millis(ms)
}

/// Any number. Where there is none to be had, callers come back at the same moment, which is all that is lost.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    let _ = getrandom::fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// The answer of a call whose own task ended without one.
pub(crate) fn lost(error: &JoinError) -> RpcError {
    tracing::error!(%error, "a call ended without an answer");
    RpcError::new(code::INTERNAL_ERROR, "the call ended without an answer; whether it had an effect is not known")
        .with_hint("look at the target with a read-only tool before calling again")
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, lease_end, ledger_tick_ms_max, owner_silence_ms_max};

    /// The store counts from a time that may be a fifth of a tick old, and its clock may jump by a tick.
    #[test]
    fn a_lease_ends_here_before_it_ends_in_the_store() {
        let asked_at = Instant::now();
        let store_counts_from = asked_at - Duration::from_millis(ledger_tick_ms_max() / 5);
        let earliest_in_store = owner_silence_ms_max() - ledger_tick_ms_max();
        assert!(lease_end(asked_at) <= store_counts_from + Duration::from_millis(earliest_in_store));
        assert!(lease_end(asked_at) > asked_at + Duration::from_millis(owner_silence_ms_max() / 2));
    }
}
