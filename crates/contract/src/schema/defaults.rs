//! Applies `default`: an absent argument gets the value that the contract gives it, before anything is hashed or sent.
//!
//! A default that breaks its own schema (`"type": "string", "default": null`; 241 of 6,804 real tools have one) is not a valid
//! value. It is dropped when the schema is compiled, so that callers can still leave the argument out.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::members::{ReferenceResolver, list};

/// The recursion limit for schemas that refer to themselves.
const DEPTH_MAX: usize = 32;

/// Every default of a document: the pointer of the schema that has it, and the value.
pub(super) fn find(document: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    collect(document, String::new(), &mut found);
    found
}

/// Removes a default.
pub(super) fn drop_at(document: &mut Value, pointer: &str) {
    if let Some(schema) = document.pointer_mut(pointer).and_then(Value::as_object_mut) {
        schema.remove("default");
    }
}

/// Fills in the defaults of absent properties, through nested objects, arrays, `allOf` and local references, down to
/// `depth_max`: a default may contain further defaults.
pub(super) fn apply(document: &Value, value: &mut Value, depth_max: Option<usize>) {
    let room = depth_max.unwrap_or(DEPTH_MAX).min(DEPTH_MAX);
    descend(ReferenceResolver(document), document, value, DEPTH_MAX - room);
}

fn descend(document: ReferenceResolver<'_>, schema: &Value, value: &mut Value, depth: usize) {
    if depth > DEPTH_MAX {
        return;
    }
    let Some(members) = schema.as_object() else { return };
    if let Some(referred) = document.behind_references(schema).filter(|_| members.contains_key("$ref")) {
        descend_into(document, referred, value, depth);
    }
    descend_into(document, members, value, depth);
}

fn descend_into(document: ReferenceResolver<'_>, schema: &Map<String, Value>, value: &mut Value, depth: usize) {
    match value {
        Value::Object(object) => fill(document, schema, object, depth),
        Value::Array(items) => {
            let (prefix, rest) = positions(schema);
            for (position, item) in items.iter_mut().enumerate() {
                if let Some(item_schema) = prefix.get(position).or(rest) {
                    descend(document, item_schema, item, depth + 1);
                }
            }
        }
        _ => return,
    }
    for part in list(schema, "allOf") {
        descend(document, part, value, depth + 1);
    }
}

/// The schemas of single positions, and the schema of all others. Draft-07 writes the former as a list of `items`.
fn positions(schema: &Map<String, Value>) -> (&[Value], Option<&Value>) {
    match schema.get("items") {
        Some(Value::Array(tuple)) => (tuple, schema.get("additionalItems")),
        rest => (list(schema, "prefixItems"), rest),
    }
}

fn fill(document: ReferenceResolver<'_>, schema: &Map<String, Value>, object: &mut Map<String, Value>, depth: usize) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    for (name, property) in properties {
        if !object.contains_key(name)
            && let Some(default) = default_of(document, property)
        {
            object.insert(name.clone(), default.clone());
        }
        if let Some(present) = object.get_mut(name) {
            descend(document, property, present, depth + 1);
        }
    }
}

/// A default beside a reference wins over one behind it.
fn default_of<'a>(document: ReferenceResolver<'a>, property: &'a Value) -> Option<&'a Value> {
    property.get("default").or_else(|| document.behind_references(property)?.get("default"))
}

fn collect(schema: &Value, at: String, found: &mut Vec<(String, Value)>) {
    match schema {
        Value::Object(members) => {
            for (keyword, inner) in members {
                // Data, not schemas.
                if !["enum", "const", "examples", "default", "required"].contains(&keyword.as_str()) || is_names(&at) {
                    let step = keyword.replace('~', "~0").replace('/', "~1");
                    collect(inner, format!("{at}/{step}"), found);
                }
            }
            if let Some(default) = members.get("default").filter(|_| !is_names(&at)) {
                found.push((at, default.clone()));
            }
        }
        Value::Array(items) => {
            for (position, item) in items.iter().enumerate() {
                collect(item, format!("{at}/{position}"), found);
            }
        }
        _ => {}
    }
}

/// Whether the keys of the object at a pointer are the author's names, not keywords.
fn is_names(at: &str) -> bool {
    let last = at.rsplit('/').next().unwrap_or_default();
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"].contains(&last)
        && !is_names_of_parent(at)
}

/// A property may itself be called `properties`.
fn is_names_of_parent(at: &str) -> bool {
    at.rsplit_once('/').is_some_and(|(parent, _)| !parent.is_empty() && is_names(parent))
}

/// A schema that checks each of `found` against the schema it is the default of, and the value to check with it.
pub(super) fn trial(base: &str, found: &[(String, Value)]) -> (Value, Value) {
    let positions = || (0..found.len()).map(|position| position.to_string());
    let schemas: Map<String, Value> = positions()
        .zip(found)
        .map(|(position, (pointer, _))| (position, json!({ "$ref": format!("{base}#{}", fragment(pointer)) })))
        .collect();
    let values = positions().zip(found).map(|(position, (_, default))| (position, default.clone())).collect();
    (json!({ "properties": schemas }), Value::Object(values))
}

/// A pointer as a URI fragment.
pub(super) fn fragment(pointer: &str) -> String {
    pointer.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"/-._~$".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}
