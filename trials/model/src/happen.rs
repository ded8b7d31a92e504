//! What each action does to the world. Decisions of the product use the product's own functions: `step` in the store, and the
//! rules for answers to callers.

use servanda_contract::{refusal::EffectKnowledge, tool::EffectClass};
use servanda_effects::effect::{
    DispatchEnd, Effect, EffectEvent, EffectReply, EffectRule, EffectState, SettlementStatus, StoredAnswer,
    knowledge_after_attempt, knowledge_of_key, knowledge_of_unread_key, knowledge_to_report, knowledge_without_mark,
    owner_silence_ms_max, settlement_status,
};

use crate::{
    Action, Violation,
    action::is_asked_about,
    invariant,
    world::{
        Bounds, Call, Known, LEAP_MS, Life, Phase, Request, TICK_MS, TIMEOUT_MS, Told, WINDOW_MS, World, begin, claim,
        end_of, owner_id, run_of,
    },
};

/// The world after an action, or the promise that the action broke.
pub(crate) fn after(world: &World, bounds: &Bounds, action: Action) -> Result<World, Violation> {
    let mut next = world.clone();
    happen(&mut next, bounds, action)?;
    invariant::check(world, &next, bounds)?;
    // A call that can do nothing more is forgotten; that its client was told "done" is not.
    next.calls.retain(|call| call.phase != Phase::Over || call.request == Request::Waiting);
    Ok(next)
}

fn happen(world: &mut World, bounds: &Bounds, action: Action) -> Result<(), Violation> {
    match action {
        Action::Begin { key, owner } => call(world, bounds, key, owner),
        Action::BeginUnanswered { key, owner } => call_unanswered(world, bounds, key, owner),
        Action::Fence(index) => fence(world, bounds, index),
        Action::Send(index) => send(world, bounds, index),
        Action::Refused(index) => {
            world.happened.losses += 1;
            ends(world, index, Known::NotExecuted);
            Ok(())
        }
        Action::Run(index) => run(world, bounds, index),
        Action::Answer(index) => {
            if let Some(Call { request: Request::Ran(answer), .. }) = call_at(world, index) {
                ends(world, index, Known::Done(answer));
            }
            Ok(())
        }
        Action::Lose(index) => {
            let in_time = call_at(world, index).is_some_and(|call| world.now_ms < call.asked_ms + TIMEOUT_MS);
            world.happened.losses += u8::from(in_time);
            ends(world, index, Known::Unknown);
            Ok(())
        }
        Action::Drop(index) => {
            world.happened.losses += 1;
            change(world, index, |call| call.request = Request::Gone);
            Ok(())
        }
        Action::Settle(index) => settle(world, bounds, index),
        Action::AnswerUnrecorded(index) => answer_unrecorded(world, bounds, index),
        Action::Recover { key, owner } => {
            recover(world, bounds, key, owner);
            Ok(())
        }
        Action::Expire(key) => {
            world.apply(bounds, key, &EffectEvent::Expire);
            Ok(())
        }
        gateway_or_time => {
            pass(world, gateway_or_time);
            Ok(())
        }
    }
}

/// A client calls. If the store is away, it gets the answer for a key that could not be read.
fn call(world: &mut World, bounds: &Bounds, key: u8, owner: u8) -> Result<(), Violation> {
    world.happened.calls += 1;
    let index = add_call(world, key, owner);
    if !world.store.is_up {
        let known = knowledge_without_mark(bounds.class, false, knowledge_of_unread_key(true, bounds.rules));
        return tell(world, bounds, index, told_of(known));
    }
    let begun = EffectEvent::Begin(Box::new(begin(bounds, key, owner)));
    let (mut reply, mut asked) = (world.apply(bounds, key, &begun), EffectReply::Unknown);
    // The status tool is asked once, then the call tries again.
    if let EffectReply::Ask(claim) = reply {
        asked = ask(world, bounds, key, claim.epoch);
        reply = world.apply(bounds, key, &begun);
    }
    let effect = world.effect(key).cloned();
    match (reply, effect) {
        (EffectReply::Mine(claim), Some(effect)) => {
            change(world, index, |call| {
                call.was_sent_before = effect.was_sent_before();
                call.phase = match effect.state {
                    EffectState::Claimed => Phase::Claimed(claim.epoch),
                    _ => Phase::MaySend(claim.epoch),
                };
            });
            Ok(())
        }
        (EffectReply::Ask(_), effect) => {
            let may_be_under_way = matches!(asked, EffectReply::Running { .. });
            let reply = if may_be_under_way { asked } else { EffectReply::Unknown };
            tell(world, bounds, index, standing(&reply, effect.as_ref()))
        }
        (reply, effect) => tell(world, bounds, index, standing(&reply, effect.as_ref())),
    }
}

/// The store performs the request, its answer is lost, and the store cannot be asked afterwards either.
fn call_unanswered(world: &mut World, bounds: &Bounds, key: u8, owner: u8) -> Result<(), Violation> {
    world.happened.lost_acks += 1;
    world.happened.calls += 1;
    let index = add_call(world, key, owner);
    let reply = world.apply(bounds, key, &EffectEvent::Begin(Box::new(begin(bounds, key, owner))));
    if let EffectReply::Mine(claim) = reply {
        // The gateway looks for its mark later, and withdraws it.
        change(world, index, |call| call.phase = Phase::Ended(claim.epoch, Known::NotExecuted));
    }
    let known = knowledge_without_mark(bounds.class, true, knowledge_of_unread_key(true, bounds.rules));
    tell(world, bounds, index, told_of(known))
}

fn fence(world: &mut World, bounds: &Bounds, index: u8) -> Result<(), Violation> {
    let Some(Call { key, phase: Phase::Claimed(epoch), .. }) = call_at(world, index) else { return Ok(()) };
    let now_ms = world.now_ms;
    let reply = world.apply(bounds, key, &EffectEvent::Fence(claim(key, epoch)));
    let effect = world.effect(key).cloned();
    match (reply, effect) {
        (EffectReply::Mine(claim), Some(effect)) => {
            change(world, index, |call| {
                (call.phase, call.asked_ms) = (Phase::MaySend(claim.epoch), now_ms);
                call.was_sent_before = effect.was_sent_before();
            });
            Ok(())
        }
        (reply, effect) => {
            change(world, index, |call| call.phase = Phase::Over);
            tell(world, bounds, index, standing(&reply, effect.as_ref()))
        }
    }
}

/// Bytes leave only within the lease; repeatable calls may also use the gateway's own lease.
fn send(world: &mut World, bounds: &Bounds, index: u8) -> Result<(), Violation> {
    let Some(call) = call_at(world, index) else { return Ok(()) };
    let Phase::MaySend(epoch) = call.phase else { return Ok(()) };
    let own_holds = world.now_ms < call.asked_ms + owner_silence_ms_max();
    let repeatable = matches!(bounds.class, EffectClass::R | EffectClass::K);
    let owner_holds = world.owner(call.owner).is_some_and(|owner| world.now_ms < owner.lease_until_ms);
    let in_time = world.now_ms < call.asked_ms + TIMEOUT_MS;
    let holds = in_time && (own_holds || (repeatable && owner_holds));
    if !holds && bounds.rules.has(EffectRule::SendWithinLease) {
        ends(world, index, Known::NotExecuted);
        return Ok(());
    }
    invariant::check_turn(world, bounds, call.key)?;
    let now_ms = world.now_ms;
    change(world, index, |call| {
        (call.phase, call.request, call.sent_ms) = (Phase::Sent(epoch), Request::Waiting, now_ms);
    });
    Ok(())
}

/// The upstream performs it; an upstream that knows keys repeats its answer for a known key.
fn run(world: &mut World, bounds: &Bounds, index: u8) -> Result<(), Violation> {
    let Some(call) = call_at(world, index) else { return Ok(()) };
    let now_ms = world.now_ms;
    let Some(upstream) = world.upstream.get_mut(usize::from(call.key)) else { return Ok(()) };
    let knows = bounds.class == EffectClass::K && upstream.ran > 0 && now_ms < upstream.first_ms + WINDOW_MS;
    if !knows {
        upstream.ran += 1;
        upstream.first_ms = now_ms;
    }
    let answer = upstream.ran;
    change(world, index, |call| call.request = Request::Ran(answer));
    let told = call.told;
    invariant::check_run(world, bounds, call.key, told)
}

/// Records the end of a call in the ledger, and tells the client what the ledger allows.
fn settle(world: &mut World, bounds: &Bounds, index: u8) -> Result<(), Violation> {
    let Some(call) = call_at(world, index) else { return Ok(()) };
    let Phase::Ended(epoch, known) = call.phase else { return Ok(()) };
    let reply = world.apply(bounds, call.key, &EffectEvent::Settle(claim(call.key, epoch), end_of(known)));
    change(world, index, |call| call.phase = Phase::Over);
    let effect = world.effect(call.key).cloned();
    invariant::check_evidence(known, effect.as_ref())?;
    if call.told.is_some() {
        return Ok(());
    }
    let concluded = settlement_status(Some(&reply), bounds.rules);
    let told = match (concluded, known) {
        (SettlementStatus::Accepted, Known::Done(answer)) => Told::Done(answer),
        (SettlementStatus::Disagrees | SettlementStatus::NotYet, Known::Done(_)) => {
            let stored = effect.as_ref().filter(|effect| effect.state == EffectState::Completed);
            let answer = stored.and_then(|effect| effect.answer.as_ref()).and_then(run_of);
            answer.map_or(Told::Happened, Told::Done)
        }
        (_, known) => not_done(&call, known, concluded, effect.as_ref(), bounds),
    };
    tell(world, bounds, index, told)
}

/// The answer to a client whose call did nothing, or whose end the gateway does not know.
fn not_done(call: &Call, known: Known, concluded: SettlementStatus, effect: Option<&Effect>, bounds: &Bounds) -> Told {
    let attempt = match known {
        Known::NotExecuted => knowledge_after_attempt(EffectKnowledge::None, call.was_sent_before, bounds.rules),
        Known::Unknown | Known::Done(_) => EffectKnowledge::Unknown,
    };
    told_of(knowledge_to_report(attempt, concluded, effect, bounds.rules))
}

/// The ledger does not answer, so the upstream's answer is not reported as done.
fn answer_unrecorded(world: &mut World, bounds: &Bounds, index: u8) -> Result<(), Violation> {
    let Some(call) = call_at(world, index) else { return Ok(()) };
    let Phase::Ended(_, known) = call.phase else { return Ok(()) };
    let told = match known {
        Known::Done(_) => Told::Happened,
        Known::NotExecuted | Known::Unknown => not_done(&call, known, SettlementStatus::NotYet, None, bounds),
    };
    tell(world, bounds, index, told)
}

/// A gateway recovers a call: it sends it again, asks about it, or reports it as unknown.
fn recover(world: &mut World, bounds: &Bounds, key: u8, owner: u8) {
    let holds = |call: &Call| call.key == key && call.owner == owner && call.phase != Phase::Over;
    if world.calls.iter().any(holds) {
        return;
    }
    let reply = world.apply(bounds, key, &EffectEvent::Recover(owner_id(usize::from(owner))));
    match reply {
        EffectReply::Mine(claim) => {
            let index = add_call(world, key, owner);
            let was_sent_before = world.effect(key).is_some_and(Effect::was_sent_before);
            change(world, index, |call| {
                (call.phase, call.was_sent_before) = (Phase::MaySend(claim.epoch), was_sent_before);
                // No client waits for it.
                call.told = Some(Told::UnknownBefore);
            });
        }
        EffectReply::Ask(claim) => {
            ask(world, bounds, key, claim.epoch);
        }
        _ => {}
    }
}

/// The status tool says what the upstream did, and its answer counts.
fn ask(world: &mut World, bounds: &Bounds, key: u8, epoch: u64) -> EffectReply {
    debug_assert!(is_asked_about(bounds.class));
    let ran = world.upstream.get(usize::from(key)).map_or(0, |upstream| upstream.ran);
    let end = if ran > 0 {
        DispatchEnd::Completed(StoredAnswer::Known(String::new()))
    } else {
        DispatchEnd::Absent(String::new())
    };
    world.apply(bounds, key, &EffectEvent::Settle(claim(key, epoch), end))
}

fn pass(world: &mut World, action: Action) {
    let (now_ms, is_up) = (world.now_ms, world.store.is_up);
    match action {
        Action::Beat(index) => beat(world, index),
        Action::Pause(index) => {
            world.happened.pauses += 1;
            live(world, index, Life::Paused);
            for call in world.calls.iter_mut().filter(|call| call.owner == index && call.phase != Phase::Over) {
                call.was_paused = true;
            }
        }
        Action::Wake(index) => live(world, index, Life::Running),
        Action::Die(index) => {
            world.happened.deaths += 1;
            live(world, index, Life::Dead);
        }
        Action::StoreAway => {
            world.happened.outages += 1;
            world.store.is_up = false;
        }
        Action::StoreBack => {
            world.store.is_up = true;
            for owner in &mut world.owners {
                owner.beat_since_back = false;
                owner.late = owner.late.max(1);
            }
        }
        Action::Tick => {
            world.happened.ticks = world.happened.ticks.saturating_add(1);
            world.now_ms = now_ms + TICK_MS;
            too_late(world);
            let runs = |owner: &&mut crate::world::Owner| owner.life == Life::Running;
            for owner in world.owners.iter_mut().filter(runs).filter(|_| is_up) {
                owner.late += 1;
            }
        }
        Action::Leap => leap(world),
        _ => {}
    }
}

/// The upstream runs a request within its time limit, or not at all.
fn too_late(world: &mut World) {
    let now_ms = world.now_ms;
    let is_late = |call: &&mut Call| call.request == Request::Waiting && now_ms >= call.sent_ms + TIMEOUT_MS;
    for call in world.calls.iter_mut().filter(is_late) {
        call.request = Request::Gone;
    }
}

/// Much time passes, tick by tick, while all live gateways beat.
fn leap(world: &mut World) {
    world.happened.leaps += 1;
    world.now_ms += LEAP_MS;
    too_late(world);
    world.store.clock.seen_ms = world.now_ms;
    world.store.clock.ledger_ms += LEAP_MS;
    for index in 0..3 {
        if world.owner(index).is_some_and(|owner| owner.life == Life::Running) {
            beat(world, index);
        }
    }
}

fn beat(world: &mut World, index: u8) {
    let now = world.store.clock.at(world.now_ms);
    world.store.clock = world.store.clock.clock_to_store(now).unwrap_or(world.store.clock);
    let place = usize::from(index);
    if let (Some(owner), Some(heard)) = (world.owners.get_mut(place), world.store.heard_ms.get_mut(place)) {
        *heard = Some(now.ledger_ms);
        (owner.late, owner.beat_since_back) = (0, true);
        owner.lease_until_ms = world.now_ms + owner_silence_ms_max();
    }
}

fn live(world: &mut World, index: u8, life: Life) {
    if let Some(owner) = world.owners.get_mut(usize::from(index)) {
        (owner.life, owner.late) = (life, 1);
    }
}

fn add_call(world: &mut World, key: u8, owner: u8) -> u8 {
    let number = world.next;
    world.next = number.wrapping_add(1);
    world.calls.push(Call {
        number,
        key,
        owner,
        phase: Phase::Over,
        request: Request::NotSent,
        asked_ms: world.now_ms,
        sent_ms: 0,
        was_sent_before: false,
        was_paused: false,
        told: None,
    });
    number
}

fn call_at(world: &World, number: u8) -> Option<Call> {
    world.calls.iter().find(|call| call.number == number).copied()
}

fn change(world: &mut World, number: u8, changed: impl FnOnce(&mut Call)) {
    if let Some(call) = world.calls.iter_mut().find(|call| call.number == number) {
        changed(call);
    }
}

fn ends(world: &mut World, index: u8, known: Known) {
    change(world, index, |call| {
        if let Phase::MaySend(epoch) | Phase::Sent(epoch) = call.phase {
            call.phase = Phase::Ended(epoch, known);
        }
    });
}

/// Answers a client whose operation another call performs or performed.
fn standing(reply: &EffectReply, effect: Option<&Effect>) -> Told {
    match reply {
        EffectReply::Replay(answer) => run_of(answer).map_or(Told::Happened, Told::Done),
        EffectReply::Unknown => Told::Unknown,
        _ => match knowledge_of_key(effect) {
            EffectKnowledge::None => Told::Nothing,
            _ => Told::UnknownBefore,
        },
    }
}

fn told_of(known: EffectKnowledge) -> Told {
    match known {
        EffectKnowledge::None => Told::Nothing,
        EffectKnowledge::Happened => Told::Happened,
        EffectKnowledge::Unknown => Told::Unknown,
        EffectKnowledge::UnknownBefore => Told::UnknownBefore,
    }
}

fn tell(world: &mut World, bounds: &Bounds, index: u8, told: Told) -> Result<(), Violation> {
    change(world, index, |call| call.told = Some(told));
    match call_at(world, index) {
        Some(call) => invariant::check_told(world, bounds, &call, told),
        None => Ok(()),
    }
}
