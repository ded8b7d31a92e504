//! Puts the effect of a call on record before a byte leaves, after the contract's preconditions are known.

use std::{sync::Arc, time::Duration};

use servanda_authority::AuthenticatedCaller;
use servanda_contract::{
    CallId, CallRecord, GateName, Refusal, faults,
    record::{Decision, Outcome, Verdict},
    tool::EffectClass,
};
use servanda_effects::effect::{
    Claim, DispatchEnd, Effect, EffectChange, EffectEvent, EffectKey, EffectReply, EffectState, EffectTarget,
};
use servanda_gates::{
    Claimed, FenceProgress, FenceRequest, Fenced, Funded, NotFenced, NotFencedReason, PreconditionQuery,
    PreconditionsMet, Stopwatch as _, begin, budget::Cleared, fence_funded, pass_read,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{
    Calls,
    blocked::BlockedBackoff,
    context::CallContext,
    evidence::{CallExit, CallOperation, CallPlan, Dispatch, OwnedEffect, SendableCall},
    revocation,
    state::CallPipeline,
};
use crate::{
    answers::refusals,
    deferred::recovery,
    internal_call::{self, InternalCall, InternalCallError},
};

/// How often the store is asked whether an effect that was not on record in time is there after all. The pause doubles every time.
const ABANDON_ATTEMPTS_MAX: u32 = 6;
const ABANDON_WAIT_MS: u64 = 500;
/// The longest lease of a claim.
const LEASE_MS_MAX: u64 = 10_000;

/// What fencing a call needs besides the evidence.
struct FenceContext<'c> {
    operation: &'c CallOperation,
    plan: &'c CallPlan,
    authority: &'c AuthenticatedCaller,
    cancel: &'c CancellationToken,
}

impl CallPipeline<'_> {
    /// Puts the effect of a call on record as dispatched by this call, before it is sent. If the store does not answer in time, the call is
    /// refused; if the effect is on record later all the same, it is taken back. If the contract has preconditions, the effect is claimed
    /// first, and fenced when they are known.
    pub(super) async fn fence(
        &mut self,
        cleared: Cleared,
        dispatch: Dispatch,
        operation: &CallOperation,
        plan: &CallPlan,
        context: &CallContext,
    ) -> Result<SendableCall, CallExit> {
        let price = plan.contract.price().ok();
        self.record.price = price.filter(|price| !price.is_free()).cloned().map(Box::new);
        let (authority, cancel) = (&*context.requester.authority, &context.terms.cancel);
        let fencing = FenceContext { operation, plan, authority, cancel };
        // The credential is rechecked as late as possible, because the call may have waited for its turn.
        let rechecked = self.recheck(&fencing).await.map_err(CallExit::not_sent);
        let started_us = self.stopwatch.elapsed_us();
        let fenced = match rechecked.map(|()| pass_read(cleared, &operation.key, self.work.is_some())) {
            Ok(Ok(fenced)) => {
                self.trail.note(GateName::Fence, true, started_us);
                return Ok(SendableCall { fenced, lease: None, dispatch });
            }
            // Boxed, because a read does not need room for it.
            Ok(Err(effect)) => Box::pin(self.fence_effect(*effect, dispatch, &fencing)).await,
            Err(exit) => Err(exit),
        };
        fenced.inspect_err(|_| self.record.price = None)
    }

    async fn fence_effect(
        &mut self,
        cleared: Cleared,
        mut dispatch: Dispatch,
        fencing: &FenceContext<'_>,
    ) -> Result<SendableCall, CallExit> {
        let started_us = self.stopwatch.elapsed_us();
        let is_due = cleared.is_due();
        let effect_key = cleared.permit().effect_key(fencing.operation.key.clone());
        let claimed = match self.begin(cleared, fencing).await {
            Ok((FenceProgress::Claimed(claimed), _)) => *claimed,
            Ok((FenceProgress::Fenced(fenced), asked_at)) => {
                if is_due {
                    // The call was sent before, and paid for then.
                    self.trail.skip(GateName::Budget);
                }
                self.trail.note(GateName::Fence, true, started_us);
                dispatch.effect = self.own_effect(fenced.claim(), fenced.effect_class(), fencing.operation);
                return Ok(self.sendable(*fenced, asked_at, dispatch));
            }
            Err(exit) => {
                self.trail.note(GateName::Fence, false, started_us);
                return Err(exit);
            }
        };
        let class = claimed.permit().effect_class();
        dispatch.effect = self.own_effect(claimed.claim(), class, fencing.operation);
        let funded = match Box::pin(self.ask_and_fund(claimed, fencing)).await {
            Ok(funded) => funded,
            Err(refusal) => return Err(CallExit::not_dispatched(refusal, dispatch)),
        };
        let started_us = self.stopwatch.elapsed_us();
        let fenced = Box::pin(self.fence_funded(funded, (effect_key, class), fencing.plan.deadline)).await;
        self.trail.note(GateName::Fence, fenced.is_ok(), started_us);
        fenced.map(|(fenced, asked_at)| self.sendable(fenced, asked_at, dispatch))
    }

    fn sendable(&self, fenced: Fenced, asked_at: Instant, dispatch: Dispatch) -> SendableCall {
        let lease = fenced.claim().is_some().then(|| self.core.lease(asked_at, fenced.effect_class()));
        SendableCall { fenced, lease, dispatch }
    }

    /// Asks what the contract wants to know about a claimed call, and reserves what the call costs.
    async fn ask_and_fund(&mut self, claimed: Claimed, fencing: &FenceContext<'_>) -> Result<Funded, Box<Refusal>> {
        let current = self.ask_first(claimed, fencing).await?;
        // The questions took time, so the credential is rechecked.
        self.recheck(fencing).await?;
        self.fund(current, fencing.plan.deadline).await
    }

    /// Checks that the caller's credential is still good.
    async fn recheck(&mut self, fencing: &FenceContext<'_>) -> Result<(), Box<Refusal>> {
        let (core, call_id) = (self.core, &self.record.call_id);
        let started_us = self.stopwatch.elapsed_us();
        let rechecking = revocation::recheck(core, fencing.authority, call_id);
        let rechecked = tokio::time::timeout_at(fencing.plan.deadline, rechecking).await;
        let rechecked = rechecked.unwrap_or_else(|_| Err(revocation::not_in_time(call_id.clone())));
        rechecked.inspect_err(|_| self.trail.note(GateName::Scope, false, started_us))
    }

    fn own_effect(
        &mut self,
        claim: Option<&Claim>,
        class: EffectClass,
        operation: &CallOperation,
    ) -> Option<OwnedEffect> {
        let claim = claim?.clone();
        self.record.effect_id = Some(claim.id.to_string());
        let held = self.core.in_flight_effects.hold(&claim.id);
        Some(OwnedEffect { claim, held, class, continues: operation.continues.clone() })
    }

    /// Asks what the contract wants to know before the call. If the caller gives up meanwhile, nothing is sent.
    async fn ask_first(
        &mut self,
        claimed: Claimed,
        fencing: &FenceContext<'_>,
    ) -> Result<PreconditionsMet, Box<Refusal>> {
        let questions = claimed.questions();
        if questions.is_empty() {
            return claimed.judge(&[]);
        }
        let started_us = self.stopwatch.elapsed_us();
        let asked = async {
            let mut answers = Vec::new();
            for PreconditionQuery { tool, arguments, .. } in questions {
                let caller = claimed.permit().proposal().caller.clone();
                let asking = InternalCall { tool: &tool, arguments, caller };
                let answer = internal_call::ask(self.core, self.snapshot, asking, fencing.plan.deadline).await;
                let answer = answer.map_err(InternalCallError::into_words);
                let stop = answer.is_err();
                answers.push(answer);
                if stop {
                    break;
                }
            }
            answers
        };
        let answers = tokio::select! {
            biased;
            () = fencing.cancel.cancelled() => None,
            answers = asked => Some(answers),
        };
        let call_id = claimed.permit().call_id().clone();
        let current = match answers {
            Some(answers) => claimed.judge(&answers),
            None => Err(refusals::given_up(call_id)),
        };
        self.trail.note(GateName::State, current.is_ok(), started_us);
        current
    }

    async fn fence_funded(
        &mut self,
        funded: Funded,
        (effect_key, class): (EffectKey, EffectClass),
        deadline: Instant,
    ) -> Result<(Fenced, Instant), CallExit> {
        let call_id = self.record.call_id.clone();
        let is_keyed = effect_key.client_key.can_come_again() && class.mutates();
        let asked_at = Instant::now();
        let fencing = fence_funded(funded, self.dispatching_record(), self.core.effects.as_ref());
        let Ok(fenced) = tokio::time::timeout_at(deadline, fencing).await else {
            // Whether the effect is on record is not known. `abandon` looks for it and takes it back.
            self.charge.leave_hold_to_effect();
            abandon(self.calls, effect_key, call_id.clone());
            return Err(CallExit::not_sent(refusals::fence_too_slow(call_id, class, is_keyed)));
        };
        match fenced {
            Ok(fenced) => Ok((fenced, asked_at)),
            Err(NotFencedReason::NotOnRecord(refusal)) => {
                self.charge.leave_hold_to_effect();
                abandon(self.calls, effect_key, call_id);
                Err(CallExit::not_sent(refusal))
            }
            Err(NotFencedReason::Reply { reply, effect }) => Err(CallExit::ExistingEffect(reply, effect)),
        }
    }

    /// Begins the effect, and returns when the store was asked. If the outcome of an earlier dispatch is unknown and there is a status
    /// tool, the tool is asked once. If another gateway changes the same resource, the call waits for it.
    async fn begin(
        &mut self,
        mut cleared: Cleared,
        fencing: &FenceContext<'_>,
    ) -> Result<(FenceProgress, Instant), CallExit> {
        let FenceContext {
            operation: CallOperation { key, .. },
            plan: CallPlan { timeout_ms, deadline, .. },
            cancel,
            ..
        } = *fencing;
        let (timeout_ms, deadline) = (*timeout_ms, *deadline);
        let (effect_key, class) = (cleared.permit().effect_key(key.clone()), cleared.permit().effect_class());
        let (mut asked, mut waiting) = (None, BlockedBackoff::until_half(deadline));
        loop {
            let call_id = cleared.permit().call_id().clone();
            let intent = self.intent(fencing.operation, timeout_ms);
            let asked_at = Instant::now();
            let begun = begin(cleared, intent, lease_ms(deadline), self.core.effects.as_ref());
            let Ok(begun) = tokio::time::timeout_at(deadline, begun).await else {
                abandon(self.calls, effect_key, call_id.clone());
                self.unread_key = None;
                let can_come_again = key.can_come_again() && class.mutates();
                return Err(CallExit::not_sent(refusals::fence_too_slow(call_id, class, can_come_again)));
            };
            let unread_key = self.unread_key.take();
            let NotFenced { cleared: back, why } = match begun {
                Ok(begun) => return Ok((begun, asked_at)),
                Err(not_fenced) => *not_fenced,
            };
            match why {
                NotFencedReason::NotOnRecord(refusal) => {
                    abandon(self.calls, effect_key, call_id);
                    return Err(CallExit::not_sent(refusal));
                }
                NotFencedReason::Reply { reply: EffectReply::Ask(claim), effect: Some(effect) } if asked.is_none() => {
                    let asking = recovery::ask_and_settle(self.core, self.snapshot, claim, &effect, deadline);
                    let replied = Box::pin(asking).await;
                    self.unread_key = unread_key;
                    // The status tool took time, so the credential is rechecked.
                    self.recheck(fencing).await.map_err(CallExit::not_sent)?;
                    (asked, cleared) = (Some(replied), back);
                }
                NotFencedReason::Reply { reply: EffectReply::Blocked(other), effect } => {
                    self.unread_key = unread_key;
                    tokio::select! {
                        biased;
                        () = cancel.cancelled() => return Err(CallExit::not_sent(refusals::given_up(call_id))),
                        goes_on = waiting.wait() => {
                            if !goes_on {
                                tracing::info!(%call_id, %other, "another effect on the same resource did not end in time");
                                return Err(CallExit::ExistingEffect(EffectReply::Blocked(other), effect));
                            }
                        }
                    }
                    self.recheck(fencing).await.map_err(CallExit::not_sent)?;
                    cleared = back;
                }
                NotFencedReason::Reply { reply: EffectReply::Ask(_), effect } => {
                    let may_be_under_way = asked.flatten().filter(|reply| matches!(reply, EffectReply::Running { .. }));
                    return Err(CallExit::ExistingEffect(may_be_under_way.unwrap_or(EffectReply::Unknown), effect));
                }
                NotFencedReason::Reply { reply, effect } => return Err(CallExit::ExistingEffect(reply, effect)),
            }
        }
    }

    fn intent(&self, operation: &CallOperation, timeout_ms: u64) -> FenceRequest {
        FenceRequest {
            key: operation.key.clone(),
            owner: self.core.owner.clone(),
            timeout_ms,
            continues: operation.continues.clone(),
            outlasts: self.work.is_some(),
            record: self.dispatching_record(),
            accepts_lost_commits: self.calls.accepts_lost_commits,
        }
    }

    /// The record that a crash leaves behind: everything up to the fence passed, and whether a byte left is not known.
    fn dispatching_record(&self) -> CallRecord {
        let mut verdicts = self.trail.verdicts().to_vec();
        verdicts.push(Verdict { gate: GateName::Fence, decision: Decision::Passed, took_us: 0 });
        let dispatched_at = Some(self.core.clock.now());
        CallRecord { verdicts, dispatched_at, outcome: Outcome::Dispatching, ..self.record.clone() }
    }
}

/// Takes back an effect that was not on record in time, or whose record is in doubt: nothing was sent under it. If too many of them are
/// looked for already, the effect becomes unknown, which is safe.
fn abandon(calls: &Calls, key: EffectKey, call_id: CallId) {
    let Ok(place) = Arc::clone(&calls.abandoning).try_acquire_owned() else { return };
    let inside = Arc::clone(&calls.core);
    tokio::spawn(async move {
        let _place = place;
        for attempt in 0..ABANDON_ATTEMPTS_MAX {
            let found = inside.effects.find(EffectTarget::Key(key.clone())).await.ok().flatten();
            let own = found.filter(|effect| effect.call_id == call_id && effect.owner == inside.owner);
            // A claim is settled like a dispatch that never left.
            let open = |effect: &Effect| matches!(effect.state, EffectState::Claimed | EffectState::Dispatching);
            if let Some(effect) = own.filter(open) {
                let end = DispatchEnd::NotExecuted("it was not on record in time, so it was not sent".to_owned());
                let event = EffectEvent::Settle(effect.claim(), end);
                let change = EffectChange {
                    target: EffectTarget::Id(effect.id),
                    event,
                    record: None,
                    quarantine: None,
                    notices: Vec::new(),
                    consumes: None,
                };
                if inside.effects.apply(change).await.is_ok() {
                    return;
                }
            }
            tokio::time::sleep(Duration::from_millis(ABANDON_WAIT_MS << attempt)).await;
        }
    });
}

/// How long no other process takes over the claim: as long as the call may take, but short enough that a crash does not block the effect
/// for long.
fn lease_ms(deadline: Instant) -> u64 {
    let left = deadline.saturating_duration_since(Instant::now());
    u64::try_from(left.as_millis()).unwrap_or(u64::MAX).min(faults::limit_ms("SERVANDA_LEASE_MS", LEASE_MS_MAX))
}
