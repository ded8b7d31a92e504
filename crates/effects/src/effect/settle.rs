//! What the ledger does with an end: of the current dispatch, of an earlier one, or stated by a person. An end
//! that says definitely what happened is never dropped: it settles the effect, or it is stored as a conflict.

use servanda_contract::tool::EffectClass;

use super::{
    Claim, Conflict, DispatchEnd, Effect, EffectContext, EffectReply, EffectRule, EffectState, EffectTransition,
    EffectWaitReason, ManualSettlement, Settlement, StoredAnswer,
};
use EffectState as State;

/// The reason of an effect that was settled after its call had ended unknown.
const LATE_ANSWER: &str = "the upstream answered after the deadline of the call, and that answer settles it";

pub(super) fn settle(effect: &Effect, claim: &Claim, end: &DispatchEnd, around: &EffectContext) -> EffectTransition {
    if effect.id != claim.id || effect.epoch < claim.epoch {
        return EffectTransition::reply(EffectReply::Stale);
    }
    if effect.epoch > claim.epoch {
        return late(effect, end, around);
    }
    let (state, answer, reason) = match (effect.state, end) {
        // I4: a late real answer of the same epoch settles an unknown outcome.
        (State::Dispatching | State::OutcomeUnknown, DispatchEnd::Completed(answer)) => {
            (State::Completed, Some(answer.clone()), lateness(effect, answer))
        }
        (State::Claimed | State::Dispatching | State::OutcomeUnknown, DispatchEnd::Failed(answer)) => {
            (State::FailedFinal, Some(answer.clone()), lateness(effect, answer))
        }
        // Nothing was sent this time; the outcome of what was sent before is still uncertain.
        (State::Dispatching, DispatchEnd::NotExecuted(why)) if effect.was_sent_before() => {
            (State::OutcomeUnknown, None, Some(why.clone()))
        }
        (State::Claimed | State::Dispatching, DispatchEnd::NotExecuted(why)) => {
            (State::FailedRetryable, None, Some(why.clone()))
        }
        (State::Dispatching | State::OutcomeUnknown, DispatchEnd::Absent(why)) if effect.class == EffectClass::Q => {
            let until_ms = may_be_at_work_until_ms(effect);
            if around.ledger_ms < until_ms && around.rules.has(EffectRule::AbsentAfterItsTime) {
                return EffectTransition::running(effect, until_ms, around);
            }
            (State::FailedRetryable, None, Some(why.clone()))
        }
        (State::Dispatching, DispatchEnd::Unknown(why)) => (State::OutcomeUnknown, None, Some(why.clone())),
        (State::Dispatching, DispatchEnd::Awaits(awaits, for_ms)) => return wait(effect, awaits, *for_ms, around),
        _ => return afterwards(effect, end, around),
    };
    EffectTransition { change: Some(settled(effect, state, answer, reason, around)), reply: EffectReply::Settled }
}

/// The reason of an effect that the upstream's own late answer settled. An effect that a status tool settled
/// has another reason.
fn lateness(effect: &Effect, answer: &StoredAnswer) -> Option<String> {
    let is_late = effect.state == State::OutcomeUnknown && !matches!(answer, StoredAnswer::Known(_));
    is_late.then(|| LATE_ANSWER.to_owned())
}

/// A person settles an unknown outcome, and nothing else (I4).
pub(super) fn settle_by_hand(effect: &Effect, by_hand: &ManualSettlement, around: &EffectContext) -> EffectTransition {
    if effect.state != State::OutcomeUnknown {
        return EffectTransition::reply(EffectReply::NotNow);
    }
    let ManualSettlement { epoch, completed, by, evidence } = by_hand.clone();
    if epoch.is_some_and(|seen| seen != effect.epoch) {
        return EffectTransition::reply(EffectReply::Stale);
    }
    let (state, answer) = if completed {
        let known = StoredAnswer::Known(format!("a person settled it as completed: {evidence}"));
        (State::Completed, Some(known))
    } else {
        (State::FailedRetryable, None)
    };
    let mut settled = settled(effect, state, answer, effect.reason.clone(), around);
    settled.settlement = Some(Settlement { by, evidence, at_ms: around.now_ms });
    EffectTransition { change: Some(settled), reply: EffectReply::Settled }
}

/// The effect after its end is known.
pub(super) fn settled(
    effect: &Effect,
    state: EffectState,
    answer: Option<StoredAnswer>,
    reason: Option<String>,
    around: &EffectContext,
) -> Effect {
    let mut settled = Effect { state, answer, reason, awaits: None, ..effect.clone() };
    settled.changed_ms = around.now_ms;
    settled.expires_ms = around.ledger_ms.saturating_add(settled.order.dedup_window_ms);
    // An answer that no call can ask for again is not stored, and an effect that cannot be sent again needs no
    // arguments.
    if !settled.order.keeps_answer && matches!(settled.answer, Some(StoredAnswer::Result(_))) {
        let known = match &settled.reason {
            Some(reason) if reason == LATE_ANSWER => {
                "its answer came late and was not stored: the call had no key, so it cannot be asked for again"
            }
            _ => "its caller got the answer; it was not stored, because the call had no key",
        };
        settled.answer = Some(StoredAnswer::Known(known.to_owned()));
    }
    match state {
        State::Completed | State::FailedFinal => settled.order.arguments = bytes::Bytes::new(),
        // It never ran, so earlier dispatches do not count against the next attempt.
        State::FailedRetryable => settled.forget_dispatches(),
        // The upstream may still be working on it while a status tool does not know it yet, or on an earlier
        // dispatch whose owner vanished.
        State::OutcomeUnknown if effect.class == EffectClass::Q || effect.was_sent_before() => {
            settled.overdue_at_ms = effect.at_work_until_ms();
        }
        // The dispatch itself says that it has ended, so it does not block other effects.
        State::OutcomeUnknown => settled.overdue_at_ms = around.ledger_ms,
        _ => {}
    }
    settled
}

/// How long an upstream may be working on an effect that its status tool does not find.
fn may_be_at_work_until_ms(effect: &Effect) -> u64 {
    match effect.state {
        State::OutcomeUnknown => effect.overdue_at_ms,
        _ => effect.at_work_until_ms(),
    }
}

/// An end of an earlier epoch: it is evidence about the effect only if it says definitely what happened.
fn late(effect: &Effect, end: &DispatchEnd, around: &EffectContext) -> EffectTransition {
    let (DispatchEnd::Completed(answer) | DispatchEnd::Failed(answer)) = end else {
        return EffectTransition::reply(EffectReply::Stale);
    };
    if !around.rules.has(EffectRule::LateEvidence) {
        return EffectTransition::reply(EffectReply::Stale);
    }
    let state = if matches!(end, DispatchEnd::Completed(_)) { State::Completed } else { State::FailedFinal };
    match effect.state {
        // An upstream that deduplicates keys, or a tool that changes nothing, gives the later dispatch the same
        // answer.
        State::Dispatching | State::OutcomeUnknown if matches!(effect.class, EffectClass::K | EffectClass::R) => {
            let change = settled(effect, state, Some(answer.clone()), None, around);
            EffectTransition { change: Some(change), reply: EffectReply::Settled }
        }
        // A later epoch exists only because the ledger held that the earlier one never ran.
        State::Claimed | State::Dispatching | State::OutcomeUnknown => {
            let change = settled(effect, state, Some(answer.clone()), None, around);
            contradicted(&change, effect.state, end, around)
        }
        _ => afterwards(effect, end, around),
    }
}

/// An end for an effect that has one already.
fn afterwards(effect: &Effect, end: &DispatchEnd, around: &EffectContext) -> EffectTransition {
    match (effect.state, end) {
        (State::Completed, DispatchEnd::Completed(answer)) | (State::FailedFinal, DispatchEnd::Failed(answer)) => {
            again(effect, answer, around)
        }
        // The same end, offered again by an owner that did not learn that it was accepted.
        (State::OutcomeUnknown, DispatchEnd::Unknown(_))
        | (State::FailedRetryable, DispatchEnd::NotExecuted(_) | DispatchEnd::Absent(_)) => {
            EffectTransition::reply(EffectReply::Settled)
        }
        (State::FailedRetryable, DispatchEnd::Completed(answer)) => {
            let change = settled(effect, State::Completed, Some(answer.clone()), None, around);
            contradicted(&change, effect.state, end, around)
        }
        (State::FailedRetryable, DispatchEnd::Failed(answer)) => {
            // It was dispatched after all.
            let dispatches = effect.dispatches.max(1);
            let change = settled(effect, State::FailedFinal, Some(answer.clone()), None, around);
            EffectTransition { change: Some(Effect { dispatches, ..change }), reply: EffectReply::Settled }
        }
        (State::Completed, DispatchEnd::Failed(_)) | (State::FailedFinal, DispatchEnd::Completed(_)) => {
            contradicted(effect, effect.state, end, around)
        }
        _ => EffectTransition::reply(EffectReply::Stale),
    }
}

/// The same kind of end again. The ledger keeps the first answer; if it had none, it stores this one.
fn again(effect: &Effect, answer: &StoredAnswer, around: &EffectContext) -> EffectTransition {
    let is_kept = match (&effect.answer, answer) {
        (Some(StoredAnswer::Result(first)), StoredAnswer::Result(second)) => first == second,
        (Some(StoredAnswer::Known(_)), StoredAnswer::Result(_)) if effect.order.keeps_answer => {
            let change = settled(effect, effect.state, Some(answer.clone()), None, around);
            return EffectTransition { change: Some(change), reply: EffectReply::Settled };
        }
        _ => true,
    };
    EffectTransition::reply(if is_kept { EffectReply::Settled } else { EffectReply::Stale })
}

fn contradicted(effect: &Effect, was: EffectState, end: &DispatchEnd, around: &EffectContext) -> EffectTransition {
    if effect.conflict.is_some() && effect.state == was {
        return EffectTransition::reply(EffectReply::Stale);
    }
    let says = match end {
        DispatchEnd::Completed(_) => "the upstream answered that it was done",
        _ => "the upstream answered that it failed",
    };
    let conflict = Conflict { state: was, says: says.to_owned(), at_ms: around.now_ms };
    let change = Effect { conflict: Some(conflict), changed_ms: around.now_ms, ..effect.clone() };
    EffectTransition { change: Some(change), reply: EffectReply::Contradicted }
}

fn wait(effect: &Effect, awaits: &EffectWaitReason, for_ms: u64, around: &EffectContext) -> EffectTransition {
    let overdue_at_ms = around.ledger_ms.saturating_add(for_ms);
    let waiting = Effect { awaits: Some(awaits.clone()), overdue_at_ms, changed_ms: around.now_ms, ..effect.clone() };
    EffectTransition { change: Some(waiting), reply: EffectReply::Settled }
}
