//! Effects in memory whose records a test can read, and that can be unavailable.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU8, Ordering},
};

use servanda_contract::record::Outcome;
use servanda_effects::{
    JournalError, PortFuture,
    effect::{
        AppliedChange, Effect, EffectChange, EffectEvent, EffectQuery, EffectStore, EffectTarget, InMemoryEffects,
        OrphanQuery, OwnerId,
    },
};

use super::RecordingJournal;

/// Effects in memory whose records are stored with the others.
#[derive(Debug)]
pub(crate) struct RecordingEffects {
    pub(crate) effects: InMemoryEffects,
    pub(super) records: Arc<RecordingJournal>,
    /// Whether nothing can be changed at the moment.
    pub(crate) down: AtomicBool,
    /// Whether nothing can be changed or read at the moment.
    pub(crate) away: AtomicBool,
    /// Whether changes are made too late to be acknowledged, and cannot be read until then.
    pub(crate) late: AtomicBool,
    /// How many ends are still refused because of their content.
    pub(crate) unkept_ends: AtomicU8,
}

impl EffectStore for RecordingEffects {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        Box::pin(async move {
            if self.down.load(Ordering::Relaxed) || self.away.load(Ordering::Relaxed) {
                return Err(JournalError::new("the store is away"));
            }
            if self.late.load(Ordering::Relaxed) {
                self.effects.apply(change).await?;
                return Err(JournalError::in_doubt("the acknowledgement was lost"));
            }
            let less_one = |left: u8| left.checked_sub(1);
            if matches!(change.event, EffectEvent::Settle(..))
                && self.unkept_ends.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one).is_ok()
            {
                return Err(JournalError::bad_content("a text that no column takes"));
            }
            let before = self.effects.records().len();
            let applied = self.effects.apply(change).await?;
            let new = self.effects.records().into_iter().skip(before);
            let finished = new.filter(|record| record.outcome != Outcome::Dispatching);
            for record in finished {
                *self.records.last_durable.lock().unwrap() = true;
                self.records.finished.lock().unwrap().push(record);
            }
            Ok(applied)
        })
    }

    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        if self.late.load(Ordering::Relaxed) || self.away.load(Ordering::Relaxed) {
            return Box::pin(async { Err(JournalError::new("the store is away")) });
        }
        self.effects.find(target)
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.list(query)
    }

    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.orphans(query)
    }

    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        self.effects.heartbeat(owner)
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        self.effects.expire(limit)
    }
}
