//! Tables of what is spliced.

use serde_json::{Value, json};

use super::*;

const MEMBER: &str = r#""io.modelcontextprotocol/serverInfo":"us""#;

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

/// Columns: a result as the engine renders it, and what remains of it besides `resultType` and our name.
#[test]
fn typing_changes_nothing_else() {
    for (result, members) in [
        ("{}", r#""_meta":{S}}"#),
        (" { } ", r#""_meta":{S} }"#),
        (r#"{"a":1.0}"#, r#""_meta":{S},"a":1.0}"#),
        (r#"{"_meta":{},"a":1}"#, r#""_meta":{S},"a":1}"#),
        ("{\"a\":1,\"_meta\" : {\n\"x\":[1, 2]} }", "\"a\":1,\"_meta\" : {S,\n\"x\":[1, 2]} }"),
        (r#"{"a":{"_meta":5},"\u005fmeta":{"x":1}}"#, r#""a":{"_meta":5},"\u005fmeta":{S,"x":1}}"#),
        (r#"{"_meta":{"z":1,"io.modelcontextprotocol\/serverInfo":{},"x":2}}"#, r#""_meta":{S,"z":1,"x":2}}"#),
    ] {
        for (kind, name) in [
            (ResultType::Complete, "complete"),
            (ResultType::InputRequired, "input_required"),
            (ResultType::Task, "task"),
        ] {
            let expected = format!(r#"{{"resultType":"{name}",{}"#, members.replace('S', MEMBER));
            let typed = typed(result, kind, MEMBER).unwrap();
            assert_eq!(typed, expected);
            let value: Value = serde_json::from_str(&typed).unwrap();
            assert_eq!(value["_meta"]["io.modelcontextprotocol/serverInfo"], "us");
        }
    }
    for broken in ["", "[]", "{", "null", r#"{"_meta":5}"#, r#"{"_meta":{},"_meta":{}}"#] {
        assert_eq!(typed(broken, ResultType::Complete, MEMBER), None, "{broken}");
    }
}

/// Columns: a result of a list or a read, the default time to live, the one that goes out, and the rest.
#[test]
fn caching_is_kept_or_added_and_always_private() {
    for (result, otherwise, ttl_ms, rest) in [
        ("{}", 5, 5, ""),
        (r#"{"contents":[ 1 ]}"#, 0, 0, r#""contents":[ 1 ],"#),
        (r#"{"ttlMs":70,"cacheScope":"public","a":1,"resultType":"complete"}"#, 5, 70, r#""a":1,"#),
        (r#"{"ttlMs":-1,"cacheScope":5}"#, 5, 5, ""),
        (r#"{"ttlMs":1.5}"#, 5, 5, ""),
        (r#"{"ttlMs":0}"#, 5, 0, ""),
    ] {
        let expected = format!(
            r#"{{"resultType":"complete","_meta":{{{MEMBER}}},{rest}"ttlMs":{ttl_ms},"cacheScope":"private"}}"#
        );
        assert_eq!(cacheable(result, Ttl::Unless(otherwise), MEMBER).unwrap(), expected);
        let never = cacheable(result, Ttl::None, MEMBER).unwrap();
        assert!(never.contains(r#""ttlMs":0,"#), "{never}");
    }
    let named = r#"{"_meta":{"io.modelcontextprotocol/serverInfo":{},"x":1},"prompts":[]}"#;
    let cached: Value = serde_json::from_str(&cacheable(named, Ttl::Unless(1), MEMBER).unwrap()).unwrap();
    assert_eq!(cached["_meta"], json!({"io.modelcontextprotocol/serverInfo": "us", "x": 1}));
    for broken in ["", "[]", r#"{"a":1,"a":2}"#, r#"{"_meta":5}"#] {
        assert_eq!(cacheable(broken, Ttl::None, MEMBER), None, "{broken}");
    }
}

/// Columns: a result, whether it is of a cacheable kind, and what the legacy era gets of it.
#[test]
fn modern_members_are_taken_out() {
    for (result, cacheable, expected) in [
        ("{}", true, Some("{}")),
        (r#"{ "a" : 1.0 }"#, true, Some(r#"{ "a" : 1.0 }"#)),
        (r#"{"resultType":"complete", "a" : 1.0}"#, false, Some(r#"{"a":1.0}"#)),
        (
            r#"{"ttlMs":1,"cacheScope":"public","resultType":"complete","a":{"ttlMs":1}}"#,
            true,
            Some(r#"{"a":{"ttlMs":1}}"#),
        ),
        (r#"{"taskId":"t","ttlMs":1,"resultType":"complete"}"#, false, Some(r#"{"taskId":"t","ttlMs":1}"#)),
        (r#"{"text":"resultType"}"#, true, Some(r#"{"text":"resultType"}"#)),
        ("[]", true, None),
        ("", false, None),
    ] {
        assert_eq!(untyped(result.to_owned(), cacheable).as_deref(), expected, "{result}");
    }
}

#[test]
fn progress_gets_the_clients_token() {
    for (params, expected) in [
        ("{}", Some(json!({"progressToken": 7}))),
        (" {\n } ", Some(json!({"progressToken": 7}))),
        (r#"{"progress":1,"total":2.5}"#, Some(json!({"progressToken": 7, "progress": 1, "total": 2.5}))),
        ("[]", None),
    ] {
        let message = progress("7", params).map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap());
        assert_eq!(message.map(|message| message["params"].clone()), expected, "{params}");
    }
}

#[test]
fn a_tag_is_put_beside_what_is_there() {
    for (params, expected) in [
        (None, Some(r#"{"_meta":{"t":"7"}}"#)),
        (Some("{}"), Some(r#"{"_meta":{"t":"7"}}"#)),
        (Some(r#"{"uri":"a:b"}"#), Some(r#"{"_meta":{"t":"7"},"uri":"a:b"}"#)),
        (Some(r#"{"uri":"a:b","_meta":{"x":1.0,"t":5}}"#), Some(r#"{"_meta":{"x":1.0,"t":"7"},"uri":"a:b"}"#)),
        (Some("[]"), None),
        (Some(r#"{"_meta":5}"#), None),
    ] {
        let params = params.map(raw);
        assert_eq!(tagged(params.as_deref(), "t", r#""7""#).as_deref(), expected, "{params:?}");
    }
}
