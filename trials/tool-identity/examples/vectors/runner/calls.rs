//! Vectors of call ids, the ledger of them, and the wire form of calls.

use serde_json::{Value, json};
use tool_identity::{
    LookupKey,
    call::{self, CallLedger, CallState, HostedRequest},
};

use super::{
    Answer, error_of,
    fixtures::{list, member, text, tool},
};

/// More than any vector needs.
const CALLS_MAX: usize = 1000;

pub(crate) fn answer(function: &str, input: &Value) -> Option<Answer> {
    let item = member(input, "item");
    let value = match function {
        "call_id_of_payload" => json!(call::id_of_payload(item)),
        "call_id_of_approval_item" => json!(call::id_of_approval_item(item).as_ref().map(call::CallId::as_str)),
        "call_id_of_invocation" => call::invocation_of(item).map_or(
            Value::Null,
            |(kind, id)| json!({ "type": kind.word(), "call_id": id.as_ref().map(call::CallId::as_str) }),
        ),
        "call_id_of_output" => call::output_of(item)
            .map_or(Value::Null, |(kind, id)| json!({ "type": kind.word(), "call_id": id.as_str() })),
        "hosted_mcp_request_identity" => HostedRequest::of_item(item).map_or(Value::Null, hosted),
        "call_id_ledger" => ledger(input),
        "normalize_call" => {
            let tool = tool(member(input, "tool"));
            call::without_synthetic_namespace(&tool.identity, member(input, "call"))
        }
        "restore_call_namespace" => {
            let key = LookupKey::decode(member(input, "lookup_key"));
            call::restore_namespace(key.as_ref(), member(input, "call"))
        }
        "required_call_id_shell" => return Some(Answer::Declined("an id that is no text is never made into one")),
        "invocation_scope" => return Some(Answer::Declined("scopes are compared as they are, not as their hash")),
        _ => return None,
    };
    Some(Answer::Given(Ok(value)))
}

fn hosted(request: HostedRequest) -> Value {
    let permanent = request.tool().map(|tool| json!(["hosted_mcp", tool.server_label, tool.name.as_str()]));
    json!({
        "request_id": request.request_id.as_ref().map(call::CallId::as_str),
        "server_label": request.server_label,
        "tool_name": request.tool_name.map(|name| name.to_string()),
        "permanent_identity": permanent,
    })
}

fn ledger(input: &Value) -> Value {
    let mut ledger = CallLedger::new(CALLS_MAX);
    let step = |step: &Value| {
        let item = member(step, "item");
        let key = LookupKey::decode(member(step, "lookup_key"));
        let told = match text(step, "op") {
            "observe" => {
                ledger.observe(item, key.as_ref()).map(|state| state.map_or(Value::Null, |state| told(&state)))
            }
            "executed" => ledger.mark_executed(item, key.as_ref()).map(|()| json!("ok")),
            "output" => {
                ledger.mark_output(item);
                Ok(json!("ok"))
            }
            other => Ok(json!(format!("unknown op {other}"))),
        };
        told.unwrap_or_else(|error| json!({ "error": error_of(&error) }))
    };
    list(input, "steps").iter().map(step).collect()
}

fn told(state: &CallState) -> Value {
    json!({
        "type": state.kind.word(),
        "call_id": state.id.as_str(),
        "completed": state.completed,
        "executed": state.executed,
    })
}
