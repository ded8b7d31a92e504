//! What must never happen, in any history.

use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{Effect, EffectState};

use crate::{
    Violation,
    world::{Bounds, Call, Known, Life, Phase, Request, Told, World, is_done},
};

/// Checks every step: an unknown effect is not held by a live gateway, and what was reported as done stays done.
pub(crate) fn check(before: &World, after: &World, bounds: &Bounds) -> Result<(), Violation> {
    for key in 0..bounds.keys {
        let (was, is) = (before.effect(key), after.effect(key));
        let became_unknown = is.is_some_and(|effect| effect.state == EffectState::OutcomeUnknown)
            && was.is_some_and(|effect| effect.state == EffectState::Dispatching);
        if let Some(effect) = is.filter(|_| became_unknown)
            && after.calls.iter().any(|call| is_held(after, call, key, effect.epoch))
        {
            return Err(Violation::UnknownWhileHeld);
        }
        let told = after.told_done.get(usize::from(key)).copied().flatten();
        let stays = is.is_some_and(|effect| matches!(effect.state, EffectState::Completed | EffectState::Expired));
        if told.is_some() && !stays {
            return Err(Violation::DoneUndone);
        }
    }
    Ok(())
}

/// Checks an answer to a client.
pub(crate) fn check_told(world: &mut World, bounds: &Bounds, call: &Call, told: Told) -> Result<(), Violation> {
    let key = usize::from(call.key);
    let ran = world.upstream.get(key).map_or(0, |upstream| upstream.ran);
    let done = world.told_done.get(key).copied().flatten();
    match told {
        Told::Done(answer) => {
            if !is_done(world.effect(call.key)) || ran == 0 || done.is_some_and(|done| done != answer) {
                return Err(Violation::DoneUndone);
            }
            if let Some(place) = world.told_done.get_mut(key) {
                *place = Some(answer);
            }
        }
        // Class R changes nothing, however often it runs.
        Told::Nothing if bounds.class != EffectClass::R => {
            let may_run = |other: &&Call| other.key == call.key && other.request == Request::Waiting;
            if ran > 0 || done.is_some() || world.calls.iter().any(|other| may_run(&other)) {
                return Err(Violation::NothingDenied);
            }
        }
        Told::Happened if ran == 0 => return Err(Violation::HappenedInvented),
        // A gateway that cannot read the ledger does not know, and neither does the ledger when the window is over.
        Told::Unknown if done.is_some() && world.store.is_up && !is_expired(world.effect(call.key)) => {
            return Err(Violation::DoneUndone);
        }
        Told::Nothing | Told::Happened | Told::Unknown | Told::UnknownBefore => {}
    }
    Ok(())
}

/// Checks what the upstream does: it performs a key once, and never for a client that was told that nothing was done.
pub(crate) fn check_run(world: &World, bounds: &Bounds, key: u8, told: Option<Told>) -> Result<(), Violation> {
    let ran = world.upstream.get(usize::from(key)).map_or(0, |upstream| upstream.ran);
    if bounds.class != EffectClass::R && ran > 1 {
        return Err(Violation::RanTwice);
    }
    if bounds.class != EffectClass::R && told == Some(Told::Nothing) {
        return Err(Violation::NothingDenied);
    }
    Ok(())
}

/// Checks bytes that leave: no call of another key that changes the same account is running. A call that its own gateway gave
/// up is ignored, because only the upstream knows about it.
pub(crate) fn check_turn(world: &World, bounds: &Bounds, key: u8) -> Result<(), Violation> {
    // An upstream that knows keys repeats its answer, and does nothing.
    let is_answered = |key: u8| bounds.class == EffectClass::K && has_run(world, key);
    let at_work = |other: &&Call| {
        other.key != key && other.request == Request::Waiting && other.phase != Phase::Over && !is_answered(other.key)
    };
    if is_answered(key) {
        return Ok(());
    }
    if world.calls.iter().any(|other| at_work(&other)) { Err(Violation::TwoAtOnce) } else { Ok(()) }
}

/// Checks an end that says what happened: the ledger holds it afterwards, or a conflict.
pub(crate) fn check_evidence(known: Known, effect: Option<&Effect>) -> Result<(), Violation> {
    let is_definite = matches!(known, Known::Done(_));
    let is_taken = effect.is_some_and(|effect| {
        matches!(effect.state, EffectState::Completed | EffectState::Expired) || effect.conflict.is_some()
    });
    if is_definite && !is_taken { Err(Violation::EvidenceDropped) } else { Ok(()) }
}

fn has_run(world: &World, key: u8) -> bool {
    world.upstream.get(usize::from(key)).is_some_and(|upstream| upstream.ran > 0)
}

fn is_expired(effect: Option<&Effect>) -> bool {
    effect.is_some_and(|effect| effect.state == EffectState::Expired)
}

/// Whether a live gateway that was not stopped meanwhile holds the dispatch of that epoch.
fn is_held(world: &World, call: &Call, key: u8, epoch: u64) -> bool {
    let holds = match call.phase {
        Phase::MaySend(own) | Phase::Sent(own) | Phase::Ended(own, Known::Done(_)) => own == epoch,
        _ => false,
    };
    let runs = world.owner(call.owner).is_some_and(|owner| owner.life == Life::Running);
    call.key == key && holds && runs && !call.was_paused
}
