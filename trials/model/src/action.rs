//! Everything that can happen, one step at a time: to clients, gateways, the store, the upstream and the time.

use servanda_contract::tool::EffectClass;

use crate::world::{Bounds, Life, OWNERS_MAX, Phase, Request, TIMEOUT_MS, World};

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// A client calls with a key, at a gateway.
    Begin {
        /// The key.
        key: u8,
        /// The gateway.
        owner: u8,
    },
    /// The same, but the store's answer is lost, and so is the question that follows.
    BeginUnanswered {
        /// The key.
        key: u8,
        /// The gateway.
        owner: u8,
    },
    /// A claimed call is fenced and may be sent.
    Fence(u8),
    /// Its bytes leave, if its lease holds.
    Send(u8),
    /// The upstream cannot be reached: no byte left.
    Refused(u8),
    /// The upstream performs it.
    Run(u8),
    /// The upstream answers.
    Answer(u8),
    /// The connection is lost, or the time limit is over.
    Lose(u8),
    /// The request is dropped at the upstream and never runs.
    Drop(u8),
    /// A gateway records in the ledger how its call ended.
    Settle(u8),
    /// A gateway answers its client before the ledger has answered.
    AnswerUnrecorded(u8),
    /// A gateway recovers a key that was left behind.
    Recover {
        /// The key.
        key: u8,
        /// The gateway.
        owner: u8,
    },
    /// The store forgets the answer of a key whose window is over.
    Expire(u8),
    /// A gateway reports that it lives.
    Beat(u8),
    /// A gateway is stopped.
    Pause(u8),
    /// A gateway resumes.
    Wake(u8),
    /// A gateway dies.
    Die(u8),
    /// The store goes away.
    StoreAway,
    /// The store is back.
    StoreBack,
    /// Some time passes.
    Tick,
    /// Much time passes.
    Leap,
}

/// The most ticks that a live gateway beats late while the store is up.
const LATE_TICKS_MAX: u8 = 2;

/// Everything that can happen next.
pub(crate) fn possible(world: &World, bounds: &Bounds) -> Vec<Action> {
    let mut actions = Vec::new();
    of_clients(world, bounds, &mut actions);
    for call in &world.calls {
        let index = call.number;
        let runs = world.owner(call.owner).is_some_and(|owner| owner.life == Life::Running);
        let losses_left = world.happened.losses < bounds.losses;
        if call.request == Request::Waiting {
            actions.push(Action::Run(index));
            if losses_left {
                actions.push(Action::Drop(index));
            }
        }
        if !runs {
            continue;
        }
        match call.phase {
            Phase::Claimed(_) if world.store.is_up => actions.push(Action::Fence(index)),
            Phase::MaySend(_) => {
                actions.push(Action::Send(index));
                if losses_left {
                    actions.push(Action::Refused(index));
                }
            }
            Phase::Sent(_) => {
                if matches!(call.request, Request::Ran(_)) {
                    actions.push(Action::Answer(index));
                }
                if losses_left || world.now_ms >= call.asked_ms + TIMEOUT_MS {
                    actions.push(Action::Lose(index));
                }
            }
            Phase::Ended(..) if world.store.is_up => actions.push(Action::Settle(index)),
            Phase::Ended(..) if call.told.is_none() => actions.push(Action::AnswerUnrecorded(index)),
            _ => {}
        }
    }
    of_gateways(world, bounds, &mut actions);
    of_time(world, bounds, &mut actions);
    actions
}

fn of_clients(world: &World, bounds: &Bounds, actions: &mut Vec<Action>) {
    if world.happened.calls >= bounds.calls {
        return;
    }
    for owner in running(world) {
        for key in 0..bounds.keys {
            actions.push(Action::Begin { key, owner });
            if world.store.is_up && world.happened.lost_acks < bounds.lost_acks {
                actions.push(Action::BeginUnanswered { key, owner });
            }
        }
    }
}

fn of_gateways(world: &World, bounds: &Bounds, actions: &mut Vec<Action>) {
    for index in 0..bounds.owners {
        let Some(owner) = world.owner(index) else { continue };
        match owner.life {
            Life::Running => {
                if world.store.is_up {
                    if owner.late > 0 || !owner.beat_since_back {
                        actions.push(Action::Beat(index));
                    }
                    let keys = (0..bounds.keys).filter(|key| world.effect(*key).is_some());
                    actions.extend(keys.map(|key| Action::Recover { key, owner: index }));
                }
                if world.happened.pauses < bounds.pauses {
                    actions.push(Action::Pause(index));
                }
                if world.happened.deaths < bounds.deaths {
                    actions.push(Action::Die(index));
                }
            }
            Life::Paused => actions.push(Action::Wake(index)),
            Life::Dead => {}
        }
    }
}

fn of_time(world: &World, bounds: &Bounds, actions: &mut Vec<Action>) {
    let all =
        |holds: fn(&crate::world::Owner) -> bool| running(world).filter_map(|owner| world.owner(owner)).all(holds);
    if world.store.is_up {
        // A store that is up stays long enough for a live gateway to beat once.
        if world.happened.outages < bounds.outages && all(|owner| owner.beat_since_back) {
            actions.push(Action::StoreAway);
        }
    } else {
        actions.push(Action::StoreBack);
    }
    // A live gateway may beat late, but not for ever.
    let beats = !world.store.is_up || all(|owner| owner.late < LATE_TICKS_MAX);
    if bounds.ticks.is_none_or(|ticks| world.happened.ticks < ticks) && beats {
        actions.push(Action::Tick);
    }
    if world.happened.leaps > 0 && world.store.is_up {
        let keys = (0..bounds.keys).filter(|key| world.effect(*key).is_some());
        actions.extend(keys.map(Action::Expire));
    }
    // Nothing is running during a leap: ticks show what a long time does to a running call.
    let quiet = world.calls.iter().all(|call| !is_waited_for(world, call));
    if world.happened.leaps < bounds.leaps && quiet && beats {
        actions.push(Action::Leap);
    }
}

fn is_waited_for(world: &World, call: &crate::world::Call) -> bool {
    let runs = world.owner(call.owner).is_some_and(|owner| owner.life == Life::Running);
    runs && call.phase != Phase::Over
}

fn running(world: &World) -> impl Iterator<Item = u8> + '_ {
    let indices = (0..OWNERS_MAX).filter_map(|index| u8::try_from(index).ok());
    indices.filter(|index| world.owner(*index).is_some_and(|owner| owner.life == Life::Running))
}

/// Whether the gateway asks about calls of a class instead of sending them again.
pub(crate) fn is_asked_about(class: EffectClass) -> bool {
    class == EffectClass::Q
}
