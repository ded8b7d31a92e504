//! Which arguments must be sent in headers, and which header values match.

use http::{HeaderName, HeaderValue};
use serde_json::json;
use servanda_mcp::fields::member::PARAM_HEADER;

use super::*;

#[test]
fn a_header_has_the_protocols_prefix_and_is_written_in_lower_case() {
    let of = |name: &str| json!({"type": "object", "properties": {"a": {"type": "string", PARAM_HEADER: name}}});
    let expected = MirroredArgument { header: "mcp-param-region".to_owned(), path: vec!["a".to_owned()] };
    assert_eq!(mirrored(&of("Region")), Some(vec![expected]));
    assert_eq!(mirrored(&of("with space")), None);
}

/// Columns: the arguments, the header (`None`: not sent), and whether they match.
#[test]
fn a_header_is_there_if_the_argument_is_and_says_the_same() {
    let mirrored = MirroredArgument { header: "mcp-param-x".to_owned(), path: vec!["a".to_owned(), "b".to_owned()] };
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
fn a_header_that_is_sent_twice_or_is_not_text_is_ignored() {
    let mirrored = MirroredArgument { header: "mcp-param-x".to_owned(), path: vec!["a".to_owned()] };
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
        let schema = json!({"type": "object", "properties": {"a": {"type": "string", PARAM_HEADER: name}}});
        let definition = json!({"name": "t", "inputSchema": schema});
        let definition = serde_json::value::to_raw_value(&definition).unwrap();
        let tool = servanda_engine::ListedTool::new("t".to_owned(), definition);
        Arc::new(Listing { generation: 1, tools: vec![Arc::new(tool)] })
    };
    let headers = ParamHeaders::default();
    let (one, other) = (listing("A"), listing("B"));
    let first = headers.table(&one);
    // Requesters of one generation may see different tools: neither is judged by the other's list.
    assert_eq!(headers.table(&other)["t"][0].header, "mcp-param-b");
    assert!(Arc::ptr_eq(&first, &headers.table(&one)));
    for _ in 0..2 * TABLES_MAX {
        headers.table(&listing("A"));
    }
    assert_eq!(headers.tables.read().unwrap().len(), TABLES_MAX);
}
