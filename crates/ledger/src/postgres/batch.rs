//! What a batch does to its effects, event after event: as they were read, and as they become. Pure; the writer
//! does the reading and writing around it.

use std::{collections::BTreeMap, sync::Arc};

use servanda_contract::Digest;
use servanda_effects::effect::{
    AppliedChange, BeginRequest, Effect, EffectContext, EffectEvent, EffectId, EffectReply, EffectState, EffectTarget,
    EffectTransition, ExclusiveResources, LedgerNow, LostWindow, is_blocking, step,
};

use crate::{
    LedgerError,
    codec::{StoredCall, key_digest, unsigned},
    job::CallRecordWrite,
    leaves::{DecisionTold, EffectStanding},
    record_placement::{KeptRecordChange, displaced_record, keeps_record, place_record, written_record},
};

/// The effects of a batch.
#[derive(Debug)]
pub(super) struct EffectBatch<'a> {
    now: LedgerNow,
    /// A window that the store has lost, while that matters.
    lost_window: Option<LostWindow>,
    slots: Vec<EffectSlot<'a>>,
    by_key: BTreeMap<Digest, usize>,
    by_id: BTreeMap<EffectId, usize>,
    twins: Vec<TwinEffect>,
    holders: Vec<ResourceHolder>,
    /// Records that were stored with an effect and move to `calls`.
    displaced: Vec<CallRecordWrite>,
}

/// An effect's revision when it was read, which a compare-and-set compares with.
#[derive(Debug, Clone, Copy)]
pub(super) struct EffectRevision {
    pub(super) epoch: u64,
    pub(super) state: EffectState,
    pub(super) revision: i64,
}

/// One effect of a batch.
#[derive(Debug, Default)]
struct EffectSlot<'a> {
    /// The digest it is looked up by, if it is looked up by key.
    digest: Option<Digest>,
    /// Its revision when it was read; none if it did not exist.
    before: Option<EffectRevision>,
    /// Its current state in this batch.
    now: Option<Arc<Effect>>,
    /// Whether it has to be written.
    changed: bool,
    /// The last heartbeat of the owner it was read with, in ledger time.
    beat_ms: Option<i64>,
    /// The record that is stored with it.
    open: OpenRecord<'a>,
}

/// The record of the call of an effect under way.
#[derive(Debug, Default)]
enum OpenRecord<'a> {
    /// None, or one that will be replaced by one of the same call.
    #[default]
    Nothing,
    /// As it was read.
    Stored(Box<CallRecordWrite>),
    /// The record comes with this batch.
    Of(&'a CallRecordWrite),
}

/// An effect that has to be written.
#[derive(Debug)]
pub(super) struct ChangedEffect<'a> {
    pub(super) effect: &'a Arc<Effect>,
    /// Its revision before; none if it is new.
    pub(super) before: Option<EffectRevision>,
    pub(super) digest: Digest,
    /// The record that is stored with it.
    pub(super) record: Option<&'a [u8]>,
}

/// An effect with an unknown outcome, and the caller it belongs to.
#[derive(Debug)]
pub(super) struct TwinEffect {
    pub(super) id: EffectId,
    pub(super) request: Vec<u8>,
    pub(super) tenant: Vec<u8>,
    pub(super) principal: Vec<u8>,
}

/// An effect under way that keeps others from changing some resources.
#[derive(Debug)]
pub(super) struct ResourceHolder {
    pub(super) id: EffectId,
    pub(super) tenant: Vec<u8>,
    pub(super) resources: Vec<String>,
    pub(super) until_ms: Option<u64>,
}

/// The result of one event.
#[derive(Debug)]
pub(super) struct AppliedEvent<'a> {
    pub(super) applied: Box<AppliedChange>,
    /// The effect that the result depends on: it counts only if that effect is written.
    pub(super) slot: Option<usize>,
    /// Whether it changed the effect.
    pub(super) changed: bool,
    /// The record that is written with the change.
    pub(super) recorded: Option<&'a CallRecordWrite>,
    /// The effect before, as the log knows it; none if there was none.
    pub(super) was: Option<EffectStanding>,
    /// Whether the decision about the call of its record has a leaf already.
    pub(super) told: DecisionTold,
}

impl<'a> EffectBatch<'a> {
    pub(super) fn new(now: LedgerNow, twins: Vec<TwinEffect>, holders: Vec<ResourceHolder>) -> Self {
        let (by_key, by_id) = (BTreeMap::new(), BTreeMap::new());
        Self { now, lost_window: None, slots: Vec::new(), by_key, by_id, twins, holders, displaced: Vec::new() }
    }

    /// The same batch for a store that has lost this window.
    pub(super) fn with_lost_window(self, lost_window: Option<LostWindow>) -> Self {
        Self { lost_window, ..self }
    }

    /// Adds an effect that was read, and the record that is stored with it.
    pub(super) fn add(
        &mut self,
        effect: Arc<Effect>,
        before: EffectRevision,
        beat_ms: Option<i64>,
        open: Option<&StoredCall>,
    ) -> Result<(), LedgerError> {
        let open = open.map(|open| open.decode_open().and_then(CallRecordWrite::encode_alone)).transpose()?;
        let (index, digest) = (self.slots.len(), key_digest(&effect.key));
        self.by_key.insert(digest, index);
        self.by_id.insert(effect.id.clone(), index);
        let open = open.map_or(OpenRecord::Nothing, |open| OpenRecord::Stored(Box::new(open)));
        let (before, now, digest) = (Some(before), Some(effect), Some(digest));
        self.slots.push(EffectSlot { digest, before, now, changed: false, beat_ms, open });
        Ok(())
    }

    /// Adds an effect as this process last wrote it.
    pub(super) fn remember(&mut self, effect: Arc<Effect>, before: EffectRevision) {
        let index = self.slots.len();
        self.by_id.insert(effect.id.clone(), index);
        self.slots.push(EffectSlot { before: Some(before), now: Some(effect), ..EffectSlot::default() });
    }

    /// Whether an effect has been added.
    pub(super) fn has(&self, id: &EffectId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Whether a change with this record can be made without reading the record that is stored with the effect.
    pub(super) fn replaces_record(&self, id: &EffectId, recorded: Option<&CallRecordWrite>) -> bool {
        let slot = self.by_id.get(id).and_then(|index| self.slots.get(*index));
        let Some(effect) = slot.and_then(|slot| slot.now.as_ref()) else { return false };
        !keeps_record(effect) || recorded.is_some_and(|recorded| recorded.record.call_id == effect.call_id)
    }

    /// Applies an event to the current state of its effect. If the event makes the effect the caller's, `approve` uses up the approval that
    /// the call needs; its error is the reply, and nothing is changed.
    pub(super) fn apply(
        &mut self,
        (target, event): (&EffectTarget, &EffectEvent),
        recorded: Option<&'a CallRecordWrite>,
        approve: impl FnOnce(&Effect, LedgerNow) -> Result<(), EffectReply>,
    ) -> Result<AppliedEvent<'a>, LedgerError> {
        let slot = self.slot_of(target);
        let before = slot.and_then(|index| self.slots.get(index)).and_then(|slot| slot.now.as_ref());
        let around = self.around(slot, before.map(Arc::as_ref), event);
        let EffectTransition { change: changed, reply } = step(before.map(Arc::as_ref), event, &around);
        let (changed, reply) = match (changed, &reply) {
            (Some(effect), EffectReply::Mine(_)) => match approve(&effect, self.now) {
                Ok(()) => (Some(effect), reply),
                Err(refused) => (None, refused),
            },
            (changed, _) => (changed, reply),
        };
        let changed = changed.map(Arc::new);
        let effect = changed.as_ref().or(before).cloned();
        let was = before.map(|before| EffectStanding::of(before));
        let recorded = changed.as_ref().and_then(|effect| written_record(effect, recorded));
        let record = recorded.map(|recorded| &recorded.record);
        let told =
            record.map_or(DecisionTold::Now, |record| DecisionTold::with_effect(before.map(Arc::as_ref), record));
        let applied = Box::new(AppliedChange { reply, effect });
        let stepped = AppliedEvent { applied, slot, changed: changed.is_some(), recorded, was, told };
        if let (Some(index), Some(effect)) = (slot, changed) {
            self.by_id.insert(effect.id.clone(), index);
            if let Some(slot) = self.slots.get_mut(index) {
                self.displaced.extend(slot.change(effect, recorded)?);
            }
        }
        Ok(stepped)
    }

    /// The effects that have to be written.
    pub(super) fn changed(&self) -> impl Iterator<Item = Result<ChangedEffect<'_>, LedgerError>> {
        let changed = self.slots.iter().filter(|slot| slot.changed);
        changed.filter_map(|slot| slot.now.as_ref().map(|effect| slot.written(effect)))
    }

    /// Whether this record is stored with the effect of a slot.
    pub(super) fn keeps(&self, slot: Option<usize>, recorded: &CallRecordWrite) -> bool {
        let slot = slot.and_then(|index| self.slots.get(index));
        slot.is_some_and(|slot| matches!(slot.open, OpenRecord::Of(kept) if std::ptr::eq(kept, recorded)))
    }

    /// Records that were stored with effects and no longer are.
    pub(super) fn displaced(&self) -> &[CallRecordWrite] {
        &self.displaced
    }

    /// The handle of a slot's effect, if that effect has to be written. What depends on it counts only if it is
    /// written.
    pub(super) fn waits_for(&self, slot: Option<usize>) -> Option<&EffectId> {
        let slot = self.slots.get(slot?).filter(|slot| slot.changed)?;
        slot.now.as_ref().map(|effect| &effect.id)
    }

    fn slot_of(&mut self, target: &EffectTarget) -> Option<usize> {
        match target {
            EffectTarget::Id(id) => self.by_id.get(id).copied(),
            EffectTarget::Key(key) => {
                let (fresh, digest) = (self.slots.len(), key_digest(key));
                let index = *self.by_key.entry(digest).or_insert(fresh);
                if index == fresh {
                    self.slots.push(EffectSlot { digest: Some(digest), ..EffectSlot::default() });
                }
                Some(index)
            }
        }
    }

    fn around(&self, slot: Option<usize>, effect: Option<&Effect>, event: &EffectEvent) -> EffectContext {
        let beat_ms = slot.and_then(|index| self.slots.get(index)).and_then(|slot| slot.beat_ms);
        let twin = match (effect, event) {
            (None, EffectEvent::Begin(begin)) if is_keyless(begin) => self.twin(begin),
            _ => None,
        };
        let blocked_by = match event {
            EffectEvent::Begin(begin) if begin.order.takes_turns() => self.in_the_way(begin),
            _ => None,
        };
        let (owner_is_gone, lost_window) = (self.now.is_owner_gone(beat_ms.map(unsigned)), self.lost_window);
        EffectContext { owner_is_gone, twin, blocked_by, lost_window, ..EffectContext::at(self.now) }
    }

    /// Another effect under way that changes the same resource, in its current state in this batch or as it was
    /// read.
    fn in_the_way(&self, begin: &BeginRequest) -> Option<EffectId> {
        let here = self.slots.iter().find_map(|slot| {
            let effect = slot.now.as_ref().filter(|effect| effect.key != begin.key)?;
            let blocks = effect.key.tenant == begin.key.tenant
                && is_blocking(effect.exclusive_resources()?, begin, self.now.ledger_ms);
            blocks.then(|| effect.id.clone())
        });
        let stored = || {
            self.holders.iter().find(|holder| {
                let held = ExclusiveResources { resources: &holder.resources, until_ms: holder.until_ms };
                !self.by_id.contains_key(&holder.id)
                    && holder.tenant == begin.key.tenant.as_bytes()
                    && is_blocking(held, begin, self.now.ledger_ms)
            })
        };
        here.or_else(|| stored().map(|holder| holder.id.clone()))
    }

    fn twin(&self, begin: &BeginRequest) -> Option<EffectId> {
        let is_unknown = |effect: &Arc<Effect>| effect.state == EffectState::OutcomeUnknown;
        let here = self.slots.iter().filter_map(|slot| slot.now.as_ref()).find(|effect| {
            is_unknown(effect)
                && effect.request == begin.request
                && (&effect.key.tenant, &effect.key.principal) == (&begin.key.tenant, &begin.key.principal)
        });
        let stored = || {
            self.twins.iter().find(|twin| {
                // A twin that this batch has settled in the meantime is no longer one.
                let now = self.by_id.get(&twin.id).and_then(|index| self.slots.get(*index));
                now.and_then(|slot| slot.now.as_ref()).is_none_or(is_unknown)
                    && twin.request == begin.request.as_bytes()
                    && twin.tenant == begin.key.tenant.as_bytes()
                    && twin.principal == begin.key.principal.as_bytes()
            })
        };
        here.map(|effect| effect.id.clone()).or_else(|| stored().map(|twin| twin.id.clone()))
    }
}

impl<'a> EffectSlot<'a> {
    /// The slot's effect in the form in which it is written.
    fn written<'s>(&'s self, effect: &'s Arc<Effect>) -> Result<ChangedEffect<'s>, LedgerError> {
        let record = match &self.open {
            OpenRecord::Nothing => None,
            OpenRecord::Stored(recorded) => Some(recorded.body()?),
            OpenRecord::Of(recorded) => Some(recorded.body()?),
        };
        let digest = self.digest.unwrap_or_else(|| key_digest(&effect.key));
        Ok(ChangedEffect { effect, before: self.before, digest, record })
    }

    /// Puts the changed effect into the slot. Returns the record that was stored with it, if that is displaced.
    fn change(
        &mut self,
        effect: Arc<Effect>,
        recorded: Option<&'a CallRecordWrite>,
    ) -> Result<Option<CallRecordWrite>, LedgerError> {
        let placing = place_record(self.now.as_deref(), &effect, recorded);
        let open = match (placing.kept, recorded) {
            (KeptRecordChange::Same, _) => std::mem::take(&mut self.open),
            (KeptRecordChange::New, Some(recorded)) => OpenRecord::Of(recorded),
            (KeptRecordChange::New | KeptRecordChange::Nothing, _) => OpenRecord::Nothing,
        };
        let was = std::mem::replace(&mut self.open, open);
        let displaced = match was {
            OpenRecord::Stored(recorded) if placing.displaces => Some(displaced_record(recorded.record, &effect)?),
            _ => None,
        };
        (self.now, self.changed) = (Some(effect), true);
        Ok(displaced)
    }
}

/// Whether a call gave no key, so that it may be a blind retry.
pub(super) fn is_keyless(begin: &BeginRequest) -> bool {
    !begin.key.client_key.can_come_again()
}
