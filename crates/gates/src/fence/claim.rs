//! The way to the fence with two commits, for calls with preconditions or with a cost that has to be reserved:
//! claim, check, reserve, fence. A claim keeps other calls from beginning the effect while the preconditions
//! are checked, and it lets no byte out.
//!
//! Deliberately not here: asking the tools, and giving up a claim, which is settling it as not executed.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use servanda_contract::{CallRecord, Refusal, tool::EffectClass};
use servanda_effects::{
    budget::BudgetStore,
    effect::{
        AppliedChange, BeginMode, Claim, ClientKey, Effect, EffectChange, EffectEvent, EffectReply, EffectState,
        EffectStore, EffectTarget, OwnerId,
    },
};

use super::{
    EffectStart, FenceRequest, Fenced, NotFenced, NotFencedReason, capacity, fence,
    not_fenced::{FailedMark, mark_failure_reason},
    start,
};
use crate::{
    Permit,
    budget::{Cleared, FundingError},
    preconditions::PreconditionQuery,
};

/// How far a permitted call came right away.
#[derive(Debug)]
pub enum FenceProgress {
    /// It may be sent.
    Fenced(Box<Fenced>),
    /// Its preconditions have to be checked, or its cost has to be reserved.
    Claimed(Box<Claimed>),
}

/// A call that this process may check. If it is an effect, no other call begins it meanwhile.
#[derive(Debug)]
pub struct Claimed {
    cleared: Cleared,
    key: ClientKey,
    arguments: Value,
    claim: Option<Claim>,
    owner: OwnerId,
}

/// Evidence: the preconditions hold, or held a moment ago.
#[derive(Debug)]
pub struct PreconditionsMet(Claimed);

/// Evidence: the exact amounts that the call draws are reserved, for its effect if it has one.
#[derive(Debug)]
pub struct Funded {
    permit: Permit,
    key: ClientKey,
    claim: Option<Claim>,
    owner: OwnerId,
}

/// Begins a call that passed every gate: fences it in one commit, or claims it for `lease_ms` if something has
/// to be checked or reserved first. A call that was sent before is not paid for again: its first reservation
/// covers all dispatches.
pub async fn begin(
    cleared: Cleared,
    intent: FenceRequest,
    lease_ms: u64,
    effects: &dyn EffectStore,
) -> Result<FenceProgress, Box<NotFenced>> {
    if !cleared.permit().asks_first() && !cleared.is_due() {
        return fence(cleared, intent, effects).await.map(|fenced| FenceProgress::Fenced(Box::new(fenced)));
    }
    // Boxed, so that only calls that take the longer way pay for its future.
    Box::pin(claim(cleared, intent, lease_ms, effects)).await
}

async fn claim(
    cleared: Cleared,
    intent: FenceRequest,
    lease_ms: u64,
    effects: &dyn EffectStore,
) -> Result<FenceProgress, Box<NotFenced>> {
    let (owner, key) = (intent.owner.clone(), intent.key.clone());
    let (mut cleared, started) = start(cleared, &intent, BeginMode::Claim { lease_ms }, effects)?;
    let Some(EffectStart { target, begin }) = started else {
        return Ok(FenceProgress::Claimed(Box::new(Claimed::new(cleared, key, None, owner))));
    };
    if let Some(why) = capacity::why_nothing_begins(cleared.permit(), effects) {
        cleared = capacity::check(cleared, &begin, &why, effects).await?;
    }
    let request = begin.request;
    let event = EffectEvent::Begin(Box::new(begin));
    // For an effect that is sent again: it is dispatched at once. A claim is not sent, so the store writes no record and uses no approval.
    let (record, consumes) = (Some(intent.record), cleared.permit().approval_use());
    let change = EffectChange { record, consumes, ..EffectChange::new(target.clone(), event) };
    let found = match effects.apply(change).await {
        Ok(AppliedChange { reply: EffectReply::Mine(_), effect: Some(effect) }) => effect,
        Ok(AppliedChange { reply, effect }) => {
            return Err(Box::new(NotFenced { cleared, why: NotFencedReason::Reply { reply, effect } }));
        }
        // It is unknown whether the change was applied: only a read afterwards is evidence.
        Err(error) => match effects.find(target).await {
            Ok(Some(effect)) if is_own(&effect, &owner, cleared.permit()) => Arc::new(effect),
            found => {
                let why =
                    mark_failure_reason(cleared.permit(), FailedMark { key: &key, request, error: &error, found });
                return Err(Box::new(NotFenced { cleared, why }));
            }
        },
    };
    Ok(match found.state {
        EffectState::Claimed => {
            FenceProgress::Claimed(Box::new(Claimed::new(cleared, key, Some(found.claim()), owner)))
        }
        // The effect was sent before and is sent again, or continues after input: its preconditions were
        // checked then.
        _ => FenceProgress::Fenced(Box::new(Fenced::marked(cleared.permit().call_id().clone(), &found))),
    })
}

/// Reserves the exact amounts that a call draws, for the claimed effect. After an error the caller still has to
/// give up the claim.
pub async fn fund(current: PreconditionsMet, budgets: &dyn BudgetStore) -> Result<Funded, FundingError> {
    let Claimed { cleared, key, claim, owner, .. } = current.0;
    let permit = cleared.reserve_for(claim.as_ref().map(|claim| claim.id.clone()), budgets).await?;
    Ok(Funded { permit, key, claim, owner })
}

/// Fences a call whose preconditions hold and that is paid for. The record is what a crash leaves behind.
pub async fn fence_funded(
    funded: Funded,
    mut record: CallRecord,
    effects: &dyn EffectStore,
) -> Result<Fenced, NotFencedReason> {
    let Funded { permit, key, claim, owner } = funded;
    let Some(claim) = claim else { return Ok(Fenced::unmarked(&permit)) };
    record.effect_id = Some(claim.id.to_string());
    let target = EffectTarget::Id(claim.id.clone());
    let event = EffectEvent::Fence(claim.clone());
    let consumes = permit.approval_use();
    let change = EffectChange { record: Some(record), consumes, ..EffectChange::new(target.clone(), event) };
    let own = |effect: &Effect| effect.state == EffectState::Dispatching && effect.claim() == claim;
    match effects.apply(change).await {
        Ok(AppliedChange { reply: EffectReply::Mine(_), effect: Some(effect) }) if own(&effect) => {
            Ok(Fenced::marked(permit.call_id().clone(), &effect))
        }
        Ok(AppliedChange { reply, effect }) => Err(NotFencedReason::Reply { reply, effect }),
        Err(error) => match effects.find(target).await {
            Ok(Some(effect)) if own(&effect) && is_own(&effect, &owner, &permit) => {
                Ok(Fenced::marked(permit.call_id().clone(), &effect))
            }
            found => {
                let (key, request) = (&key, permit.payload_digest());
                Err(mark_failure_reason(&permit, FailedMark { key, request, error: &error, found }))
            }
        },
    }
}

fn is_own(effect: &Effect, owner: &OwnerId, permit: &Permit) -> bool {
    let under_way = matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
    under_way && effect.owner == *owner && effect.call_id == *permit.call_id()
}

impl PreconditionsMet {
    /// What may follow an uncertain dispatch.
    pub fn effect_class(&self) -> EffectClass {
        self.0.permit().effect_class()
    }

    /// The permit of the call.
    pub fn permit(&self) -> &Permit {
        self.0.permit()
    }

    /// Whether something has to be reserved before it may be sent.
    pub fn is_due(&self) -> bool {
        self.0.cleared.is_due()
    }
}

impl Claimed {
    fn new(cleared: Cleared, key: ClientKey, claim: Option<Claim>, owner: OwnerId) -> Self {
        let arguments = parsed(cleared.permit().arguments().bytes());
        Self { cleared, key, arguments, claim, owner }
    }

    /// The claim; none if the call has no effect.
    pub fn claim(&self) -> Option<&Claim> {
        self.claim.as_ref()
    }

    /// The permit of the call.
    pub fn permit(&self) -> &Permit {
        self.cleared.permit()
    }

    /// The queries to ask, in this order.
    pub fn questions(&self) -> Vec<PreconditionQuery> {
        self.permit().contract().preconditions().questions(&self.arguments)
    }

    /// Judges the answers, in the order of the queries: a structured result, or why there is none.
    pub fn judge(self, answers: &[Result<Value, String>]) -> Result<PreconditionsMet, Box<Refusal>> {
        let permit = self.permit();
        permit.contract().preconditions().judge(permit.call_id(), &self.arguments, answers)?;
        Ok(PreconditionsMet(self))
    }
}

/// Canonical bytes are JSON.
fn parsed(arguments: &Bytes) -> Value {
    serde_json::from_slice(arguments).unwrap_or_default()
}
