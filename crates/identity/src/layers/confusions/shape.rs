//! What a schema accepts, without documentation: no titles, no descriptions, one order.

use serde_json::{Map, Value};

/// Members that only document.
const TELLING: [&str; 7] = ["title", "description", "$comment", "$schema", "$id", "examples", "deprecated"];
/// Members that hold schemas under names that the author chooses: a property called `title` is not a title.
const NAMED_SCHEMAS: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];
/// Members that hold a set, written as a list.
const SETS: [&str; 3] = ["required", "enum", "type"];
/// Members that hold values, which contain no schemas.
const VALUES: [&str; 2] = ["const", "default"];

/// The common form of all schemas that accept the same.
pub(super) fn canonical(schema: &Value) -> Value {
    match schema {
        Value::Object(members) => {
            // An extension (`x-effect`) says what a value is for, not which values are accepted.
            let told = |name: &str| TELLING.contains(&name) || name.starts_with("x-");
            let kept = members.iter().filter(|(name, _)| !told(name));
            // An empty `required` and an empty `properties` say nothing.
            let said =
                kept.filter(|(name, value)| !(is_empty(value) && (*name == "required" || *name == "properties")));
            ordered(said.map(|(name, value)| (name, member(name, value))))
        }
        Value::Array(schemas) => schemas.iter().map(canonical).collect(),
        _ => schema.clone(),
    }
}

fn member(name: &str, value: &Value) -> Value {
    match value {
        Value::Object(schemas) if NAMED_SCHEMAS.contains(&name) => {
            ordered(schemas.iter().map(|(name, schema)| (name, canonical(schema))))
        }
        Value::Array(items) if SETS.contains(&name) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        _ if VALUES.contains(&name) => sorted(value),
        _ => canonical(value),
    }
}

/// A value whose objects have their members in order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => ordered(members.iter().map(|(name, value)| (name, sorted(value)))),
        Value::Array(items) => items.iter().map(sorted).collect(),
        _ => value.clone(),
    }
}

fn ordered<'a>(members: impl Iterator<Item = (&'a String, Value)>) -> Value {
    let mut members: Vec<(&String, Value)> = members.collect();
    members.sort_by_key(|(name, _)| *name);
    Value::Object(members.into_iter().map(|(name, value)| (name.clone(), value)).collect::<Map<_, _>>())
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty)
}
