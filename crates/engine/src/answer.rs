//! The one answer every call gets, as the members of an MCP tool result. The upstream's bytes are spliced in unchanged; the
//! observation goes into `_meta` beside whatever the upstream put there.

use std::fmt::Write as _;

use serde::Serialize;
use servanda_contract::{
    CallRecord, Observation, Refusal,
    observation::{Occasion, PayloadError, Verification},
    record::Outcome,
    tool::ToolContract,
};
use servanda_mcp::{envelope::to_json, fields::meta};

use crate::{
    bridge::{PutFailure, legible},
    gateway::ToolResult,
    observe::Observed,
    relay::Exposure,
    upstream_failure,
};

/// The answer of an upstream that may be passed on.
pub(crate) fn of_observed(
    observed: &Observed<'_>,
    observation: &Observation,
    exposure: Exposure<'_>,
    answer_bytes: usize,
) -> ToolResult {
    let is_error = observation.status.is_error;
    let mut json = String::with_capacity(answer_bytes + 1024);
    json.push('{');
    match observed.members.get("content").and_then(|content| exposure.blocks(content)) {
        None => observed.members.write_members(&mut json),
        Some(content) => {
            let _ = write!(json, "\"content\":{content},");
            observed.members.clone().without(&["content"]).write_members(&mut json);
        }
    }
    json.push_str("\"_meta\":{");
    observed.meta.write_members(&mut json);
    let _ = write!(json, "\"{}\":{}}}}}", meta::OBSERVATION, to_json(observation));
    ToolResult { json, is_error, scopes_needed: Vec::new() }
}

/// A refusal the model can read: the structured feedback as text, so that every client shows it.
pub(crate) fn of_refusal(refusal: &Refusal, observation: &Observation) -> ToolResult {
    #[derive(Serialize)]
    struct Text {
        r#type: &'static str,
        text: String,
    }
    let text = serde_json::to_string_pretty(refusal).unwrap_or_else(|_| refusal.message.clone());
    let content = to_json(&[Text { r#type: "text", text }]);
    let observation = to_json(observation);
    let json = format!(r#"{{"content":{content},"isError":true,"_meta":{{"{}":{observation}}}}}"#, meta::OBSERVATION);
    ToolResult { json, is_error: true, scopes_needed: refusal.scopes_needed.clone() }
}

/// A refusal beside which the upstream's own error stands.
pub(crate) fn with_upstream_error(refused: ToolResult, failure: &PutFailure) -> ToolResult {
    let Some(error) = upstream_failure::error_of(failure) else { return refused };
    let Some(members) = refused.json.strip_suffix("}}") else { return refused };
    ToolResult { json: format!("{members},\"{}\":{}}}}}", meta::UPSTREAM_ERROR, to_json(&error)), ..refused }
}

/// The facts about a recorded call that every observation carries.
pub(crate) fn occasion(record: &CallRecord) -> Occasion<'_> {
    Occasion {
        tool: &record.tool,
        version: "",
        call_id: &record.call_id,
        received_at: record.received_at,
        finished_at: record.finished_at.unwrap_or(record.received_at),
        trace_id: &record.trace_id,
        idempotency_hit: record.outcome == Outcome::Replayed,
        attempt_number: record.attempts.unwrap_or(1),
    }
}

/// The observation of an answer that may be passed on.
pub(crate) fn observation(occasion: &Occasion<'_>, observed: &Observed<'_>, verification: Verification) -> Observation {
    let errors = observed.error_text.iter().map(|text| PayloadError {
        field: None,
        message: legible(text).into_owned(),
        code: observed.class.name().to_owned(),
    });
    let data = observed.data.map(ToOwned::to_owned);
    Observation::of_result(occasion, observed.class, data, errors.collect(), verification)
}

/// What a contract asks to be checked afterwards.
pub(crate) fn verification(contract: &ToolContract) -> Verification {
    let asked = contract.verification.as_ref();
    Verification {
        post_action_verification_required: contract.transactional.post_action_verification_required,
        target_state_reference: asked.map(|asked| asked.target_state_reference.clone()),
        expected_state: asked.and_then(|asked| asked.expected_state.clone()),
        delay_seconds: asked.map_or(0, |asked| asked.delay_seconds),
    }
}
