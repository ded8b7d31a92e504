//! Arguments that are also sent in headers: a tool may annotate parameters in its input schema (`x-mcp-header`), so
//! that proxies can route by them. This module finds the annotated parameters of a schema. [`crate::header_text`]
//! encodes the values; the code that has both headers and arguments compares them.

use serde_json::Value;

use crate::fields::member::PARAM_HEADER;

/// How deep an annotated parameter may be nested.
const DEPTH_MAX: usize = 16;

/// A parameter that is also sent in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnnotatedParam {
    /// The header's name without its prefix, as the schema writes it.
    pub name: String,
    /// The member names that lead to the argument.
    pub path: Vec<String>,
}

/// The annotated parameters of an input schema. `None` if an annotation breaks the rules: a name is a token and unique,
/// ignoring case; a parameter is a string, an integer or a boolean, and is reached through `properties` alone. No
/// client repeats arguments for such a schema.
pub fn annotated_params(schema: &Value) -> Option<Vec<AnnotatedParam>> {
    let mut found = Vec::new();
    gather(schema, &mut Vec::new(), &mut found)?;
    let places = count(schema, 0)?;
    let mut names: Vec<String> =
        found.iter().map(|annotated: &AnnotatedParam| annotated.name.to_ascii_lowercase()).collect();
    names.sort_unstable();
    names.dedup();
    // An annotation that was counted but not reached is in a place where none is allowed; two with one name cannot both
    // be right.
    (names.len() == found.len() && places == found.len()).then_some(found)
}

/// Follows `properties` only, where annotations are allowed.
fn gather(schema: &Value, path: &mut Vec<String>, found: &mut Vec<AnnotatedParam>) -> Option<()> {
    if let Some(name) = schema.get(PARAM_HEADER) {
        let name = name.as_str().filter(|name| is_token(name))?;
        let kind = schema.get("type").and_then(Value::as_str);
        if path.is_empty() || !matches!(kind, Some("string" | "integer" | "boolean")) {
            return None;
        }
        found.push(AnnotatedParam { name: name.to_owned(), path: path.clone() });
    }
    if path.len() >= DEPTH_MAX {
        return Some(());
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        path.push(name.clone());
        gather(property, path, found)?;
        path.pop();
    }
    Some(())
}

/// How often the annotation occurs anywhere in a schema, as a keyword or as something that looks like one. `None` if
/// the schema is too deep to search.
fn count(value: &Value, depth: usize) -> Option<usize> {
    if depth > 4 * DEPTH_MAX {
        return None;
    }
    match value {
        Value::Object(members) => {
            let mut sum = usize::from(members.get(PARAM_HEADER).is_some_and(|name| !name.is_object()));
            for member in members.values() {
                sum += count(member, depth + 1)?;
            }
            Some(sum)
        }
        Value::Array(items) => items.iter().map(|item| count(item, depth + 1)).sum(),
        _ => Some(0),
    }
}

/// Whether a text can be a header's name.
fn is_token(name: &str) -> bool {
    let is_tchar = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(is_tchar)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn annotations_stand_under_properties_and_nowhere_else() {
        let string = |name: &str| json!({"type": "string", PARAM_HEADER: name});
        let of = |schema: Value| json!({"type": "object", "properties": schema});
        for (schema, expected) in [
            (of(json!({"a": {"type": "string"}})), Some(vec![])),
            (of(json!({"a": string("Region")})), Some(vec![("Region", "a")])),
            (of(json!({"a": {"type": "integer", PARAM_HEADER: "N"}})), Some(vec![("N", "a")])),
            (of(json!({"a": {"type": "boolean", PARAM_HEADER: "B"}})), Some(vec![("B", "a")])),
            (of(json!({"a": of(json!({"b": string("X")})), "c": string("Y")})), Some(vec![("X", "a.b"), ("Y", "c")])),
            // A property may have the annotation's name.
            (of(json!({PARAM_HEADER: {"type": "string"}})), Some(vec![])),
            (of(json!({"a": {"type": "number", PARAM_HEADER: "N"}})), None),
            (of(json!({"a": {"type": "object", PARAM_HEADER: "N"}})), None),
            (of(json!({"a": {"type": ["string", "null"], PARAM_HEADER: "N"}})), None),
            (of(json!({"a": {PARAM_HEADER: "N"}})), None),
            (of(json!({"a": string("")})), None),
            (of(json!({"a": string("with space")})), None),
            (of(json!({"a": string("line\nbreak")})), None),
            (of(json!({"a": {"type": "string", PARAM_HEADER: 5}})), None),
            (of(json!({"a": string("x"), "b": string("X")})), None),
            (of(json!({"a": {"type": "array", "items": string("X")}})), None),
            (json!({"type": "object", "anyOf": [of(json!({"a": string("X")}))]}), None),
            (json!({"type": "object", "$defs": {"d": string("X")}, "properties": {"a": {"$ref": "#/$defs/d"}}}), None),
            (string("X"), None),
        ] {
            let expected: Option<Vec<(String, String)>> = expected
                .map(|pairs| pairs.into_iter().map(|(name, path)| (name.to_owned(), path.to_owned())).collect());
            let found = annotated_params(&schema)
                .map(|found| found.into_iter().map(|annotated| (annotated.name, annotated.path.join("."))).collect());
            assert_eq!(found, expected, "{schema}");
        }
    }
}
