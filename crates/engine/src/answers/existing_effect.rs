//! The refusals for a call whose effect already exists: by what the store says about the effect. A pure table.
//!
//! Deliberately not here: the answer of an operation that is already done, which is checked like any answer.

use servanda_contract::{
    CallId, GateName, Refusal, TaxonomyClass, Timestamp, refusal::EffectKnowledge, taxonomy::NextAction,
};
use servanda_effects::effect::{Effect, EffectId, EffectReply, EffectWaitReason, knowledge_of_key};
use servanda_gates::OPERATION_ARGUMENT;

use super::refusals;

/// The refusal for a reply. It claims no less than what the ledger says of the key. If the key was used for another payload, this payload
/// did nothing.
pub(crate) fn refusal(call_id: &CallId, reply: &EffectReply, effect: Option<&Effect>) -> Refusal {
    let mut refusal = refusal_of_reply(call_id, reply, effect);
    let is_about_key = !matches!(reply, EffectReply::Mismatch | EffectReply::Twin(_));
    if is_about_key && refusal.effect == EffectKnowledge::None {
        refusal.effect = match knowledge_of_key(effect) {
            EffectKnowledge::None => EffectKnowledge::None,
            _ => EffectKnowledge::UnknownBefore,
        };
    }
    refusal
}

fn refusal_of_reply(call_id: &CallId, reply: &EffectReply, effect: Option<&Effect>) -> Refusal {
    let call_id = call_id.clone();
    let handle = effect.map(|effect| &effect.id);
    match reply {
        EffectReply::Running { retry_after_ms, awaits } => running(call_id, *retry_after_ms, awaits.as_ref(), handle),
        EffectReply::Mismatch => mismatch(call_id),
        EffectReply::Unknown => unknown(call_id, effect),
        EffectReply::Twin(twin) => blind_retry(call_id, twin),
        EffectReply::KeyExpired => expired(call_id),
        EffectReply::Blocked(_) => *refusals::turn_not_reached(call_id),
        EffectReply::NotApproved(reply) => *super::approvals::not_consumed(&call_id, reply),
        EffectReply::Mine(_)
        | EffectReply::Replay(_)
        | EffectReply::Ask(_)
        | EffectReply::Settled
        | EffectReply::Contradicted
        | EffectReply::Stale
        | EffectReply::NotNow
        | EffectReply::NotFound => not_claimed(call_id),
    }
}

/// The operation was done before, and its answer is no longer stored.
pub(crate) fn answer_gone(call_id: &CallId, known: &str, handle: &EffectId) -> Refusal {
    let mut refusal = Refusal::new(
        call_id.clone(),
        GateName::Observe,
        TaxonomyClass::ObservationNormalizationFail,
        format!("the operation was done before, but its answer is no longer available: {known}"),
        "do not repeat it; look at the target with a read-only tool".to_owned(),
    )
    .with_effect(EffectKnowledge::Happened)
    .with_handle(handle.as_str());
    refusal.next_action = NextAction::RefreshStateAndReplan;
    refusal
}

fn running(
    call_id: CallId,
    retry_after_ms: u64,
    awaits: Option<&EffectWaitReason>,
    handle: Option<&EffectId>,
) -> Refusal {
    let why = match awaits {
        None => "is under way".to_owned(),
        Some(EffectWaitReason::Input(_)) => "waits for the input that the upstream asked for".to_owned(),
        Some(EffectWaitReason::Task(id)) => format!("is under way as the task `{id}`"),
    };
    let mut refusal = Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::IdempotencyConflict,
        format!("the same operation {why}; it is not begun a second time"),
        "wait, then make the same call again with the same key: it is answered with the result".to_owned(),
    );
    refusal.retry_after_ms = Some(retry_after_ms);
    refusal.handle = handle.map(ToString::to_string);
    refusal
}

fn mismatch(call_id: CallId) -> Refusal {
    Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::SignatureMismatch,
        "the key was used before for other arguments, so nothing was sent".to_owned(),
        "send the same arguments; for another operation, use another key".to_owned(),
    )
}

/// The operation was sent before, and its outcome is unknown.
fn unknown(call_id: CallId, effect: Option<&Effect>) -> Refusal {
    let handle = effect.map_or_else(|| "HANDLE".to_owned(), |effect| effect.id.to_string());
    let sent_before = "the operation was sent before and its outcome is unknown; it is not sent again".to_owned();
    let mut refusal = Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::UnknownError,
        effect.and_then(lost_time).unwrap_or(sent_before),
        "do not try another way; look at the target with a read-only tool and tell the user".to_owned(),
    )
    .for_operators(format!("`servanda effects show {handle}` says how to settle it"))
    .with_effect(EffectKnowledge::Unknown);
    (refusal.retryable, refusal.fail_closed, refusal.escalate) = (false, true, true);
    refusal.next_action = NextAction::StopAndTellUser;
    refusal.handle = effect.map(|effect| effect.id.to_string());
    refusal
}

/// The message for a key that may have been used at a time that the ledger has lost.
fn lost_time(effect: &Effect) -> Option<String> {
    let from_ms = effect.first_dispatched_ms.filter(|_| effect.is_from_lost_window())?;
    let from = Timestamp::from_unix_ms(from_ms);
    Some(format!(
        "this ledger lost what it recorded from {from} until a person accepted the loss; it is unknown whether the key was \
         used in that time, so the call is not sent"
    ))
}

/// The same payload without a key ended unknown. The caller that sends it again may not know that.
fn blind_retry(call_id: CallId, twin: &EffectId) -> Refusal {
    let mut refusal = Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::IdempotencyConflict,
        "not sent: an identical call without a key may have been done".to_owned(),
        format!("look at the target; if it is a new operation, name it in `{OPERATION_ARGUMENT}`"),
    )
    .for_operators(format!("`servanda effects show {twin}` says how to settle it"))
    .with_handle(twin.as_str());
    refusal.retryable = false;
    refusal.next_action = NextAction::RefreshStateAndReplan;
    refusal
}

/// The same payload without a key was reported as unknown to its caller, and was done: its answer came late.
pub(crate) fn done_late(call_id: CallId, effect: &EffectId) -> Refusal {
    let mut refusal = Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::IdempotencyConflict,
        "not sent: the earlier identical call was done, its answer came late".to_owned(),
        format!("do not repeat it; name a new operation in `{OPERATION_ARGUMENT}`"),
    )
    .for_operators(format!("`servanda effects show {effect}` has the first call"))
    .with_handle(effect.as_str())
    .with_effect(EffectKnowledge::Happened);
    refusal.retryable = false;
    refusal.next_action = NextAction::RefreshStateAndReplan;
    refusal
}

fn expired(call_id: CallId) -> Refusal {
    let mut refusal = Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::IdempotencyConflict,
        "the key expired: it was used once, and its answer is no longer stored".to_owned(),
        "check whether the operation was done; use a new key for a new operation".to_owned(),
    );
    refusal.retryable = false;
    refusal.next_action = NextAction::RefreshStateAndReplan;
    refusal
}

fn not_claimed(call_id: CallId) -> Refusal {
    Refusal::new(
        call_id,
        GateName::Fence,
        TaxonomyClass::DependencyUnavailable,
        "another call changed the operation at the same moment, so nothing was sent".to_owned(),
        "make the same call again with the same key".to_owned(),
    )
    .with_next_action(NextAction::RetryWithSameKey)
}
