//! Vectors of approvals: texts, aliases, pending items, decisions.

use serde_json::{Value, json};
use tool_identity::{
    IdentityError, LookupKey,
    approval::{ApprovalKey, ApprovalKeys, Approvals, BareAlias, Lasting, Owner, PendingApproval, Verdict},
    call::CallId,
    lookup::Route,
};

use super::{
    Answer, error_of,
    fixtures::{self, FixtureTool, address, enabled_handoffs, enabled_tools, flag, list, member, text},
    lookups::route,
};

/// More than any vector needs.
const DECISIONS_MAX: usize = 1000;

pub(crate) fn answer(function: &str, input: &Value) -> Option<Answer> {
    Some(Answer::Given(match function {
        "approval_keys" => Ok(keys(input)),
        "bare_alias_allowed" => Ok(alias(input)),
        "approval_identity" => pending(input),
        "approval_decisions" => Ok(decisions(input)),
        _ => return None,
    }))
}

fn keys(input: &Value) -> Value {
    let chosen = LookupKey::decode(member(input, "lookup_key"));
    let alias = BareAlias::asserted(flag(input, "allow_bare_name_alias"));
    let keys = address(input).map(|address| ApprovalKeys::of(&address, chosen.as_ref(), alias));
    keys.iter().flat_map(ApprovalKeys::iter).map(|key| json!(key.as_str())).collect()
}

fn alias(input: &Value) -> Value {
    let tools = enabled_tools(input);
    let chosen = tools.iter().find(|tool| text(&tool.target, "id") == text(input, "tool"));
    json!(chosen.is_some_and(|tool| BareAlias::permitted(tool, &tools).is_some()))
}

fn pending(input: &Value) -> Result<Value, IdentityError> {
    let (tools, handoffs) = (enabled_tools(input), enabled_handoffs(input));
    let call = member(input, "call");
    let Route::Tool(tool) = route(&tools, &handoffs, call)? else { return Ok(json!({ "pending": false })) };
    let waits = flag(&tool.target, "needs_approval");
    let Some(item) = PendingApproval::new(tool, &tools, call).filter(|_| waits) else {
        return Ok(json!({ "pending": false }));
    };
    let texts: Vec<&str> = item.keys.iter().map(ApprovalKey::as_str).collect();
    Ok(json!({
        "pending": true,
        "tool_name": item.address.name.as_str(),
        "namespace": item.shown_namespace,
        "lookup_key": item.lookup_key.encode(),
        "display_name": item.display_name.as_str(),
        "call_id": item.call_id.as_ref().map(CallId::as_str),
        "bare_alias_allowed": item.alias.is_some(),
        "per_call_keys": texts,
        "permanent_key": item.keys.canonical().as_str(),
    }))
}

fn decisions(input: &Value) -> Value {
    let tools = fixtures::tools(input);
    let mut approvals = Approvals::new(DECISIONS_MAX);
    let step = |step: &Value| {
        let told = if step.get("hosted").is_some() {
            hosted_step(&mut approvals, step)
        } else if text(step, "op") == "inspect" {
            let id = CallId::read(step.get("call_id"));
            Ok(verdict(id.and_then(|id| approvals.inspect(text(step, "name"), &id))))
        } else {
            tool_step(&mut approvals, &tools, step)
        };
        told.unwrap_or_else(|error| json!({ "error": error_of(&error) }))
    };
    list(input, "steps").iter().map(step).collect()
}

fn tool_step(approvals: &mut Approvals, tools: &[FixtureTool], step: &Value) -> Result<Value, IdentityError> {
    // The fixtures omit what every such call has.
    let call = with_defaults(member(step, "call"), "function_call");
    let owner = Owner(text(step, "agent").to_owned());
    let chosen = tools.iter().find(|tool| text(&tool.target, "id") == text(step, "tool"));
    let pending = chosen.and_then(|tool| PendingApproval::new(tool, tools, &call));
    let pending = pending.ok_or(IdentityError::ApprovalRequiresCanonicalInvocation)?;
    match text(step, "op") {
        "status" => approvals.status(&owner, &pending).map(verdict),
        "message" => Ok(json!(approvals.rejection_message(&owner, &pending))),
        op => {
            let (lasting, decided, message) = decision(op, step);
            approvals.decide(&owner, &pending, lasting, decided, message).map(|()| json!("ok"))
        }
    }
}

fn hosted_step(approvals: &mut Approvals, step: &Value) -> Result<Value, IdentityError> {
    let item = with_defaults(member(step, "hosted"), "mcp_approval_request");
    match text(step, "op") {
        "status" => approvals.hosted_status(&item).map(verdict),
        "message" => Ok(json!(approvals.hosted_rejection_message(&item))),
        op => {
            let (lasting, decided, message) = decision(op, step);
            approvals.decide_hosted(&item, lasting, decided, message).map(|()| json!("ok"))
        }
    }
}

fn decision<'a>(op: &str, step: &'a Value) -> (Lasting, Verdict, Option<&'a str>) {
    let lasting = if flag(step, "always") { Lasting::Always } else { Lasting::ThisCall };
    let decided = if op == "approve" { Verdict::Approved } else { Verdict::Rejected };
    (lasting, decided, step.get("message").and_then(Value::as_str))
}

fn verdict(verdict: Option<Verdict>) -> Value {
    json!(verdict.map(|verdict| verdict == Verdict::Approved))
}

fn with_defaults(call: &Value, kind: &str) -> Value {
    let mut call = call.clone();
    if let Some(members) = call.as_object_mut() {
        members.entry("type").or_insert_with(|| json!(kind));
        members.entry("arguments").or_insert_with(|| json!("{}"));
    }
    call
}
