//! The one answer that every call gets, as the members of an MCP tool result. The upstream's bytes are spliced in unchanged. What a client
//! uses of the observation goes into `_meta` beside what the upstream put there; the whole observation goes there if the caller asks for
//! it.

use std::fmt::Write as _;

use serde::Serialize;
use servanda_contract::{
    CallRecord, Feedback, Observation, Refusal,
    observation::{ObservationContext, PayloadError, Verification},
    record::Outcome,
    tool::ToolContract,
};
use servanda_mcp::{envelope::to_json, fields::meta};

use super::{observe::CheckedAnswer, upstream_failure};
use crate::{
    client::{CallDetail, ToolResult},
    questions::{ClientFailure, legible},
    world::Exposure,
};

/// The answer of an upstream that may be passed on.
pub(crate) fn from_answer(
    observed: &CheckedAnswer<'_>,
    observation: Observation,
    exposure: Exposure<'_>,
    answer_bytes: usize,
) -> ToolResult {
    let is_error = observation.status.is_error;
    let mut json = String::with_capacity(answer_bytes + 256);
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
    let _ = write!(json, "\"{}\":{}}}}}", meta::CALL, to_json(&observation.summary(None)));
    let rest = Some(Box::new(CallDetail { observation, refusal: None, upstream_error: None }));
    ToolResult { json, is_error, scopes_needed: Vec::new(), rest }
}

/// A refusal the model can read: the feedback as JSON text, so that every client shows it.
pub(crate) fn from_refusal(refusal: Refusal, observation: Observation) -> ToolResult {
    let brief = to_json(&observation.summary(Some(refusal.gate)));
    let json = format!(
        r#"{{"content":{},"isError":true,"_meta":{{"{}":{brief}}}}}"#,
        text_block(to_json(&Feedback::from_refusal(&refusal))),
        meta::CALL
    );
    let scopes_needed = refusal.scopes_needed.clone();
    let rest = Some(Box::new(CallDetail { observation, refusal: Some(refusal), upstream_error: None }));
    ToolResult { json, is_error: true, scopes_needed, rest }
}

/// A refusal with the upstream's own error beside it.
pub(crate) fn with_upstream_error(mut refused: ToolResult, failure: &ClientFailure) -> ToolResult {
    let Some(error) = upstream_failure::server_error(failure) else { return refused };
    refused.json = with_meta(refused.json, meta::UPSTREAM_ERROR, &to_json(&error));
    if let Some(rest) = &mut refused.rest {
        rest.upstream_error = Some(error);
    }
    refused
}

/// The result with the whole refusal and the whole observation, for a caller that asks for them.
pub(crate) fn with_full_detail(mut result: ToolResult) -> ToolResult {
    let Some(rest) = result.rest.take() else { return result };
    let CallDetail { observation, refusal, upstream_error } = *rest;
    if let Some(refusal) = refusal {
        let brief = to_json(&observation.summary(Some(refusal.gate)));
        let content = text_block(serde_json::to_string_pretty(&refusal).unwrap_or(refusal.message));
        result.json = format!(r#"{{"content":{content},"isError":true,"_meta":{{"{}":{brief}}}}}"#, meta::CALL);
    }
    if let Some(error) = upstream_error {
        result.json = with_meta(result.json, meta::UPSTREAM_ERROR, &to_json(&error));
    }
    result.json = with_meta(result.json, meta::OBSERVATION, &to_json(&observation));
    result
}

/// Adds a member to the `_meta` of a result that the gateway made, which ends with its `_meta`.
fn with_meta(mut json: String, member: &str, value: &str) -> String {
    if json.ends_with("}}") {
        json.truncate(json.len() - 2);
        let _ = write!(json, ",\"{member}\":{value}}}}}");
    }
    json
}

/// The `content` of an answer that is one text.
fn text_block(text: String) -> String {
    text_blocks(vec![text])
}

/// The `content` of an answer that is several texts.
pub(super) fn text_blocks(texts: Vec<String>) -> String {
    #[derive(Serialize)]
    struct TextContentBlock {
        r#type: &'static str,
        text: String,
    }
    let blocks: Vec<TextContentBlock> =
        texts.into_iter().map(|text| TextContentBlock { r#type: "text", text }).collect();
    to_json(&blocks)
}

/// The facts about a recorded call that every observation carries.
pub(crate) fn occasion(record: &CallRecord) -> ObservationContext<'_> {
    ObservationContext {
        tool: &record.tool,
        version: "",
        call_id: &record.call_id,
        received_at: record.received_at,
        finished_at: record.finished_at.unwrap_or(record.received_at),
        trace_id: &record.trace_id,
        idempotency_hit: record.outcome == Outcome::Replayed,
        attempt_number: record.attempts.unwrap_or(1),
        grant: record.grant(),
    }
}

/// The observation of an answer that may be passed on.
pub(crate) fn observation(
    occasion: &ObservationContext<'_>,
    observed: &CheckedAnswer<'_>,
    verification: Verification,
) -> Observation {
    let errors = observed.error_text.iter().map(|text| PayloadError {
        field: None,
        message: legible(text).into_owned(),
        code: observed.class.name().to_owned(),
    });
    let data = observed.data.map(ToOwned::to_owned);
    Observation::from_result(occasion, observed.class, data, errors.collect(), verification)
}

/// What a contract wants to be checked afterwards.
pub(crate) fn verification(contract: &ToolContract) -> Verification {
    let asked = contract.verification.as_ref();
    Verification {
        post_action_verification_required: contract.transactional.post_action_verification_required,
        target_state_reference: asked.map(|asked| asked.target_state_reference.clone()),
        expected_state: asked.and_then(|asked| asked.expected_state.clone()),
        delay_seconds: asked.map_or(0, |asked| asked.delay_seconds),
    }
}
