//! What an answer means for an effect whose caller no longer waits, because the call was sent again, followed by recovery, or answered
//! late. The answer is checked like any other.

use servanda_contract::{CallId, Refusal, record::Outcome};
use servanda_effects::effect::DispatchEnd;
use servanda_gates::CompiledContract;
use servanda_mcp::{RawObject, fields::member as field};
use servanda_upstream::{Answer, PerformFailure};

use crate::{
    answers::{observe, refusals, upstream_failure},
    records,
};

/// The outcome of a call that was sent again, followed by recovery, or answered late.
pub(crate) struct DeferredVerdict {
    pub(crate) end: DispatchEnd,
    pub(crate) outcome: Outcome,
    pub(crate) refusal: Option<Refusal>,
    pub(crate) quarantine: Option<bytes::Bytes>,
}

impl DeferredVerdict {
    fn refused(refusal: Refusal, outcome: Outcome) -> Self {
        Self { end: records::end_of_refusal(&refusal), outcome, refusal: Some(refusal), quarantine: None }
    }
}

/// What an answer, or a failure, means for the effect and the record.
pub(crate) fn judge(
    contract: &CompiledContract,
    call_id: &CallId,
    outcome: Result<Answer, PerformFailure>,
    was_sent_before: bool,
) -> DeferredVerdict {
    let answer = match outcome {
        Ok(answer) => answer,
        Err(failure) => {
            let (refusal, outcome) =
                upstream_failure::interpret(call_id, contract.contract(), &failure, was_sent_before);
            return DeferredVerdict::refused(refusal, outcome);
        }
    };
    let members: RawObject<'_> = serde_json::from_slice(&answer.result).unwrap_or_default();
    if members.get(field::RESULT_TYPE).is_some_and(|raw| raw.get() != r#""complete""#)
        || members.get(field::TASK).is_some()
    {
        let refusal = refusals::lost_evidence(call_id.clone());
        return DeferredVerdict::refused(*refusal, Outcome::Unknown);
    }
    match observe::observe(contract, &answer.result) {
        Ok(observed) => {
            let end = records::end_of_answer(&observed, contract.contract(), &answer.result);
            let outcome =
                if matches!(end, DispatchEnd::Completed(_)) { Outcome::Completed } else { Outcome::ToolError };
            DeferredVerdict { end, outcome, refusal: None, quarantine: None }
        }
        Err(broken) => {
            let refusal = refusals::quarantined(call_id, contract.contract().effect_class(), broken);
            DeferredVerdict {
                quarantine: Some(answer.result),
                ..DeferredVerdict::refused(refusal, Outcome::Quarantined)
            }
        }
    }
}
