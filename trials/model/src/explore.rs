//! Goes through every history within the bounds, breadth first, so that a promise that breaks is shown by a shortest history. Two
//! states that differ only in what time it is are one.

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher as _},
};

use servanda_gates::effect::{Effect, StoredAnswer};

use crate::{
    Action, Violation,
    action::possible,
    happen::after,
    world::{Bounds, KEYS_MAX, LEAP_MS, OWNERS_MAX, Phase, World},
};

/// What came of an exploration.
#[derive(Debug)]
pub enum Explored {
    /// Every state within the bounds, and no promise was broken.
    Exhausted {
        /// How many states there are.
        states: usize,
        /// How long the longest of the shortest histories is.
        depth: usize,
    },
    /// A shortest history that breaks a promise.
    Broken {
        /// Which promise.
        violation: Violation,
        /// What happened, in order.
        history: Vec<Action>,
        /// How many states were looked at.
        states: usize,
    },
    /// There were more states than were asked for.
    TooMany {
        /// So many.
        states: usize,
    },
}

/// How a state was reached first: from which one, and by what.
type Reached = HashMap<u128, (u128, Action)>;

/// Explores everything within the bounds. `wanted` says which broken promises count.
pub fn explore(bounds: &Bounds, states_max: usize, wanted: impl Fn(Violation) -> bool) -> Explored {
    let first = World::new(bounds);
    let root = fingerprint(&first);
    let mut reached: Reached = HashMap::new();
    let mut layer = vec![(root, first)];
    let (mut states, mut depth) = (1, 0);
    while !layer.is_empty() {
        let mut next = Vec::new();
        for (from, world) in layer {
            for action in possible(&world, bounds) {
                match after(&world, bounds, action) {
                    Err(violation) if wanted(violation) => {
                        let mut history = history_of(&reached, root, from);
                        history.push(action);
                        return Explored::Broken { violation, history, states };
                    }
                    // A history that is not looked for ends here.
                    Err(_) => {}
                    Ok(world) => {
                        let print = fingerprint(&world);
                        if print != root && !reached.contains_key(&print) {
                            reached.insert(print, (from, action));
                            next.push((print, world));
                            states += 1;
                        }
                    }
                }
            }
            if states > states_max {
                return Explored::TooMany { states };
            }
        }
        depth += usize::from(!next.is_empty());
        layer = next;
    }
    Explored::Exhausted { states, depth }
}

fn history_of(reached: &Reached, root: u128, last: u128) -> Vec<Action> {
    let mut history = Vec::new();
    let mut at = last;
    while at != root {
        let Some((from, action)) = reached.get(&at) else { break };
        history.push(*action);
        at = *from;
    }
    history.reverse();
    history
}

/// What tells states apart, in 128 bits: two of ten million are the same by chance once in 10^24 explorations.
fn fingerprint(world: &World) -> u128 {
    let [mut one, mut other] = [DefaultHasher::new(), DefaultHasher::new()];
    0_u8.hash(&mut one);
    1_u8.hash(&mut other);
    let mut both = Both(&mut one, &mut other);
    hash_world(world, &mut both);
    u128::from(one.finish()) << 64 | u128::from(other.finish())
}

struct Both<'a>(&'a mut DefaultHasher, &'a mut DefaultHasher);

impl std::hash::Hasher for Both<'_> {
    fn finish(&self) -> u64 {
        self.0.finish()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.1.write(bytes);
    }
}

fn hash_world(world: &World, hasher: &mut Both<'_>) {
    let now_ms = world.now_ms;
    let ledger_ms = world.store.clock.at(now_ms).ledger_ms;
    (world.store.is_up, world.happened, world.upstream.map(|upstream| upstream.ran), world.told_done).hash(hasher);
    for upstream in &world.upstream {
        since(now_ms, upstream.first_ms).hash(hasher);
    }
    since(now_ms, world.store.clock.seen_ms).hash(hasher);
    for place in 0..OWNERS_MAX {
        if let (Some(owner), Some(heard)) = (world.owners.get(place), world.store.heard_ms.get(place)) {
            (owner.life, owner.late, owner.beat_since_back, since(owner.lease_until_ms, now_ms)).hash(hasher);
            heard.map(|heard_ms| since(ledger_ms, heard_ms)).hash(hasher);
        }
    }
    for call in &world.calls {
        let (asked, sent) = match call.phase {
            Phase::Over => (0, since(now_ms, call.sent_ms)),
            _ => (since(now_ms, call.asked_ms), since(now_ms, call.sent_ms)),
        };
        (call.key, call.owner, call.phase, call.request, asked, sent).hash(hasher);
        (call.was_sent_before, call.was_paused, call.told).hash(hasher);
    }
    for effect in world.store.effects.iter().take(KEYS_MAX) {
        effect.is_some().hash(hasher);
        if let Some(effect) = effect {
            hash_effect(effect, now_ms, ledger_ms, hasher);
        }
    }
}

fn hash_effect(effect: &Effect, now_ms: u64, ledger_ms: u64, hasher: &mut Both<'_>) {
    (effect.state, effect.epoch, &effect.owner, effect.dispatches).hash(hasher);
    let ahead = |until_ms: u64| since(until_ms, ledger_ms);
    (ahead(effect.lease_until_ms), ahead(effect.overdue_at_ms), ahead(effect.expires_ms)).hash(hasher);
    effect.first_dispatched_ms.map(|first_ms| since(now_ms, first_ms)).hash(hasher);
    effect.first_dispatched_ledger_ms.map(|first_ms| since(ledger_ms, first_ms)).hash(hasher);
    match &effect.answer {
        None => 0_u8.hash(hasher),
        Some(StoredAnswer::Result(bytes)) => bytes.hash(hasher),
        Some(StoredAnswer::Refusal(_) | StoredAnswer::Known(_)) => 1_u8.hash(hasher),
    }
    effect.conflict.is_some().hash(hasher);
}

/// How much later one time is than another; beyond any window it makes no difference any more.
fn since(later_ms: u64, earlier_ms: u64) -> u64 {
    later_ms.saturating_sub(earlier_ms).min(LEAP_MS)
}
