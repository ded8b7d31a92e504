//! Tools, handoffs, servers and keys as the vectors write them.

use serde_json::{Value, json};
use tool_identity::{
    ExplicitNamespace, Handoff, Loading, LookupKey, NameSource, PublicName, Tool, ToolAddress, ToolIdentity, ToolKind,
    defaults,
};

/// A tool with the rest of its vector.
pub(crate) type FixtureTool = Tool<Value>;

/// A member, null if it is missing.
pub(crate) fn member<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&Value::Null)
}

/// A list, empty if it is missing.
pub(crate) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    member(value, name).as_array().map_or(&[], Vec::as_slice)
}

/// A text, empty if it is missing.
pub(crate) fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    member(value, name).as_str().unwrap_or_default()
}

/// A flag, false if it is missing.
pub(crate) fn flag(value: &Value, name: &str) -> bool {
    member(value, name) == &Value::Bool(true)
}

/// Whether it is enabled, which it is unless it says otherwise.
pub(crate) fn is_enabled(value: &Value) -> bool {
    member(value, "enabled") != &Value::Bool(false)
}

/// An address that is written beside other members.
pub(crate) fn address(value: &Value) -> Option<ToolAddress> {
    ToolAddress::from_call(value)
}

/// A lookup key, or null.
pub(crate) fn key_value(key: Option<LookupKey>) -> Value {
    key.map_or(Value::Null, |key| key.encode())
}

/// A tool.
pub(crate) fn tool(value: &Value) -> FixtureTool {
    let chosen = PublicName::read(value.get("name"));
    let derived = value.get("derived_from_agent").and_then(Value::as_str);
    let derived = derived.and_then(|agent| defaults::agent_tool_name(agent, None));
    let (name, source) = match (chosen, derived) {
        (None, Some((name, source))) => (Some(name), source),
        (chosen, _) => (chosen, NameSource::Chosen),
    };
    let identity = ToolIdentity {
        kind: if text(value, "kind") == "other" { ToolKind::Other } else { ToolKind::Function },
        name,
        namespace: ExplicitNamespace::read(value.get("namespace")),
        loading: if flag(value, "defer_loading") { Loading::Deferred } else { Loading::Eager },
        label: value.get("trace_name").and_then(Value::as_str).map(str::to_owned),
        source,
    };
    Tool { identity, target: value.clone() }
}

/// All tools of an input.
pub(crate) fn tools(input: &Value) -> Vec<FixtureTool> {
    list(input, "tools").iter().map(tool).collect()
}

/// The enabled tools of an input.
pub(crate) fn enabled_tools(input: &Value) -> Vec<FixtureTool> {
    list(input, "tools").iter().filter(|tool| is_enabled(tool)).map(tool).collect()
}

/// The enabled handoffs of an input.
pub(crate) fn enabled_handoffs(input: &Value) -> Vec<Handoff<Value>> {
    let enabled = list(input, "handoffs").iter().filter(|handoff| is_enabled(handoff));
    let read = |value: &Value| {
        let chosen = value.get("tool_name_override").and_then(Value::as_str);
        let (name, source) = defaults::handoff_name(text(value, "agent"), chosen)?;
        Some(Handoff { name, source, target: value.clone() })
    };
    enabled.filter_map(read).collect()
}

/// The id of a fixture.
pub(crate) fn id(target: &Value) -> Value {
    json!(text(target, "id"))
}
