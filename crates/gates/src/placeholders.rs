//! `{name}` in a contract's own arguments: the argument of that name of the call.

use serde_json::{Map, Value};

/// Arguments with those of the call in place of `{name}`. One that stands for an argument which is absent is left out.
pub(crate) fn rendered_members(members: &Map<String, Value>, arguments: &Value) -> Value {
    let members = members.iter();
    let rendered = members.filter_map(|(name, value)| Some((name.clone(), rendered(value, arguments)?)));
    Value::Object(rendered.collect())
}

/// The names of the arguments that stand in a value.
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

/// A value with the call's arguments in place of `{name}`: the argument itself where nothing else is there, its text inside
/// a text. None if an argument is absent that the whole value stands for.
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

fn filled(text: &str, arguments: &Value) -> String {
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
