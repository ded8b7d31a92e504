//! Vectors of keys, names, labels and defaults.

use serde_json::{Value, json};
use tool_identity::{IdentityError, LookupKey, NamespaceDeclaration, ToolAddress, check_shape, defaults};

use super::{
    Answer,
    fixtures::{FixtureTool, address, key_value, list, member, text, tool},
};

pub(crate) fn answer(function: &str, input: &Value) -> Option<Answer> {
    let told = of_address(function, input).or_else(|| of_call(function, input)).or_else(|| of_tool(function, input));
    let value = match told {
        Some(value) => value,
        None => match function {
            "validate_namespace_shape" => shape(input),
            "attach_namespace" => attached(input),
            "serialize_lookup_key" => Ok(key_value(tuple_key(member(input, "key")))),
            "deserialize_lookup_key" => Ok(LookupKey::decode(member(input, "data")).map_or(Value::Null, tuple_of)),
            "handoff_default_name" | "handoff_name" => Ok(default_name(input, defaults::handoff_name)),
            "agent_tool_default_name" => Ok(default_name(input, defaults::agent_tool_name)),
            "validate_generated_name" => defaults::generated_name(text(input, "name")).map(|name| json!(name.as_str())),
            _ => return None,
        },
    };
    Some(Answer::Given(value))
}

type Told = Result<Value, IdentityError>;

fn of_address(function: &str, input: &Value) -> Option<Told> {
    let address = address(input);
    Some(Ok(match function {
        "is_reserved_namespace" => json!(address.is_some_and(|address| address.is_reserved())),
        "lookup_key" => key_value(address.map(|address| LookupKey::of(&address))),
        "qualified_name" => json!(address.map(|address| address.qualified_name().to_string())),
        "trace_name" => json!(address.map(|address| address.trace_name().to_string())),
        _ => return None,
    }))
}

fn of_call(function: &str, input: &Value) -> Option<Told> {
    let call = member(input, "call");
    Some(Ok(match function {
        "lookup_key_for_call" => key_value(LookupKey::of_call(call)),
        "qualified_name_for_call" => {
            json!(ToolAddress::from_call(call).map(|address| address.qualified_name().to_string()))
        }
        "trace_name_for_call" => json!(ToolAddress::from_call(call).map(|address| address.trace_name().to_string())),
        _ => return None,
    }))
}

fn of_tool(function: &str, input: &Value) -> Option<Told> {
    let identity = tool(member(input, "tool")).identity;
    Some(Ok(match function {
        "is_deferred_top_level" => json!(identity.is_deferred_top_level()),
        "lookup_key_for_tool" => key_value(identity.lookup_key()),
        "lookup_keys_for_tool" => identity.lookup_key().iter().map(LookupKey::encode).collect(),
        "qualified_name_for_tool" | "dispatch_name_for_tool" => {
            json!(identity.qualified_name().map(|name| name.to_string()))
        }
        "trace_name_for_tool" => json!(identity.trace_name().map(|name| name.to_string())),
        "listing_trace_name_for_tool" => json!(identity.listing_label()),
        _ => return None,
    }))
}

fn shape(input: &Value) -> Told {
    address(input).map_or(Ok(()), |address| check_shape(&address)).map(|()| json!("ok"))
}

fn attached(input: &Value) -> Told {
    let declared = NamespaceDeclaration::new(text(input, "namespace"), text(input, "description"))?;
    let tools: Vec<FixtureTool> = list(input, "tools").iter().map(tool).collect();
    let members = declared.attach(&tools.iter().map(|tool| tool.identity.clone()).collect::<Vec<_>>())?;
    let written = members.into_iter().zip(&tools).map(|(attached, tool)| {
        let raw_name = member(&tool.target, "name");
        json!({
            "name": raw_name,
            "namespace": declared.name().as_str(),
            "description": declared.description(),
            // The vectors' library writes the plain name if there is nothing to qualify.
            "qualified_name": attached.qualified_name().map_or(raw_name.clone(), |name| json!(name.as_str())),
            "lookup_key": key_value(attached.lookup_key()),
        })
    });
    Ok(written.collect())
}

type Named = Option<(tool_identity::PublicName, tool_identity::NameSource)>;

fn default_name(input: &Value, name: impl Fn(&str, Option<&str>) -> Named) -> Value {
    let named = name(text(input, "agent"), input.get("override").and_then(Value::as_str));
    json!(named.map_or_else(String::new, |(name, _)| name.to_string()))
}

/// A key as the vectors' library stores it: a tuple of its kind and its texts.
fn tuple_key(tuple: &Value) -> Option<LookupKey> {
    let texts: Vec<&str> = tuple.as_array()?.iter().filter_map(Value::as_str).collect();
    match texts.as_slice() {
        [kind, name] => LookupKey::decode(&json!({ "kind": kind, "name": name })),
        [kind, namespace, name] => LookupKey::decode(&json!({ "kind": kind, "namespace": namespace, "name": name })),
        _ => None,
    }
}

fn tuple_of(key: LookupKey) -> Value {
    match key {
        LookupKey::Bare(name) => json!(["bare", name.as_str()]),
        LookupKey::DeferredTopLevel(name) => json!(["deferred_top_level", name.as_str()]),
        LookupKey::Namespaced { namespace, name } => json!(["namespaced", namespace.as_str(), name.as_str()]),
    }
}
