//! What a batch does to effects: the ones it is about, as they were read and as they become, event after event. Pure; what
//! is read and written around it is the writer's business.

use std::collections::BTreeMap;

use servanda_contract::Digest;
use servanda_gates::effect::{
    Applied, Begin, Circumstances, Effect, EffectId, EffectState, Event, Step, Target, owner_silence_ms_max, step,
};

use crate::codec::{key_digest, unsigned};

/// The effects of a batch.
#[derive(Debug)]
pub(super) struct Batch {
    now_ms: u64,
    slots: Vec<Slot>,
    by_key: BTreeMap<Digest, usize>,
    by_id: BTreeMap<EffectId, usize>,
    twins: Vec<Twin>,
}

/// What an effect was when it was read: what a compare-and-set compares with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Before {
    pub(super) epoch: u64,
    pub(super) state: EffectState,
    pub(super) revision: i64,
}

/// One effect of a batch.
#[derive(Debug, Default)]
struct Slot {
    /// As it was read; none if it was not there.
    before: Option<Before>,
    /// As it is by now.
    now: Option<Effect>,
    /// Whether it has to be written.
    changed: bool,
    /// When its owner was last heard of.
    beat_ms: Option<i64>,
}

/// An effect whose outcome nobody knows, and whose it is.
#[derive(Debug)]
pub(super) struct Twin {
    pub(super) id: EffectId,
    pub(super) request: Vec<u8>,
    pub(super) tenant: Vec<u8>,
    pub(super) principal: Vec<u8>,
}

/// What became of one event.
#[derive(Debug)]
pub(super) struct Stepped {
    pub(super) applied: Box<Applied>,
    /// Which effect it stands and falls with.
    pub(super) slot: Option<usize>,
    /// Whether it changed the effect, so that its record is to be written.
    pub(super) changed: bool,
}

impl Batch {
    pub(super) fn new(now_ms: u64, twins: Vec<Twin>) -> Self {
        Self { now_ms, slots: Vec::new(), by_key: BTreeMap::new(), by_id: BTreeMap::new(), twins }
    }

    /// An effect that was read.
    pub(super) fn add(&mut self, effect: Effect, before: Before, beat_ms: Option<i64>) {
        let index = self.slots.len();
        self.by_key.insert(key_digest(&effect.key), index);
        self.by_id.insert(effect.id.clone(), index);
        self.slots.push(Slot { before: Some(before), now: Some(effect), changed: false, beat_ms });
    }

    /// Whether an effect is here already.
    pub(super) fn has(&self, id: &EffectId) -> bool {
        self.by_id.contains_key(id)
    }

    /// Applies an event to what has become of its effect so far.
    pub(super) fn apply(&mut self, target: &Target, event: &Event) -> Stepped {
        let slot = self.slot_of(target);
        let before = slot.and_then(|index| self.slots.get(index)).and_then(|slot| slot.now.as_ref());
        let around = self.around(slot, before, event);
        let Step { change: changed, reply } = step(before, event, &around);
        let effect = changed.as_ref().or(before).cloned();
        let stepped = Stepped { applied: Box::new(Applied { reply, effect }), slot, changed: changed.is_some() };
        if let (Some(index), Some(effect)) = (slot, changed) {
            self.by_id.insert(effect.id.clone(), index);
            if let Some(slot) = self.slots.get_mut(index) {
                // Whoever changed it has just been heard of.
                *slot = Slot { before: slot.before, now: Some(effect), changed: true, beat_ms: None };
            }
        }
        stepped
    }

    /// The effects that have to be written, and what each was.
    pub(super) fn changed(&self) -> impl Iterator<Item = (Option<Before>, &Effect)> {
        let changed = self.slots.iter().filter(|slot| slot.changed);
        changed.filter_map(|slot| slot.now.as_ref().map(|effect| (slot.before, effect)))
    }

    /// The handle of a slot's effect, if that effect has to be written: what depends on it stands and falls with it.
    pub(super) fn waits_for(&self, slot: Option<usize>) -> Option<&EffectId> {
        let slot = self.slots.get(slot?).filter(|slot| slot.changed)?;
        slot.now.as_ref().map(|effect| &effect.id)
    }

    fn slot_of(&mut self, target: &Target) -> Option<usize> {
        match target {
            Target::Id(id) => self.by_id.get(id).copied(),
            Target::Key(key) => {
                let fresh = self.slots.len();
                let index = *self.by_key.entry(key_digest(key)).or_insert(fresh);
                if index == fresh {
                    self.slots.push(Slot::default());
                }
                Some(index)
            }
        }
    }

    fn around(&self, slot: Option<usize>, effect: Option<&Effect>, event: &Event) -> Circumstances {
        let beat_ms = slot.and_then(|index| self.slots.get(index)).and_then(|slot| slot.beat_ms);
        let silent_ms = beat_ms.map_or(0, |beat_ms| self.now_ms.saturating_sub(unsigned(beat_ms)));
        let twin = match (effect, event) {
            (None, Event::Begin(begin)) if is_keyless(begin) => self.twin(begin),
            _ => None,
        };
        Circumstances { now_ms: self.now_ms, owner_is_gone: silent_ms > owner_silence_ms_max(), twin }
    }

    fn twin(&self, begin: &Begin) -> Option<EffectId> {
        let is_unknown = |effect: &Effect| effect.state == EffectState::OutcomeUnknown;
        let here = self.slots.iter().filter_map(|slot| slot.now.as_ref()).find(|effect| {
            is_unknown(effect)
                && effect.request == begin.request
                && (&effect.key.tenant, &effect.key.principal) == (&begin.key.tenant, &begin.key.principal)
        });
        let stored = || {
            self.twins.iter().find(|twin| {
                // What this batch has settled in the meantime is none any more.
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

/// Whether a call gave no key, so that it may be a blind retry.
pub(super) fn is_keyless(begin: &Begin) -> bool {
    !begin.key.client_key.can_come_again()
}
