//! Inserts credential values into the arguments of a call just before it is sent, and hides these arguments from the rest of the gateway:
//! they are removed from a tool's definition as soon as it is read, so the code that decides, lists or proposes never sees them. Pure
//! functions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, value::RawValue};
use servanda_authority::Secret;
use servanda_mcp::envelope::to_json;

/// How deeply nested an argument may be.
const DEPTH_MAX: usize = 8;

/// The parts of a JSON pointer; none if it does not point to an argument.
pub(crate) fn pointer_parts(pointer: &str) -> Option<Vec<String>> {
    let rest = pointer.strip_prefix('/')?;
    let parts: Vec<String> = rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
    (parts.len() <= DEPTH_MAX && parts.iter().all(|part| !part.is_empty())).then_some(parts)
}

/// Whether a value can be inserted at this pointer.
pub fn is_argument_pointer(pointer: &str) -> bool {
    pointer_parts(pointer).is_some()
}

/// Inserts a value into the arguments, or says why it cannot. Everything else keeps its bytes.
pub(crate) fn insert_argument(arguments: &[u8], pointer: &str, value: &Secret) -> Result<Vec<u8>, &'static str> {
    let parts = pointer_parts(pointer).ok_or("it is not a pointer to an argument")?;
    let text = value.as_text().ok_or("the value is not text")?;
    let arguments = std::str::from_utf8(arguments).map_err(|_| "the arguments are not text")?;
    put_at(arguments, &parts, text).map(String::into_bytes)
}

fn put_at(object: &str, parts: &[String], text: &str) -> Result<String, &'static str> {
    let Some((first, rest)) = parts.split_first() else { return Ok(to_json(text)) };
    if !object.trim_start().starts_with('{') {
        return Err("there is no object to insert it into");
    }
    let mut members: BTreeMap<String, &RawValue> =
        serde_json::from_str(object).map_err(|_| "there is no object to insert it into")?;
    let inner = match members.remove(first) {
        Some(_) if rest.is_empty() => return Err("the call already has a value for it"),
        Some(inner) => put_at(inner.get(), rest, text)?,
        None => put_at("{}", rest, text)?,
    };
    let others = members.iter().map(|(name, value)| format!("{}:{}", to_json(name), value.get()));
    let all: Vec<String> = others.chain([format!("{}:{inner}", to_json(first))]).collect();
    Ok(format!("{{{}}}", all.join(",")))
}

/// A definition without these arguments, and the set of those it had.
pub(crate) fn remove_arguments(
    definition: &RawValue,
    pointers: &BTreeSet<String>,
) -> Option<(Box<RawValue>, BTreeSet<String>)> {
    let mut value: Value = serde_json::from_str(definition.get()).ok()?;
    let schema = value.get_mut("inputSchema")?;
    let taken: BTreeSet<String> = pointers.iter().filter(|pointer| remove_argument(schema, pointer)).cloned().collect();
    if taken.is_empty() {
        return None;
    }
    Some((serde_json::value::to_raw_value(&value).ok()?, taken))
}

/// Removes an argument from a schema. Returns false if it is not there.
fn remove_argument(schema: &mut Value, pointer: &str) -> bool {
    let Some(parts) = pointer_parts(pointer) else { return false };
    let Some((last, before)) = parts.split_last() else { return false };
    let mut at = schema;
    for part in before {
        let Some(next) = at.get_mut("properties").and_then(|properties| properties.get_mut(part)) else { return false };
        at = next;
    }
    let known = at.get_mut("properties").and_then(Value::as_object_mut).and_then(|all| all.shift_remove(last));
    if known.is_none() {
        return false;
    }
    if let Some(required) = at.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| name.as_str() != Some(last));
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_put_in_and_everything_else_keeps_its_bytes() {
        let table = [
            ("{}", "/key", Ok(r#"{"key":"va\"lue"}"#)),
            (r#"{"a":1.50,"b":[1, 2]}"#, "/key", Ok(r#"{"a":1.50,"b":[1, 2],"key":"va\"lue"}"#)),
            (r#"{"auth":{"user":"x"}}"#, "/auth/key", Ok(r#"{"auth":{"user":"x","key":"va\"lue"}}"#)),
            ("{}", "/auth/a~1b", Ok(r#"{"auth":{"a/b":"va\"lue"}}"#)),
            (r#"{"auth":7}"#, "/auth/key", Err("there is no object to insert it into")),
            (r#"{"key":"mine"}"#, "/key", Err("the call already has a value for it")),
            (r#"{"key":null}"#, "/key", Err("the call already has a value for it")),
            ("{}", "key", Err("it is not a pointer to an argument")),
            ("{}", "/", Err("it is not a pointer to an argument")),
        ];
        for (arguments, pointer, expected) in table {
            let found = insert_argument(arguments.as_bytes(), pointer, &Secret::from("va\"lue".to_owned()));
            let found = found.map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(found, expected.map(str::to_owned), "{arguments} {pointer}");
        }
    }

    #[test]
    fn a_definition_does_not_show_inserted_arguments() {
        let definition = r#"{"name":"t","inputSchema":{"type":"object","properties":{"api_key":{"type":"string"},"q":{},
            "auth":{"type":"object","properties":{"k":{},"u":{}},"required":["k","u"]}},"required":["api_key","q"]}}"#;
        let definition = RawValue::from_string(definition.to_owned()).unwrap();
        let set = |all: &[&str]| all.iter().map(|&one| one.to_owned()).collect::<BTreeSet<_>>();
        let (clean, taken) = remove_arguments(&definition, &set(&["/api_key", "/auth/k", "/absent"])).unwrap();
        assert_eq!(taken, set(&["/api_key", "/auth/k"]));
        assert_eq!(
            clean.get(),
            concat!(
                r#"{"name":"t","inputSchema":{"type":"object","properties":{"q":{},"#,
                r#""auth":{"type":"object","properties":{"u":{}},"required":["u"]}},"required":["q"]}}"#
            )
        );
        assert!(remove_arguments(&definition, &set(&["/absent"])).is_none());
    }
}
