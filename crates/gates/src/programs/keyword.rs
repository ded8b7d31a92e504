//! Finds a keyword in a JSON Schema, wherever a schema can contain another one. Values, such as those of `enum`
//! and `default`, are not schemas, and a property with the keyword's name is a property.

use serde_json::{Map, Value};

/// The keyword of an input schema that says what an argument is.
pub const KEYWORD: &str = "x-effect";

/// Members whose values map names to schemas.
const NAMED: [&str; 7] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "extends"];
/// Members whose values are not schemas.
const VALUES: [&str; 8] = ["enum", "const", "default", "examples", "example", "required", "type", "dependentRequired"];
/// Members that refer to another schema.
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Deeper schemas are refused elsewhere.
const DEPTH_MAX: usize = 128;

/// The places of a keyword, as error messages write them: `.properties.query`, `.anyOf.1`.
pub(super) fn places(schema: &Map<String, Value>, keyword: &str) -> Vec<String> {
    let mut found = Vec::new();
    each(schema, |place, schema| {
        if schema.contains_key(keyword) {
            found.push(place.to_owned());
        }
    });
    found.sort();
    found
}

/// Calls `see` for every schema inside a schema, with its place.
fn each(schema: &Map<String, Value>, mut see: impl FnMut(&str, &Map<String, Value>)) {
    let mut waiting = vec![(String::new(), schema, 0_usize)];
    while let Some((place, schema, depth)) = waiting.pop() {
        see(&place, schema);
        if depth >= DEPTH_MAX {
            continue;
        }
        for (member, value) in schema {
            // The keyword's own value is not a schema.
            if member == KEYWORD || VALUES.contains(&member.as_str()) {
                continue;
            }
            for (step, inner) in inside(member, value) {
                waiting.push((format!("{place}.{step}"), inner, depth + 1));
            }
        }
    }
}

/// Places of references to anything but definitions: to a property, to the whole schema, to an anchor.
pub(super) fn wandering_references(schema: &Map<String, Value>) -> Vec<String> {
    let mut found = Vec::new();
    each(schema, |place, schema| {
        let leads_elsewhere = |keyword: &&str| {
            schema.get(*keyword).is_some_and(|target| {
                !target
                    .as_str()
                    .is_some_and(|target| target.starts_with("#/$defs/") || target.starts_with("#/definitions/"))
            })
        };
        if REFERENCES.iter().any(leads_elsewhere) {
            found.push(place.to_owned());
        }
    });
    found.sort();
    found
}

/// Members whose name is almost the keyword, with their places. Nothing would read them.
pub(super) fn misspelt(schema: &Map<String, Value>, keyword: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    each(schema, |place, schema| {
        let almost = schema.keys().filter(|member| *member != keyword && is_almost(member));
        found.extend(almost.map(|member| (place.to_owned(), member.clone())));
    });
    found.sort();
    found
}

/// A step of a place. Dots in it are escaped, because dots separate the steps.
pub(super) fn step_name(name: &str) -> String {
    name.replace('~', "~0").replace('.', "~1")
}

fn is_almost(member: &str) -> bool {
    let letters: String = member.chars().filter(char::is_ascii_alphanumeric).collect();
    matches!(letters.to_ascii_lowercase().as_str(), "xeffect" | "xeffects")
}

/// Removes the keyword from every schema inside, and members whose name is almost the keyword.
pub fn forget_programs(schema: &mut Map<String, Value>) {
    forget(schema, 0);
}

fn forget(schema: &mut Map<String, Value>, depth: usize) {
    schema.retain(|member, _| !is_almost(member));
    if depth >= DEPTH_MAX {
        return;
    }
    for (member, value) in schema.iter_mut().filter(|(member, _)| !VALUES.contains(&member.as_str())) {
        match value {
            Value::Object(named) if NAMED.contains(&member.as_str()) => {
                named.values_mut().filter_map(Value::as_object_mut).for_each(|inner| forget(inner, depth + 1));
            }
            Value::Object(inner) => forget(inner, depth + 1),
            Value::Array(items) => {
                items.iter_mut().filter_map(Value::as_object_mut).for_each(|inner| forget(inner, depth + 1));
            }
            _ => {}
        }
    }
}

/// The schemas inside a member of a schema, and the path to each.
fn inside<'a>(member: &str, value: &'a Value) -> Vec<(String, &'a Map<String, Value>)> {
    match value {
        Value::Object(named) if NAMED.contains(&member) => named
            .iter()
            .filter_map(|(name, inner)| Some((format!("{member}.{}", step_name(name)), inner.as_object()?)))
            .collect(),
        Value::Object(inner) => vec![(step_name(member), inner)],
        Value::Array(items) => items
            .iter()
            .enumerate()
            .filter_map(|(number, inner)| Some((format!("{member}.{number}"), inner.as_object()?)))
            .collect(),
        _ => Vec::new(),
    }
}
