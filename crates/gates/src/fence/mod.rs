//! The fence: the durable mark between deciding and doing. A call that may change something is recorded as an
//! effect before its first byte leaves. Without the mark there is no [`Fenced`] call, and an upstream performs
//! nothing else.
//!
//! The mark is one commit: the call gets the right to dispatch the effect, and its record is written with it.

mod capacity;
mod claim;
mod fenced;
mod not_fenced;
mod recovery;

use servanda_contract::{CallId, CallRecord, tool::EffectClass};
use servanda_effects::effect::{
    AppliedChange, BeginMode, BeginRequest, Claim, ClientKey, Effect, EffectChange, EffectEvent, EffectId, EffectReply,
    EffectState, EffectStore, EffectTarget, OwnerId,
};

use crate::{budget::Cleared, dispatch_order};
use not_fenced::{FailedMark, mark_failure_reason, not_on_record, refuse_lossy_store};

pub use claim::{Claimed, FenceProgress, Funded, PreconditionsMet, begin, fence_funded, fund};
pub use fenced::Fenced;
pub use not_fenced::{NotFenced, NotFencedReason};
pub use recovery::{Recovery, recover};

/// The terms on which a permitted call is fenced.
#[derive(Debug)]
pub struct FenceRequest {
    /// The key of its operation.
    pub key: ClientKey,
    /// This process.
    pub owner: OwnerId,
    /// How long a dispatch may take.
    pub timeout_ms: u64,
    /// The nonce of the request state that the call continues from.
    pub continues: Option<String>,
    /// Whether a client can ask for its end later: then it is an effect even if it changes nothing.
    pub outlasts: bool,
    /// The record that a crash leaves behind.
    pub record: CallRecord,
    /// Whether the operator accepts, for every call, a store that may lose acknowledged commits.
    pub accepts_lost_commits: bool,
}

/// Passes a read that needs no recorded effect: it changes nothing, has no operation key, no client asks for
/// its end later, its contract has no preconditions, and it uses up no approval. Every other call comes back unchanged, to be fenced.
pub fn pass_read(cleared: Cleared, key: &ClientKey, outlasts: bool) -> Result<Fenced, Box<Cleared>> {
    let permit = cleared.permit();
    // The use of an approval is a part of the dispatch of an effect.
    let is_effect =
        permit.effect_class().mutates() || key.can_come_again() || outlasts || permit.is_approved_by_people();
    if is_effect || permit.asks_first() || cleared.is_due() {
        return Err(Box::new(cleared));
    }
    Ok(Fenced::unmarked(permit))
}

/// Fences a call that passed every gate. A call of class R without an operation key, whose end no client asks
/// for later, changes nothing and needs no mark; every other call waits for its mark.
pub async fn fence(
    cleared: Cleared,
    intent: FenceRequest,
    effects: &dyn EffectStore,
) -> Result<Fenced, Box<NotFenced>> {
    // A call with preconditions has to be claimed first; it cannot be fenced here.
    if cleared.permit().asks_first() {
        return Err(not_on_record(cleared, "the preconditions of its contract were not checked"));
    }
    if cleared.is_due() {
        return Err(not_on_record(cleared, "its cost was not reserved first"));
    }
    let (mut cleared, started) = start(cleared, &intent, BeginMode::Dispatch, effects)?;
    if let (Some(started), Some(why)) = (&started, capacity::why_nothing_begins(cleared.permit(), effects)) {
        cleared = Box::pin(capacity::check(cleared, &started.begin, &why, effects)).await?;
    }
    let permit = cleared.permit();
    let Some(EffectStart { target, begin }) = started else { return Ok(Fenced::unmarked(permit)) };
    let request = begin.request;
    let mut record = intent.record;
    if !begin.key.client_key.can_come_again() {
        // If the key was used before, the handle is another one.
        record.effect_id = Some(begin.id.to_string());
    }
    let event = EffectEvent::Begin(Box::new(begin));
    let consumes = permit.approval_use();
    let change = EffectChange { record: Some(record), consumes, ..EffectChange::new(target.clone(), event) };
    match effects.apply(change).await {
        Ok(AppliedChange { reply: EffectReply::Mine(claim), effect: Some(effect) })
            if is_dispatched(&effect, &claim) =>
        {
            Ok(Fenced::marked(permit.call_id().clone(), &effect))
        }
        #[cfg(feature = "unfenced")]
        Ok(_) => Ok(Fenced::unmarked(permit)),
        #[cfg(not(feature = "unfenced"))]
        Ok(AppliedChange { reply, effect }) => {
            Err(Box::new(NotFenced { cleared, why: NotFencedReason::Reply { reply, effect } }))
        }
        // It is unknown whether the change was applied: only a read afterwards is evidence.
        Err(error) => match effects.find(target).await {
            Ok(Some(effect)) if is_own(&effect, &intent.owner, permit.call_id()) => {
                Ok(Fenced::marked(permit.call_id().clone(), &effect))
            }
            found => {
                let why = mark_failure_reason(permit, FailedMark { key: &intent.key, request, error: &error, found });
                Err(Box::new(NotFenced { cleared, why }))
            }
        },
    }
}

/// A call as an effect that is about to begin.
struct EffectStart {
    target: EffectTarget,
    begin: BeginRequest,
}

/// What is needed to begin a call; none if it has no effect.
fn start(
    cleared: Cleared,
    intent: &FenceRequest,
    go: BeginMode,
    effects: &dyn EffectStore,
) -> Result<(Cleared, Option<EffectStart>), Box<NotFenced>> {
    let permit = cleared.permit();
    let is_read = !permit.effect_class().mutates() && !permit.is_approved_by_people();
    if is_read && !intent.key.can_come_again() && !intent.outlasts {
        return Ok((cleared, None));
    }
    // After a failover the ledger would not know that the call was sent, and it would be sent again.
    if permit.effect_class() == EffectClass::N
        && !intent.accepts_lost_commits
        && let Some(why) = effects.loses_commits()
    {
        return Err(refuse_lossy_store(cleared, &why));
    }
    let key = permit.effect_key(intent.key.clone());
    let order = match dispatch_order::dispatch_order(permit, &key, intent.timeout_ms, intent.outlasts) {
        Ok(order) => order,
        Err(error) => return Err(not_on_record(cleared, &error.to_string())),
    };
    let begin = BeginRequest {
        id: EffectId::new(),
        key: key.clone(),
        request: permit.payload_digest(),
        class: permit.effect_class(),
        owner: intent.owner.clone(),
        call_id: permit.call_id().clone(),
        order,
        mode: go,
        continues: intent.continues.clone(),
    };
    Ok((cleared, Some(EffectStart { target: EffectTarget::Key(key), begin })))
}

fn is_dispatched(effect: &Effect, claim: &Claim) -> bool {
    effect.state == EffectState::Dispatching && effect.claim() == *claim
}

/// Whether a dispatch belongs to this very call.
fn is_own(effect: &Effect, owner: &OwnerId, call_id: &CallId) -> bool {
    effect.state == EffectState::Dispatching && effect.owner == *owner && effect.call_id == *call_id
}
