//! Which arguments stand in headers, and what the headers must say.

use http::{HeaderName, HeaderValue};
use serde_json::json;

use super::*;

fn paths(schema: &Value) -> Option<Vec<(String, String)>> {
    Some(mirrored(schema)?.into_iter().map(|mirrored| (mirrored.header, mirrored.path.join("."))).collect())
}

#[test]
fn annotations_stand_under_properties_and_nowhere_else() {
    let string = |name: &str| json!({"type": "string", ANNOTATION: name});
    let of = |schema: Value| json!({"type": "object", "properties": schema});
    for (schema, expected) in [
        (of(json!({"a": {"type": "string"}})), Some(vec![])),
        (of(json!({"a": string("Region")})), Some(vec![("mcp-param-region", "a")])),
        (of(json!({"a": {"type": "integer", ANNOTATION: "N"}})), Some(vec![("mcp-param-n", "a")])),
        (of(json!({"a": {"type": "boolean", ANNOTATION: "B"}})), Some(vec![("mcp-param-b", "a")])),
        (
            of(json!({"a": of(json!({"b": string("X")})), "c": string("Y")})),
            Some(vec![("mcp-param-x", "a.b"), ("mcp-param-y", "c")]),
        ),
        // A property may be called like the annotation.
        (of(json!({ANNOTATION: {"type": "string"}})), Some(vec![])),
        (of(json!({"a": {"type": "number", ANNOTATION: "N"}})), None),
        (of(json!({"a": {"type": "object", ANNOTATION: "N"}})), None),
        (of(json!({"a": {"type": ["string", "null"], ANNOTATION: "N"}})), None),
        (of(json!({"a": {ANNOTATION: "N"}})), None),
        (of(json!({"a": string("")})), None),
        (of(json!({"a": string("with space")})), None),
        (of(json!({"a": string("line\nbreak")})), None),
        (of(json!({"a": {"type": "string", ANNOTATION: 5}})), None),
        (of(json!({"a": string("x"), "b": string("X")})), None),
        (of(json!({"a": {"type": "array", "items": string("X")}})), None),
        (json!({"type": "object", "anyOf": [of(json!({"a": string("X")}))]}), None),
        (json!({"type": "object", "$defs": {"d": string("X")}, "properties": {"a": {"$ref": "#/$defs/d"}}}), None),
        (string("X"), None),
    ] {
        let expected: Option<Vec<(String, String)>> = expected
            .map(|pairs| pairs.into_iter().map(|(header, path)| (header.to_owned(), path.to_owned())).collect());
        assert_eq!(paths(&schema), expected, "{schema}");
    }
}

/// Arguments, what the header says (nothing: there is none), and whether that fits.
#[test]
fn a_header_is_there_if_the_argument_is_and_says_the_same() {
    let mirrored = Mirrored { header: "mcp-param-x".to_owned(), path: vec!["a".to_owned(), "b".to_owned()] };
    for (arguments, header, fits) in [
        (Some(r#"{"a":{"b":"us west"}}"#), Some("us west"), true),
        (Some(r#"{"a":{"b":"us west"}}"#), Some(" us west\t"), true),
        (Some(r#"{"a":{"b":"us west"}}"#), Some("us-west"), false),
        (Some(r#"{"a":{"b":"us west"}}"#), None, false),
        (Some(r#"{"a":{"b":"Hello"}}"#), Some("=?base64?SGVsbG8=?="), true),
        (Some(r#"{"a":{"b":"Hello"}}"#), Some("=?base64?SGVsbG8?="), false),
        (Some(r#"{"a":{"b":"Hello"}}"#), Some("=?base64?SGVs!!!bG8=?="), false),
        (Some(r#"{"a":{"b":"SGVsbG8="}}"#), Some("SGVsbG8="), true),
        (Some(r#"{"a":{"b":"=?base64?SGVsbG8="}}"#), Some("=?base64?SGVsbG8="), true),
        (Some(r#"{"a":{"b":""}}"#), Some(""), true),
        (Some(r#"{"a":{"b":42}}"#), Some("42"), true),
        (Some(r#"{"a":{"b":42}}"#), Some("42.0"), true),
        (Some(r#"{"a":{"b":-7}}"#), Some("-7"), true),
        (Some(r#"{"a":{"b":42}}"#), Some("43"), false),
        (Some(r#"{"a":{"b":42}}"#), Some("forty-two"), false),
        (Some(r#"{"a":{"b":9007199254740993}}"#), Some("9007199254740992"), false),
        (Some(r#"{"a":{"b":true}}"#), Some("true"), true),
        (Some(r#"{"a":{"b":true}}"#), Some("True"), false),
        (Some(r#"{"a":{"b":false}}"#), None, false),
        (Some(r#"{"a":{"b":null}}"#), None, true),
        (Some(r#"{"a":{"b":null}}"#), Some("null"), false),
        (Some(r#"{"a":{}}"#), None, true),
        (Some(r#"{"a":{}}"#), Some("x"), false),
        (Some(r#"{"a":5}"#), None, true),
        (Some("{}"), None, true),
        (None, None, true),
        (None, Some("x"), false),
        (Some(r#"{"a":{"b":{"c":1}}}"#), None, true),
        (Some(r#"{"a":{"b":[]}}"#), Some("[]"), false),
        (Some(r#"{"a":{"b":"x","b":"y"}}"#), Some("x"), false),
        (Some(r#"{"a":{"b":"x","b":"y"}}"#), None, false),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            headers.insert("mcp-param-x", HeaderValue::from_str(value).unwrap());
        }
        let raw = arguments.map(|text| RawValue::from_string(text.to_owned()).unwrap());
        assert_eq!(mirrored.check(&headers, raw.as_deref()).is_ok(), fits, "{arguments:?} {header:?}");
    }
}

#[test]
fn a_header_that_stands_twice_or_is_not_text_says_nothing() {
    let mirrored = Mirrored { header: "mcp-param-x".to_owned(), path: vec!["a".to_owned()] };
    let arguments = RawValue::from_string(r#"{"a":"x"}"#.to_owned()).unwrap();
    let name = HeaderName::from_static("mcp-param-x");
    let mut headers = HeaderMap::new();
    headers.append(&name, HeaderValue::from_static("x"));
    assert!(mirrored.check(&headers, Some(&arguments)).is_ok());
    headers.append(&name, HeaderValue::from_static("x"));
    assert!(mirrored.check(&headers, Some(&arguments)).is_err());
    headers.insert(&name, HeaderValue::from_bytes("ä".as_bytes()).unwrap());
    assert!(mirrored.check(&headers, Some(&arguments)).is_err());
}

#[test]
fn a_list_is_read_once() {
    let listing = |name: &str| {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", ANNOTATION: name}}});
        let definition = json!({"name": "t", "inputSchema": schema});
        let definition = serde_json::value::to_raw_value(&definition).unwrap();
        let tool = servanda_engine::ListedTool { name: "t".to_owned(), definition };
        Arc::new(Listing { generation: 1, tools: vec![Arc::new(tool)] })
    };
    let headers = ParamHeaders::default();
    let (one, other) = (listing("A"), listing("B"));
    let first = headers.table(&one);
    // Guests of one generation may be shown different tools: neither is judged by the other's list.
    assert_eq!(headers.table(&other)["t"][0].header, "mcp-param-b");
    assert!(Arc::ptr_eq(&first, &headers.table(&one)));
    for _ in 0..2 * TABLES_MAX {
        headers.table(&listing("A"));
    }
    assert_eq!(headers.tables.read().unwrap().len(), TABLES_MAX);
}
