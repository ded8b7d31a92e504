//! Refuses a call: puts the refusal on record, settles the effect if there is one, and answers with the refusal. The stage that refuses
//! decides why.

use std::time::Duration;

use bytes::Bytes;
use servanda_contract::{
    CallRecord, Refusal, ToolContract,
    observation::{Observation, Verification},
    record::Outcome,
    refusal::EffectKnowledge,
    taxonomy::EnvelopeCode,
};
use servanda_effects::effect::{self, EffectRules, EffectTarget};
use servanda_mcp::RpcError;

use super::{conclusion::occasion_of_record, evidence::Dispatch, state::CallPipeline};
use crate::{
    answers::{refusals, tool_result},
    client::{CallAnswer, ToolResult},
    records,
};

/// How long a refused call may take to find out whether an earlier call with its key was done.
const LOOK_BACK_MS_MAX: u64 = 1_000;

impl CallPipeline<'_> {
    pub(super) async fn refuse_unresolved(mut self: Box<Self>, mut refusal: Box<Refusal>) -> CallAnswer {
        self.check_unread_key(&mut refusal, Outcome::Refused).await;
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        let observation =
            Observation::from_refusal(&tool_result::occasion(&self.record), &refusal, Verification::none());
        records::write_record(self.core, self.record, false, None).await;
        if refusal.envelope_code == EnvelopeCode::ToolNotFound {
            return CallAnswer::UnknownTool(refusal);
        }
        CallAnswer::Result(tool_result::from_refusal(*refusal, observation))
    }

    pub(super) async fn refuse_state(mut self: Box<Self>, error: RpcError) -> CallAnswer {
        let refusal = refusals::round_refused(&self.record.call_id, &error);
        self.finish(Outcome::Refused, refusal.error_code, Some(&refusal));
        records::write_record(self.core, self.record, false, None).await;
        CallAnswer::Failed(error)
    }

    /// Refuses a call, and settles its effect if it has one. A call that was sent may be refused too, because of its answer.
    pub(super) async fn refuse(
        mut self: Box<Self>,
        contract: &ToolContract,
        mut refusal: Refusal,
        outcome: Outcome,
        quarantine: Option<Bytes>,
        dispatch: Dispatch,
    ) -> ToolResult {
        if let Some(effect) = &dispatch.effect
            && refusal.effect == EffectKnowledge::Unknown
        {
            refusal.handle = Some(effect.claim.id.to_string());
        }
        let outcome =
            if dispatch.effect.is_none() { self.check_unread_key(&mut refusal, outcome).await } else { outcome };
        self.finish(outcome, refusal.error_code, Some(&refusal));
        // A refusal of a call that may have done something must not be lost; that of a call that never left may be written a moment later.
        let durable = refusal.effect != EffectKnowledge::None || quarantine.is_some();
        let end = dispatch.end_of_refusal(&refusal);
        let observed = |record: &CallRecord, refusal: &Refusal| {
            let observation = Observation::from_refusal(
                &occasion_of_record(record, contract),
                refusal,
                tool_result::verification(contract),
            );
            tool_result::from_refusal(refusal.clone(), observation)
        };
        if dispatch.effect.is_none() {
            let answered = observed(&self.record, &refusal);
            self.conclude(dispatch, end, durable, quarantine).await;
            return answered;
        }
        let record = self.record.clone();
        let settled = self.conclude(dispatch, end, durable, quarantine).await;
        observed(&record, &settled.refusal_as_known(refusal))
    }

    /// Looks up the key of a call that is refused before its key was looked up: an earlier call with the key may have been done, and the
    /// refusal must not claim otherwise. Returns how the call is recorded.
    async fn check_unread_key(&mut self, refusal: &mut Refusal, outcome: Outcome) -> Outcome {
        let Some(key) = self.unread_key.take() else { return outcome };
        if refusal.effect != EffectKnowledge::None {
            return outcome;
        }
        let reading = self.core.effects.find(EffectTarget::Key(key));
        let found = tokio::time::timeout(Duration::from_millis(LOOK_BACK_MS_MAX), reading).await;
        let of_key = match found {
            Ok(Ok(effect)) => effect::knowledge_of_key(effect.as_ref()),
            _ => effect::knowledge_of_unread_key(true, EffectRules::IN_FORCE),
        };
        if of_key == EffectKnowledge::None {
            return outcome;
        }
        refusal.mark_unknown_before();
        Outcome::Refused
    }
}
