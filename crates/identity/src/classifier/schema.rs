//! What a tool takes and returns, read from its JSON Schemas: names, descriptions, closed lists. It validates nothing.

use serde_json::{Map, Value};

use super::words::{self, Sentence};

/// How many parameters are read, nested ones included.
const PARAMETERS_MAX: usize = 80;
/// How many values of a closed list are read.
const VALUES_MAX: usize = 40;
/// How much of a parameter's description is read.
const DESCRIPTION_BYTES_MAX: usize = 1_000;
/// How deep nested objects are followed.
const DEPTH_MAX: usize = 3;

/// A parameter of a tool.
#[derive(Debug)]
pub(super) struct Parameter {
    /// Its name as written.
    pub(super) name: String,
    /// The words of its name.
    pub(super) words: Vec<String>,
    /// Whether it is required, and so is everything around it.
    pub(super) required: bool,
    /// Whether it stands inside another parameter.
    pub(super) nested: bool,
    /// Its JSON type, if it has one.
    pub(super) kind: &'static str,
    /// Its description's first sentences.
    pub(super) sentences: Vec<Sentence>,
    /// The values it is limited to.
    pub(super) values: Vec<String>,
}

/// The parameters of an input schema; `clean` is applied to every description first.
pub(super) fn parameters(schema: &Map<String, Value>, clean: impl Fn(&str) -> String) -> Vec<Parameter> {
    let mut found = Vec::new();
    collect(schema, schema, 0, true, &clean, &mut found);
    found
}

fn collect(
    root: &Map<String, Value>,
    object: &Map<String, Value>,
    depth: usize,
    held_required: bool,
    clean: &dyn Fn(&str) -> String,
    found: &mut Vec<Parameter>,
) {
    let Some(properties) = object.get("properties").and_then(Value::as_object) else { return };
    let required = object.get("required").and_then(Value::as_array);
    for (name, property) in properties {
        if found.len() >= PARAMETERS_MAX {
            return;
        }
        let Some(property) = property.as_object() else { continue };
        let is_required =
            held_required && required.is_some_and(|names| names.iter().any(|required| required == name.as_str()));
        let resolved = resolve(root, property);
        let description = property.get("description").or_else(|| resolved.get("description")).and_then(Value::as_str);
        found.push(Parameter {
            name: name.clone(),
            words: words::split_identifier(name),
            required: is_required,
            nested: depth > 0,
            kind: kind(resolved),
            sentences: description
                .map(|text| words::sentences(&clean(words::cut(text, DESCRIPTION_BYTES_MAX)), 2))
                .unwrap_or_default(),
            values: values(resolved),
        });
        if depth < DEPTH_MAX {
            let inner = resolved.get("items").and_then(Value::as_object).map_or(resolved, |items| resolve(root, items));
            collect(root, inner, depth + 1, is_required, clean, found);
        }
    }
}

/// Follows one reference and the single useful branch of an optional type.
fn resolve<'a>(root: &'a Map<String, Value>, property: &'a Map<String, Value>) -> &'a Map<String, Value> {
    let branch = |word: &str| {
        let branches = property.get(word)?.as_array()?;
        branches.iter().filter_map(Value::as_object).find(|branch| branch.get("type").is_none_or(|kind| kind != "null"))
    };
    let property = branch("anyOf").or_else(|| branch("oneOf")).or_else(|| branch("allOf")).unwrap_or(property);
    let Some(pointer) = property.get("$ref").and_then(Value::as_str) else { return property };
    let mut path = pointer.trim_start_matches("#/").split('/');
    let target = path
        .next()
        .and_then(|first| root.get(first))
        .and_then(|first| path.try_fold(first, |value, step| value.get(step)));
    target.and_then(Value::as_object).unwrap_or(property)
}

fn kind(property: &Map<String, Value>) -> &'static str {
    let named = match property.get("type") {
        Some(Value::String(kind)) => Some(kind.as_str()),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
        _ => None,
    };
    match named {
        Some("string") => "string",
        Some("integer" | "number") => "number",
        Some("boolean") => "boolean",
        Some("array") => "array",
        Some("object") => "object",
        _ => "any",
    }
}

fn values(property: &Map<String, Value>) -> Vec<String> {
    let listed = property.get("enum").and_then(Value::as_array).into_iter().flatten();
    let items =
        property.get("items").and_then(|items| items.get("enum")).and_then(Value::as_array).into_iter().flatten();
    let alone = property.get("const").into_iter();
    listed.chain(items).chain(alone).filter_map(Value::as_str).take(VALUES_MAX).map(str::to_owned).collect()
}

/// The names of a schema's properties; of its items' properties if it is a list.
pub(super) fn property_names(schema: &Map<String, Value>) -> Vec<String> {
    let mut names = Vec::new();
    gather_names(schema, 0, &mut names);
    names
}

fn gather_names(schema: &Map<String, Value>, depth: usize, names: &mut Vec<String>) {
    let inner = schema.get("items").and_then(Value::as_object).unwrap_or(schema);
    let Some(properties) = inner.get("properties").and_then(Value::as_object) else { return };
    for (name, property) in properties {
        if names.len() >= PARAMETERS_MAX {
            return;
        }
        names.push(name.clone());
        if let (Some(property), true) = (property.as_object(), depth == 0) {
            gather_names(property, depth + 1, names);
        }
    }
}
