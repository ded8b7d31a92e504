//! Vectors of which tools can be looked up together, of routing and of shared names.

use serde_json::{Value, json};
use tool_identity::{
    CollisionPolicy, Handoff, IdentityError, LookupTable, Tool, ToolAddress, collisions,
    lookup::{self, Route},
};

use super::{
    Answer,
    fixtures::{FixtureTool, enabled_handoffs, enabled_tools, id, member, text, tools},
};

pub(crate) fn answer(function: &str, input: &Value) -> Option<Answer> {
    Some(Answer::Given(match function {
        "validate_lookup_configuration" => lookup::validate(&tools(input)).map(|()| json!("ok")),
        "build_lookup_map" => table(&tools(input)),
        "route_call" => routed(input),
        "runtime_invocation" => invoked(input),
        "resolve_name_collisions" => resolved(input),
        _ => return None,
    }))
}

/// The policy an input names; its library's default is to keep the last.
pub(crate) fn policy(input: &Value) -> CollisionPolicy {
    if text(input, "policy") == "error" { CollisionPolicy::Refuse } else { CollisionPolicy::KeepLast }
}

/// Where the call of an input leads.
pub(crate) fn route<'a>(
    tools: &'a [FixtureTool],
    handoffs: &'a [Handoff<Value>],
    call: &Value,
) -> Result<Route<'a, Value, Value>, IdentityError> {
    let table = LookupTable::build(tools)?;
    let address =
        ToolAddress::from_call(call).ok_or_else(|| IdentityError::ToolNotFound(text(call, "name").to_owned()))?;
    table.route(handoffs, &address)
}

fn table(tools: &[FixtureTool]) -> Result<Value, IdentityError> {
    let table = LookupTable::build(tools)?;
    let mut rows: Vec<Value> =
        table.iter().map(|(key, tool)| json!({ "key": key.encode(), "tool": id(&tool.target) })).collect();
    rows.sort_by_key(|row| {
        let key = member(row, "key");
        [text(key, "kind"), text(key, "namespace"), text(key, "name")].map(str::to_owned)
    });
    Ok(Value::Array(rows))
}

fn routed(input: &Value) -> Result<Value, IdentityError> {
    let (tools, handoffs) = (enabled_tools(input), enabled_handoffs(input));
    let route = route(&tools, &handoffs, member(input, "call"))?;
    let reported = route.reported_name().map(|name| name.to_string());
    Ok(match route {
        Route::Handoff(handoff) => json!({ "handoff": id(&handoff.target), "reported_name": reported }),
        Route::Tool(tool) => json!({ "tool": id(&tool.target), "reported_name": reported }),
    })
}

fn invoked(input: &Value) -> Result<Value, IdentityError> {
    let (tools, handoffs) = (enabled_tools(input), enabled_handoffs(input));
    let call = member(input, "call");
    let route = route(&tools, &handoffs, call)?;
    let traced = ToolAddress::from_call(call).map(|address| address.trace_name().to_string());
    Ok(json!({
        "context_tool_name": member(call, "name"),
        "context_namespace": member(call, "namespace"),
        "context_qualified_name": traced,
        "context_call_id": member(call, "call_id"),
        "span_name": route.reported_name().map(|name| name.to_string()),
        "output_call_id": member(call, "call_id"),
    }))
}

fn resolved(input: &Value) -> Result<Value, IdentityError> {
    let (tools, handoffs) = (tools(input), enabled_handoffs(input));
    let (tools, handoffs): (Vec<&Tool<Value>>, Vec<&Handoff<Value>>) =
        (tools.iter().collect(), handoffs.iter().collect());
    let survivors = collisions::resolve(&tools, &handoffs, policy(input))?;
    let tools: Vec<Value> = survivors.tools.iter().map(|tool| id(&tool.target)).collect();
    let handoffs: Vec<Value> = survivors.handoffs.iter().map(|handoff| id(&handoff.target)).collect();
    Ok(json!({ "tools": tools, "handoffs": handoffs }))
}
