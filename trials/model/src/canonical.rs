//! Which states are equal: those that differ only in the time, in the names of gateways and keys, in the order of calls, or in
//! the age of something that is over either way.

use std::hash::{DefaultHasher, Hasher as _};

use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{Effect, EffectState, OwnerId, StoredAnswer, owner_silence_ms_max};

use crate::world::{
    Bounds, Call, KEYS_MAX, Known, Life, OWNERS_MAX, Phase, Request, TICK_MS, TIMEOUT_MS, Told, WINDOW_MS, World,
    owner_id,
};

/// Tells states apart within the bounds of an exploration.
pub(crate) struct Canonical {
    bounds: Bounds,
    names: Vec<Names>,
}

/// A renaming of gateways and keys.
#[derive(Clone, Copy)]
struct Names {
    owners: [u8; OWNERS_MAX],
    keys: [u8; KEYS_MAX],
}

impl Canonical {
    pub(crate) fn new(bounds: Bounds) -> Self {
        let owners: &[[u8; OWNERS_MAX]] = match bounds.owners {
            1 => &[[0, 1, 2]],
            2 => &[[0, 1, 2], [1, 0, 2]],
            _ => &[[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]],
        };
        let keys: &[[u8; KEYS_MAX]] = if bounds.keys > 1 { &[[0, 1], [1, 0]] } else { &[[0, 1]] };
        let names = owners.iter().flat_map(|owners| keys.iter().map(|keys| Names { owners: *owners, keys: *keys }));
        Self { bounds, names: names.collect() }
    }

    /// The fingerprint of a state, in 128 bits: two of ten million states collide by chance once in 10^24 explorations.
    pub(crate) fn fingerprint(&self, world: &World) -> u128 {
        let least = self.names.iter().map(|names| self.written(world, *names)).min().unwrap_or_default();
        let [mut one, mut other] = [DefaultHasher::new(), DefaultHasher::new()];
        one.write_u8(0);
        other.write_u8(1);
        one.write(&least);
        other.write(&least);
        u128::from(one.finish()) << 64 | u128::from(other.finish())
    }

    fn written(&self, world: &World, names: Names) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let happened = world.happened;
        let ticks = self.bounds.ticks.map_or(0, |_| happened.ticks);
        bytes.extend([happened.calls, ticks, happened.leaps, happened.outages, happened.pauses, happened.deaths]);
        bytes.extend([happened.losses, happened.lost_acks, u8::from(world.store.is_up)]);
        bytes.push(ticks_of(world.now_ms.saturating_sub(world.store.clock.seen_ms), TICK_MS));
        for place in 0..OWNERS_MAX {
            self.write_owner(world, old_name(&names.owners, place), &mut bytes);
        }
        for place in 0..KEYS_MAX {
            self.write_key(world, old_name(&names.keys, place), names, &mut bytes);
        }
        let mut calls: Vec<[u8; 8]> = world.calls.iter().map(|call| written_call(world, call, names)).collect();
        calls.sort_unstable();
        bytes.extend(calls.iter().flatten());
        bytes
    }

    fn write_owner(&self, world: &World, index: usize, bytes: &mut Vec<u8>) {
        let (Some(owner), Some(heard)) = (world.owners.get(index), world.store.heard_ms.get(index)) else { return };
        let ledger_ms = world.ledger_now(self.bounds.rules).ledger_ms;
        let silent = heard
            .map_or(u8::MAX, |heard_ms| ticks_of(ledger_ms.saturating_sub(heard_ms), owner_silence_ms_max() + TICK_MS));
        // Only repeatable calls are sent under the gateway's own lease.
        let lends = owner.life != Life::Dead && matches!(self.bounds.class, EffectClass::R | EffectClass::K);
        let lease = if lends { ticks_of(owner.lease_until_ms.saturating_sub(world.now_ms), u64::MAX) } else { 0 };
        bytes.extend([owner.life as u8, owner.late, u8::from(owner.beat_since_back), lease, silent]);
    }

    fn write_key(&self, world: &World, key: usize, names: Names, bytes: &mut Vec<u8>) {
        if let (Some(upstream), Some(told)) = (world.upstream.get(key), world.told_done.get(key)) {
            let knows = upstream.ran > 0 && world.now_ms < upstream.first_ms + WINDOW_MS;
            bytes.extend([upstream.ran, u8::from(knows), told.unwrap_or_default()]);
        }
        match world.store.effects.get(key) {
            Some(Some(effect)) => self.write_effect(world, effect, names, bytes),
            _ => bytes.push(u8::MAX),
        }
    }

    fn write_effect(&self, world: &World, effect: &Effect, names: Names, bytes: &mut Vec<u8>) {
        let ledger_ms = world.ledger_now(self.bounds.rules).ledger_ms;
        let ahead = |until_ms: u64| ticks_of(until_ms.saturating_sub(ledger_ms), u64::MAX);
        let is_old = |first_ms: Option<u64>, now_ms: u64| {
            u8::from(first_ms.is_some_and(|first_ms| now_ms.saturating_sub(first_ms) >= WINDOW_MS / 2))
        };
        let is_under_way = matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
        let owner = if is_under_way { owner_place(&effect.owner, names) } else { 0 };
        let lease = if is_under_way { ahead(effect.lease_until_ms) } else { 0 };
        let time = match effect.state {
            EffectState::Dispatching => ahead(effect.at_work_until_ms()),
            EffectState::OutcomeUnknown => ahead(effect.overdue_at_ms),
            _ => 0,
        };
        let answer = match &effect.answer {
            None => 0,
            Some(StoredAnswer::Result(run)) => run.first().copied().unwrap_or_default(),
            Some(StoredAnswer::Refusal(_) | StoredAnswer::Known(_)) => 1,
        };
        let dispatches = u8::try_from(effect.dispatches.min(2)).unwrap_or_default();
        bytes.extend([effect.state as u8, owner, lease, time, answer, dispatches]);
        bytes.extend([
            is_old(effect.first_dispatched_ms, world.now_ms),
            is_old(effect.first_dispatched_ledger_ms, ledger_ms),
        ]);
        bytes.extend([u8::from(effect.expires_ms > ledger_ms), u8::from(effect.conflict.is_some())]);
    }
}

fn written_call(world: &World, call: &Call, names: Names) -> [u8; 8] {
    // Only the relation to the effect's present epoch counts, and the order of earlier ones.
    let present = world.effect(call.key).map_or(0, |effect| effect.epoch);
    let behind = |epoch: u64| u8::try_from(present.saturating_sub(epoch)).unwrap_or(u8::MAX);
    let (phase, epoch, known) = match call.phase {
        Phase::Claimed(epoch) => (0, behind(epoch), 0),
        Phase::MaySend(epoch) => (1, behind(epoch), 0),
        Phase::Sent(epoch) => (2, behind(epoch), 0),
        Phase::Ended(epoch, Known::Done(answer)) => (3, behind(epoch), answer),
        Phase::Ended(epoch, Known::NotExecuted) => (4, behind(epoch), 0),
        Phase::Ended(epoch, Known::Unknown) => (5, behind(epoch), 0),
        Phase::Over => (6, 0, 0),
    };
    let request = match call.request {
        Request::NotSent => 0,
        Request::Waiting => 1,
        Request::Gone => 2,
        Request::Ran(answer) => 3 + answer,
    };
    let told = match call.told {
        None => 0,
        Some(Told::Nothing) => 1,
        Some(_) => 2,
    };
    let is_open = matches!(call.phase, Phase::Claimed(_) | Phase::MaySend(_) | Phase::Sent(_));
    let asked = if is_open { ticks_of(world.now_ms - call.asked_ms, owner_silence_ms_max()) } else { 0 };
    let is_waiting = call.request == Request::Waiting;
    let sent = if is_waiting { ticks_of(world.now_ms - call.sent_ms, TIMEOUT_MS) } else { 0 };
    let key = names.keys.get(usize::from(call.key)).copied().unwrap_or_default();
    let owner = names.owners.get(usize::from(call.owner)).copied().unwrap_or_default();
    let flags = u8::from(call.was_sent_before) | u8::from(call.was_paused) << 1 | told << 2;
    [key << 4 | owner, phase, epoch, known, request, asked, sent, flags]
}

/// The name that something had before the renaming.
fn old_name(names: &[u8], name: usize) -> usize {
    names.iter().position(|new| usize::from(*new) == name).unwrap_or_default()
}

fn owner_place(owner: &OwnerId, names: Names) -> u8 {
    let index = (0..OWNERS_MAX).find(|index| owner_id(*index) == *owner).unwrap_or_default();
    names.owners.get(index).copied().unwrap_or_default()
}

/// A time in ticks, capped where it makes no difference any more.
fn ticks_of(time_ms: u64, max_ms: u64) -> u8 {
    u8::try_from(time_ms.min(max_ms).div_ceil(TICK_MS)).unwrap_or(u8::MAX)
}
