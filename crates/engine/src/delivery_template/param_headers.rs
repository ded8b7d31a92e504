//! Arguments that a modern HTTP server wants repeated in headers (`x-mcp-header`): which ones, and with which values. The transport decides
//! how a value is written in a header.

use serde_json::{Map, Value};
use servanda_mcp::fields::member;

/// How deep nested objects are searched.
const DEPTH_MAX: usize = 32;

/// Name and value of every header that the arguments have a value for. An annotation of the schema counts only if every step to it is a
/// `properties`. `arguments` must be JSON.
pub(crate) fn headers_for(schema: &Map<String, Value>, arguments: &[u8]) -> Vec<(String, String)> {
    let mut annotated = Vec::new();
    find(schema, &mut Vec::new(), &mut annotated);
    if annotated.is_empty() {
        return Vec::new();
    }
    let Ok(arguments) = serde_json::from_slice::<Value>(arguments) else { return Vec::new() };
    let value = |path: &[&str]| path.iter().try_fold(&arguments, |value, name| value.get(name)).and_then(text);
    annotated.into_iter().filter_map(|(name, path)| Some((name.to_owned(), value(&path)?))).collect()
}

fn find<'a>(schema: &'a Map<String, Value>, path: &mut Vec<&'a str>, found: &mut Vec<(&'a str, Vec<&'a str>)>) {
    let Some(Value::Object(properties)) = schema.get("properties") else { return };
    for (name, property) in properties {
        let Value::Object(property) = property else { continue };
        path.push(name);
        if let Some(Value::String(header)) = property.get(member::PARAM_HEADER) {
            found.push((header, path.clone()));
        }
        if path.len() < DEPTH_MAX {
            find(property, path, found);
        }
        path.pop();
    }
}

/// A primitive as a header writes it; null and values that are no primitives have no header.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) if !number.is_f64() => Some(number.to_string()),
        // Canonical JSON writes a whole number without a fraction, so a number with one is no integer.
        Value::Number(_) | Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn headers(schema: Value, arguments: &Value) -> Vec<(String, String)> {
        let Value::Object(schema) = schema else { panic!("a schema is an object") };
        super::headers_for(&schema, arguments.to_string().as_bytes())
    }

    #[test]
    fn annotated_arguments_are_repeated_and_nothing_else() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "count": {"type": "integer", "x-mcp-header": "Count"},
            "dry": {"type": "boolean", "x-mcp-header": "Dry-Run"},
            "query": {"type": "string"},
            "nested": {"type": "object", "properties": {"id": {"type": "string", "x-mcp-header": "Id"}}},
            "list": {"type": "array", "items": {"properties": {"x": {"x-mcp-header": "Never"}}}},
        }, "allOf": [{"properties": {"y": {"x-mcp-header": "Neither"}}}]});
        let table = [
            (json!({"region": "us west", "query": "q"}), json!([["Region", "us west"]])),
            (json!({"count": -7, "dry": true}), json!([["Count", "-7"], ["Dry-Run", "true"]])),
            (json!({"region": null, "nested": {"id": " ü "}}), json!([["Id", " ü "]])),
            (json!({"nested": {}, "list": [{"x": "1"}], "y": "2"}), json!([])),
            (json!({"region": ["a"], "count": 1.5}), json!([])),
        ];
        for (arguments, expected) in table {
            assert_eq!(json!(headers(schema.clone(), &arguments)), expected, "{arguments}");
        }
        assert_eq!(headers(json!({"type": "object"}), &json!({"a": 1})), []);
    }
}
