//! Effects that last as long as the process: for one-off commands and for tests. It keeps the same laws as any store.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use servanda_contract::{CallRecord, time::Clock};

use super::{
    Applied, Begin, Change, Circumstances, Effect, EffectId, EffectKey, EffectQuery, EffectState, Effects, Event,
    OwnerId, Step, Target, is_in_the_way, is_orphaned, notes_due, orphan::share_out, owner_silence_ms_max, step,
};
use crate::{FleetingNotebook, JournalError, PortFuture};

/// Effects in memory.
#[derive(Debug)]
pub struct FleetingEffects {
    clock: Arc<dyn Clock>,
    kept: Mutex<Kept>,
    applied: AtomicU64,
    notebook: Option<Arc<FleetingNotebook>>,
}

#[derive(Debug, Default)]
struct Kept {
    effects: BTreeMap<EffectKey, Effect>,
    beats: BTreeMap<OwnerId, u64>,
    records: Vec<CallRecord>,
}

impl FleetingEffects {
    /// None yet.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, kept: Mutex::default(), applied: AtomicU64::new(0), notebook: None }
    }

    /// The same, with a notebook for what is to be told of how effects end.
    #[must_use]
    pub fn with_notebook(self, notebook: Arc<FleetingNotebook>) -> Self {
        Self { notebook: Some(notebook), ..self }
    }

    /// How many events were applied.
    pub fn applied_count(&self) -> u64 {
        self.applied.load(Ordering::Relaxed)
    }

    /// The records that were written beside changes, in order.
    pub fn records(&self) -> Vec<CallRecord> {
        self.kept().records.clone()
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn find(&self, target: &Target) -> Option<Effect> {
        match target {
            Target::Key(key) => self.effects.get(key).cloned(),
            Target::Id(id) => self.effects.values().find(|effect| effect.id == *id).cloned(),
        }
    }

    fn is_gone(&self, owner: &OwnerId, now_ms: u64) -> bool {
        self.beats.get(owner).is_some_and(|beat_ms| now_ms.saturating_sub(*beat_ms) > owner_silence_ms_max())
    }

    fn around(&self, effect: Option<&Effect>, event: &Event, now_ms: u64) -> Circumstances {
        let owner_is_gone = effect.is_some_and(|effect| self.is_gone(&effect.owner, now_ms));
        let twin = match (effect, event) {
            (None, Event::Begin(begin)) => self.twin(begin),
            _ => None,
        };
        let blocked_by = match event {
            Event::Begin(begin) => self.in_the_way(begin, now_ms),
            _ => None,
        };
        Circumstances { now_ms, owner_is_gone, twin, blocked_by }
    }

    fn in_the_way(&self, begin: &Begin, now_ms: u64) -> Option<EffectId> {
        let blocks = |effect: &&Effect| {
            let gone = self.is_gone(&effect.owner, now_ms);
            effect.key.tenant == begin.key.tenant
                && effect.key != begin.key
                && effect.holds().is_some_and(|held| is_in_the_way(held, begin, now_ms, gone))
        };
        self.effects.values().find(blocks).map(|effect| effect.id.clone())
    }

    fn twin(&self, begin: &Begin) -> Option<EffectId> {
        if begin.key.client_key.can_come_again() {
            return None;
        }
        let same = |effect: &&Effect| {
            effect.state == EffectState::OutcomeUnknown
                && effect.request == begin.request
                && (&effect.key.tenant, &effect.key.principal) == (&begin.key.tenant, &begin.key.principal)
        };
        self.effects.values().find(same).map(|effect| effect.id.clone())
    }
}

impl Effects for FleetingEffects {
    fn apply(&self, change: Change) -> PortFuture<'_, Result<Applied, JournalError>> {
        let now_ms = self.clock.now().unix_ms();
        let mut kept = self.kept();
        self.applied.fetch_add(1, Ordering::Relaxed);
        let before = kept.find(&change.target);
        let around = kept.around(before.as_ref(), &change.event, now_ms);
        let Step { change: changed, reply } = step(before.as_ref(), &change.event, &around);
        if let Some(effect) = &changed {
            kept.effects.insert(effect.key.clone(), effect.clone());
            kept.records.extend(change.record);
            if let Some(notebook) = &self.notebook {
                notes_due(&change.notices, effect).for_each(|note| drop(notebook.put_first(note.clone())));
            }
        }
        let applied = Applied { reply, effect: changed.or(before).map(Arc::new) };
        Box::pin(std::future::ready(Ok(applied)))
    }

    fn find(&self, target: Target) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        let found = self.kept().find(&target);
        Box::pin(std::future::ready(Ok(found)))
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        let kept = self.kept();
        let wanted = |effect: &&Effect| query.states.is_empty() || query.states.contains(&effect.state);
        let mut effects: Vec<Effect> = kept.effects.values().filter(wanted).cloned().collect();
        effects.sort_by(|one, other| other.id.cmp(&one.id));
        effects.truncate(usize::try_from(query.limit).unwrap_or(usize::MAX));
        Box::pin(std::future::ready(Ok(effects)))
    }

    fn orphans(&self, each_max: u32) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        let (kept, now_ms) = (self.kept(), self.clock.now().unix_ms());
        let orphaned = |effect: &&Effect| {
            let owner_is_gone = kept.is_gone(&effect.owner, now_ms);
            is_orphaned(effect, &Circumstances { owner_is_gone, ..Circumstances::at(now_ms) })
        };
        let orphans = share_out(kept.effects.values().filter(orphaned).cloned(), each_max);
        Box::pin(std::future::ready(Ok(orphans)))
    }

    fn beat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        let now_ms = self.clock.now().unix_ms();
        self.kept().beats.insert(owner, now_ms);
        Box::pin(std::future::ready(Ok(())))
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        let now_ms = self.clock.now().unix_ms();
        let mut kept = self.kept();
        let around = Circumstances::at(now_ms);
        let over = |effect: &Effect| step(Some(effect), &Event::Expire, &around).change;
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let tombstones: Vec<Effect> = kept.effects.values().filter_map(over).take(limit).collect();
        let count = tombstones.len() as u64;
        for tombstone in tombstones {
            if tombstone.key.client_key.can_come_again() {
                kept.effects.insert(tombstone.key.clone(), tombstone);
            } else {
                kept.effects.remove(&tombstone.key);
            }
        }
        Box::pin(std::future::ready(Ok(count)))
    }
}
