//! What all parts of the engine share: the present world, the stores, this process among others, and what it keeps about effects.
//!
//! Deliberately not here: what only calls need, what only long work needs, and conversations with clients. Each of those parts has a
//! context of its own, which holds this one.

mod in_flight_effects;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use servanda_contract::{CallRecord, time::Clock, tool::EffectClass};
use servanda_effects::{
    Journal, Notebook,
    effect::{EffectStore, OwnerId, ledger_tick_ms_max, owner_silence_ms_max},
};
use servanda_gates::GateLimits;
use servanda_upstream::{DispatchLease, OwnerLease};
use tokio::{
    sync::{broadcast, watch},
    time::Instant,
};
use tokio_util::task::TaskTracker;

pub(crate) use self::in_flight_effects::{InFlightEffectGuard, InFlightEffects};
use crate::{
    approvals::Approvals,
    budgets::BudgetClient,
    cache::Cache,
    call_observer::CallObserver,
    callbacks::{CallbackNotices, CallbackOutbox},
    client::ChangeEvent,
    outages::Outages,
    probes::Mutations,
    quarantine::Quarantine,
    refused_calls::RefusedCalls,
    world::{PresentWorld, WorldSnapshot},
};

/// What all parts of the engine share.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) world: Arc<PresentWorld>,
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) notebook: Arc<dyn Notebook>,
    pub(crate) effects: Arc<dyn EffectStore>,
    pub(crate) approvals: Arc<Approvals>,
    /// This process, among those that share the effects.
    pub(crate) owner: OwnerId,
    /// Until when the store considers this process alive.
    pub(crate) owner_lease: Arc<OwnerLease>,
    pub(crate) in_flight_effects: Arc<InFlightEffects>,
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) gate_limits: GateLimits,
    pub(crate) refused_calls: RefusedCalls,
    pub(crate) outages: Outages,
    /// Calls that have no answer or no record of their end yet.
    pub(crate) in_flight: TaskTracker,
    pub(crate) change_events: broadcast::Sender<ChangeEvent>,
    pub(crate) changes: watch::Sender<u64>,
    pub(crate) outbox: CallbackOutbox,
    /// Running calls that may change something.
    pub(crate) mutations: Arc<Mutations>,
    pub(crate) quarantine: Quarantine,
    /// Draws from budgets.
    pub(crate) budget_client: Arc<BudgetClient>,
    /// Measures finished calls, if anything does.
    pub(crate) observer: OnceLock<Arc<dyn CallObserver>>,
}

impl Core {
    /// The lease of a dispatch for which the store was asked at that moment. A call that can be repeated may be sent as long as this
    /// process lives; any other call only while no other process can have judged it.
    pub(crate) fn lease(&self, asked_at: Instant, class: EffectClass) -> DispatchLease {
        let own = DispatchLease::new(lease_end(asked_at), Arc::clone(&self.owner_lease));
        match class {
            EffectClass::R | EffectClass::K => own.extended(),
            EffectClass::Q | EffectClass::N => own,
        }
    }

    /// The world as it is now.
    pub(crate) fn snapshot(&self) -> Arc<WorldSnapshot> {
        self.world.snapshot()
    }

    /// Measures a call that ended.
    pub(crate) fn observe(&self, record: &CallRecord) {
        if let Some(observer) = self.observer.get() {
            observer.call_ended(record);
        }
    }

    /// Which callbacks to tell of what ends in that world, as of now.
    pub(crate) fn callback_notices<'s>(&'s self, snapshot: &'s WorldSnapshot) -> CallbackNotices<'s> {
        let owner = self.outbox.delivers().then_some(&self.owner);
        CallbackNotices {
            subscriptions: snapshot.callbacks.subscriptions(),
            catalog: &snapshot.catalog,
            owner,
            now: self.clock.now(),
        }
    }

    /// Tells all listeners that something changed. There may be none.
    pub(crate) fn announce(&self, news: ChangeEvent) {
        let tools = match &news {
            ChangeEvent::ForTenants { news, .. } => matches!(**news, ChangeEvent::Tools),
            news => matches!(news, ChangeEvent::Tools),
        };
        if tools {
            self.changes.send_modify(|changes| *changes += 1);
        }
        let _ = self.change_events.send(news);
    }
}

/// When a lease ends for which the store was asked at that moment. It ends here before it ends in the store, because the store's clock may
/// jump, which counts as a tick, and because the store may use a time that is a fifth of a tick old.
pub(crate) fn lease_end(asked_at: Instant) -> Instant {
    let tick_ms = ledger_tick_ms_max();
    asked_at + Duration::from_millis(owner_silence_ms_max() - tick_ms - tick_ms / 5)
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
