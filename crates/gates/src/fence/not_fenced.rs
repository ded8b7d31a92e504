//! Why a call is not sent, and the wording of the fence's refusals.

use std::sync::Arc;

use servanda_contract::{Digest, GateName, Refusal, TaxonomyClass, refusal::EffectKnowledge, taxonomy::NextAction};
use servanda_effects::{
    JournalError,
    effect::{self, ClientKey, Effect, EffectReply, EffectRules},
};

use crate::{Permit, budget::Cleared};

/// A call that is not sent, unchanged: nothing was done with it.
#[derive(Debug)]
pub struct NotFenced {
    /// The call.
    pub cleared: Cleared,
    /// Why.
    pub why: NotFencedReason,
}

/// Why a call is not sent.
#[derive(Debug)]
pub enum NotFencedReason {
    /// It could not be recorded.
    NotOnRecord(Box<Refusal>),
    /// This call may not dispatch the effect; the store's reply says why.
    Reply {
        /// The store's reply.
        reply: EffectReply,
        /// The effect; none if there is none.
        effect: Option<Arc<Effect>>,
    },
}

/// A mark that was not made as far as the gateway knows, and what the store says about the key.
pub(super) struct FailedMark<'a> {
    pub(super) key: &'a ClientKey,
    pub(super) request: Digest,
    pub(super) error: &'a JournalError,
    pub(super) found: Result<Option<Effect>, JournalError>,
}

/// Why a call whose mark could not be made is not sent. A store that cannot write may still be readable: a key
/// whose effect is done is answered. Otherwise the refusal claims no less than what earlier calls with the key
/// may have done.
pub(super) fn mark_failure_reason(permit: &Permit, unmarked: FailedMark<'_>) -> NotFencedReason {
    let FailedMark { key, request, error, found } = unmarked;
    if let Ok(Some(found)) = &found
        && let Some(answer) = effect::replay(found, request)
    {
        return NotFencedReason::Reply { reply: EffectReply::Replay(answer), effect: Some(Arc::new(found.clone())) };
    }
    let of_key = match &found {
        Ok(Some(found)) if found.request != request => EffectKnowledge::None,
        Ok(found) => effect::knowledge_of_key(found.as_ref()),
        Err(_) => effect::knowledge_of_unread_key(key.can_come_again(), EffectRules::IN_FORCE),
    };
    let mut refusal = off_record(permit, &error.to_string());
    match effect::knowledge_without_mark(permit.effect_class(), error.leaves_doubt(), of_key) {
        EffectKnowledge::None => {}
        EffectKnowledge::Unknown if of_key != EffectKnowledge::Unknown => refusal.leave_in_doubt(),
        _ => refusal.mark_unknown_before(),
    }
    NotFencedReason::NotOnRecord(refusal)
}

pub(super) fn not_on_record(cleared: Cleared, why: &str) -> Box<NotFenced> {
    let why = NotFencedReason::NotOnRecord(off_record(cleared.permit(), why));
    Box::new(NotFenced { cleared, why })
}

fn off_record(permit: &Permit, why: &str) -> Box<Refusal> {
    let refusal = Refusal::new(
        permit.call_id().clone(),
        GateName::Fence,
        TaxonomyClass::DependencyUnavailable,
        format!("the call could not be put on record, so it was not sent: {why}"),
        "make the same call again when the gateway's store takes writes".to_owned(),
    )
    .for_operators("`servanda doctor` looks at the store");
    Box::new(refusal.with_effect(EffectKnowledge::None))
}

/// Refuses a call that cannot be repeated if the store may lose acknowledged commits.
pub(super) fn refuse_lossy_store(cleared: Cleared, why: &str) -> Box<NotFenced> {
    let refusal = Refusal::new(
        cleared.permit().call_id().clone(),
        GateName::Fence,
        TaxonomyClass::DependencyUnavailable,
        format!("the store may lose acknowledged commits, and this call cannot be repeated, so it was not sent: {why}"),
        "tell the user: only an operator can change this".to_owned(),
    )
    .for_operators("make the standby synchronous, or accept the risk with `accepts_lost_commits: true`")
    .with_next_action(NextAction::StopAndTellUser);
    let refusal = refusal.with_effect(EffectKnowledge::None);
    Box::new(NotFenced { cleared, why: NotFencedReason::NotOnRecord(Box::new(refusal)) })
}
