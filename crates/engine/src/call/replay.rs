//! Answers a call whose effect already exists: with the stored answer, or with a refusal that tells the state of the effect. Nothing is
//! sent.

use std::sync::Arc;

use bytes::Bytes;
use servanda_contract::{
    Digest, Observation, Refusal, digest::DigestDomain, observation::ObservationContext, record::Outcome,
};
use servanda_effects::effect::{Effect, EffectEnding, EffectReply, EffectState, EffectWaitReason, StoredAnswer};
use servanda_gates::CompiledContract;

use super::{evidence::Dispatch, state::CallPipeline};
use crate::{
    answers::{existing_effect, observe, refusals, tool_result},
    client::{CallAnswer, ToolResult},
    long_running, records,
    world::Exposure,
};

/// An effect that became unknown within this time may not have been reported yet.
const JUST_NOW_MS: u64 = 60_000;

impl CallPipeline<'_> {
    /// Answers with the state of the operation.
    pub(super) async fn answer_existing(
        mut self: Box<Self>,
        contract: &CompiledContract,
        reply: EffectReply,
        effect: Option<Arc<Effect>>,
    ) -> CallAnswer {
        self.record.effect_id = effect.as_ref().map(|effect| effect.id.to_string());
        let call_id = self.record.call_id.clone();
        match (reply, effect) {
            (EffectReply::Replay(stored), Some(effect)) => {
                CallAnswer::Result(self.replay(contract, stored, &effect).await)
            }
            (reply, effect) => {
                if let EffectReply::Twin(twin) = &reply {
                    self.record.effect_id = Some(twin.to_string());
                    let count = self.calls.retry_counters.count_blind_retry();
                    tracing::warn!(%call_id, effect = %twin, count, "an unsafe retry was stopped: an identical call without a key ended unknown");
                }
                if let (EffectReply::Unknown, Some(effect)) = (&reply, &effect) {
                    self.report_unknown(effect).await;
                }
                self.unread_key = None;
                let refusal = existing_effect::refusal(&call_id, &reply, effect.as_deref());
                let task = match (&self.work, &reply, &effect) {
                    (Some(work), EffectReply::Running { awaits, .. }, Some(effect))
                        if is_ours(awaits.as_ref(), effect) =>
                    {
                        work.handover_again(self.core, &effect.id).await
                    }
                    _ => None,
                };
                let refused =
                    self.refuse(contract.contract(), refusal, Outcome::Refused, None, Dispatch::default()).await;
                task.map_or(CallAnswer::Result(refused), CallAnswer::Task)
            }
        }
    }

    /// Reports that the outcome of an effect is unknown. A call that comes before recovery is the first to learn this, so it has to report
    /// it. An effect that has been unknown for longer was already reported.
    async fn report_unknown(&self, effect: &Effect) {
        let told = self.core.callback_notices(self.snapshot);
        if told.now.unix_ms().saturating_sub(effect.changed_ms) < JUST_NOW_MS {
            let notes = told.for_ended(effect, EffectEnding::Unknown);
            records::note_deliveries(self.core, &effect.call_id, notes).await;
        }
    }

    /// Answers with the stored answer, checked against the contract as it is now.
    async fn replay(self: Box<Self>, contract: &CompiledContract, stored: StoredAnswer, effect: &Effect) -> ToolResult {
        match stored {
            StoredAnswer::Result(result) => self.replay_result(contract, &result, effect).await,
            StoredAnswer::Refusal(refusal) => self.replay_refusal(contract, *refusal).await,
            StoredAnswer::Known(known) if contract.output().is_none() => {
                self.replay_result(contract, &long_running::known_result(&known), effect).await
            }
            // A result without the output that the contract promises would be invalid.
            StoredAnswer::Known(known) => {
                let refusal = existing_effect::answer_gone(&self.record.call_id, &known, &effect.id);
                self.replay_refusal(contract, refusal).await
            }
        }
    }

    async fn replay_result(
        mut self: Box<Self>,
        contract: &CompiledContract,
        result: &Bytes,
        effect: &Effect,
    ) -> ToolResult {
        self.record.answer_digest = Some(Digest::compute(DigestDomain::Answer, &[result]));
        let observed = match observe::observe(contract, result) {
            Ok(observed) => observed,
            Err(broken) => {
                let refusal = refusals::quarantined(&self.record.call_id, effect.class, broken);
                return self.replay_refusal(contract, refusal.with_handle(effect.id.as_str())).await;
            }
        };
        self.finish(Outcome::Replayed, observed.class, None);
        let verification = tool_result::verification(contract.contract());
        let mut observation = tool_result::observation(&self.occasion(contract.contract()), &observed, verification);
        observation.status.retryable &= !effect.class.mutates();
        let exposure = Exposure { naming: self.snapshot.naming, upstream: &effect.order.upstream };
        let answered = tool_result::from_answer(&observed, observation, exposure, result.len());
        records::write_record(self.core, self.record, true, None).await;
        answered
    }

    async fn replay_refusal(mut self: Box<Self>, contract: &CompiledContract, refusal: Refusal) -> ToolResult {
        self.finish(Outcome::Replayed, refusal.error_code, Some(&refusal));
        let verification = tool_result::verification(contract.contract());
        let observation = Observation::from_refusal(&self.occasion(contract.contract()), &refusal, verification);
        records::write_record(self.core, self.record, true, None).await;
        tool_result::from_refusal(refusal, observation)
    }
}

/// The answer that the ledger holds for an effect, if it holds one. It is for a call whose own answer the ledger did not accept.
pub(super) fn stored_answer(
    contract: &CompiledContract,
    effect: &Effect,
    occasion: &ObservationContext<'_>,
    exposure: Exposure<'_>,
) -> Option<ToolResult> {
    let is_done = matches!(effect.state, EffectState::Completed | EffectState::FailedFinal);
    let Some(StoredAnswer::Result(result)) = effect.answer.as_ref().filter(|_| is_done) else { return None };
    let observed = observe::observe(contract, result).ok()?;
    let occasion = ObservationContext { idempotency_hit: true, ..occasion.clone() };
    let mut observation =
        tool_result::observation(&occasion, &observed, tool_result::verification(contract.contract()));
    observation.status.retryable &= !effect.class.mutates();
    Some(tool_result::from_answer(&observed, observation, exposure, result.len()))
}

/// Whether a running operation can be asked about by its own handle.
fn is_ours(awaits: Option<&EffectWaitReason>, effect: &Effect) -> bool {
    match awaits {
        None => true,
        Some(EffectWaitReason::Task(id)) => id == effect.id.as_str(),
        Some(EffectWaitReason::Input(_)) => false,
    }
}
