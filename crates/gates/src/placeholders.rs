//! `{name}` in a contract's own arguments stands for the call's argument of that name.

use serde_json::{Map, Value};

/// Replaces `{name}` with the call's arguments. A member that stands for an absent argument is left out.
pub(crate) fn rendered_members(members: &Map<String, Value>, arguments: &Value) -> Value {
    let members = members.iter();
    let rendered = members.filter_map(|(name, value)| Some((name.clone(), rendered(value, arguments)?)));
    Value::Object(rendered.collect())
}

/// Collects the names of the placeholders in a value.
pub(crate) fn placeholders(value: &Value, names: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let mut rest = text.as_str();
            while let Some((_, name, behind)) = placeholder(rest) {
                names.push(name.to_owned());
                rest = behind;
            }
        }
        Value::Array(items) => items.iter().for_each(|item| placeholders(item, names)),
        Value::Object(members) => members.values().for_each(|value| placeholders(value, names)),
        _ => {}
    }
}

/// Replaces `{name}` in a value with the call's argument: the argument itself if the text is nothing else, its
/// text inside a longer text. None if the whole value stands for an absent argument.
fn rendered(value: &Value, arguments: &Value) -> Option<Value> {
    Some(match value {
        Value::String(text) => match whole(text) {
            Some(name) => arguments.get(name)?.clone(),
            None => Value::from(filled(text, arguments)),
        },
        Value::Array(items) => Value::Array(items.iter().filter_map(|item| rendered(item, arguments)).collect()),
        Value::Object(members) => rendered_members(members, arguments),
        other => other.clone(),
    })
}

/// The name, if a text is nothing but one placeholder.
fn whole(text: &str) -> Option<&str> {
    text.strip_prefix('{')?.strip_suffix('}').filter(|name| !name.is_empty() && !name.contains(['{', '}']))
}

pub(crate) fn filled(text: &str, arguments: &Value) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, name, behind)) = placeholder(rest) {
        filled.push_str(before);
        match arguments.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::String(text)) => filled.push_str(text),
            Some(other) => filled.push_str(&other.to_string()),
        }
        rest = behind;
    }
    filled + rest
}

fn placeholder(text: &str) -> Option<(&str, &str, &str)> {
    let (before, after) = text.split_once('{')?;
    let (name, behind) = after.split_once('}')?;
    Some((before, name, behind))
}
