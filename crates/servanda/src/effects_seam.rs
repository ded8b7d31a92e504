//! Where effects are kept until the ledger keeps them itself: in this process, with the records beside them in the ledger.
//!
//! THE SEAM: a store that implements [`Effects`] replaces this whole file; nobody but [`open`] and [`of`] knows it.

use std::sync::Arc;

use servanda_engine::SystemClock;
use servanda_gates::{
    Journal as _, JournalError, PortFuture,
    effect::{Applied, Change, Effect, EffectQuery, Effects, End, Event, FleetingEffects, OwnerId, Reply, Target},
};
use servanda_ledger::Ledger;

use crate::{config::Loaded, failure::Failure};

/// The effects of a gateway that has its ledger open.
pub(crate) fn of(ledger: &Arc<Ledger>) -> Arc<dyn Effects> {
    Arc::new(InProcess { effects: FleetingEffects::new(Arc::new(SystemClock)), ledger: Arc::clone(ledger) })
}

/// The effects of a configuration, for commands beside a gateway that may be running.
pub(crate) fn open(loaded: &Loaded) -> Result<Arc<dyn Effects>, Failure> {
    Ok(of(&Arc::new(Ledger::open(&loaded.ledger_file())?)))
}

#[derive(Debug)]
struct InProcess {
    effects: FleetingEffects,
    ledger: Arc<Ledger>,
}

impl Effects for InProcess {
    fn apply(&self, mut change: Change) -> PortFuture<'_, Result<Applied, JournalError>> {
        Box::pin(async move {
            let (record, quarantine) = (change.record.take(), change.quarantine.take());
            let recovers = matches!(change.event, Event::Recover(_));
            let applied = self.effects.apply(change).await?;
            let changed = matches!(applied.reply, Reply::Mine(_) | Reply::Settled) || recovers;
            if let Some(record) = record.filter(|_| changed)
                && let Err(error) = self.ledger.finished(record, quarantine, true).await
            {
                if let Reply::Mine(claim) = applied.reply {
                    let end = End::NotExecuted(error.to_string());
                    let (target, event) = (Target::Id(claim.id.clone()), Event::Settle(claim, end));
                    self.effects.apply(Change { target, event, record: None, quarantine: None }).await?;
                }
                return Err(error);
            }
            Ok(applied)
        })
    }

    fn find(&self, target: Target) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        self.effects.find(target)
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.list(query)
    }

    fn orphans(&self, limit: u32) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.orphans(limit)
    }

    fn beat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        self.effects.beat(owner)
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        self.effects.expire(limit)
    }
}
