//! Tables of reads and edits, and properties that every edit must keep.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{edit, parse};

fn entry() -> Value {
    json!({ "command": "servanda", "args": ["stdio"] })
}

#[test]
fn what_editors_write_is_read() {
    let cases = [
        ("{}", json!({})),
        ("\u{feff}{}", json!({})),
        (
            " [1, 2.5e3, -0, true, false, null, \"a\\u00e9\\ud83d\\ude00\\\"\"] ",
            json!([1, 2500.0, 0, true, false, null, "aé😀\""]),
        ),
        ("{\"a\": 1, // to the end\r\n \"b\": /* inside */ 2,\n}", json!({ "a": 1, "b": 2 })),
        ("// first\n{\"a\": [\"x\", ], } // last", json!({ "a": ["x"] })),
        ("{\"url\": \"http://x//y\", \"c\": \"/* no */\"}", json!({ "url": "http://x//y", "c": "/* no */" })),
    ];
    for (text, expected) in cases {
        let mut value = parse(text).unwrap_or_else(|error| panic!("{text}: {error}")).value();
        // The reader gives `-0` as a float; the test compares it as plain zero.
        if let Some(zero) = value.get_mut(2).filter(|item| item.as_f64() == Some(0.0)) {
            *zero = json!(0);
        }
        assert_eq!(value, expected, "{text}");
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let deep = "[".repeat(200);
    let cases = [
        ("", "line 1, column 1: a value is missing"),
        ("{\n  \"a\": 1\n  \"b\": 2\n}", "line 3, column 3: expected `,` or `}`"),
        ("{\n  a: 1}", "line 2, column 3: expected a name in quotes, or `}`"),
        ("{\"a\" 1}", "line 1, column 6: expected `:`"),
        ("{\"é\": tru}", "line 1, column 7: expected a value"),
        ("{\"a\": 1, \"a\": 2}", "line 1, column 10: `a` stands there twice"),
        ("{\"a\": \"x}", "line 1, column 7: this text has no closing quote"),
        (
            "{\"a\": \"\\x\"}",
            "line 1, column 7: this text has an escape or a control character that JSON does not allow",
        ),
        (
            "{\"a\": \"x\ny\"}",
            "line 1, column 7: this text has an escape or a control character that JSON does not allow",
        ),
        ("{} {}", "line 1, column 4: there is text after the end"),
        ("{ /* ", "line 1, column 3: this comment has no end"),
        ("[1 2]", "line 1, column 4: expected `,` or `]`"),
        (&deep, "line 1, column 130: more than 128 arrays and objects inside each other"),
    ];
    for (text, expected) in cases {
        assert_eq!(parse(text).unwrap_err().to_string(), expected, "{text}");
    }
}

/// Where a new member is placed, and how it is written.
#[test]
fn a_member_is_put_where_a_person_would() {
    let two = "{\n  \"mcpServers\": {\n    \"servanda\": {\n      \"command\": \"servanda\",\n      \"args\": [\"stdio\"]\n    }\n  }\n}";
    let cases = [
        ("", format!("{two}\n")),
        ("  \n", format!("{two}\n")),
        ("{}", two.to_owned()),
        ("{\"mcpServers\":{}}", "{\"mcpServers\":{\"servanda\":{\"command\":\"servanda\",\"args\":[\"stdio\"]}}}".to_owned()),
        ("{\"a\": 1}", "{\"a\": 1, \"mcpServers\": {\"servanda\": {\"command\": \"servanda\", \"args\": [\"stdio\"]}}}".to_owned()),
        (
            "{\n\t\"mcpServers\": {\n\t\t\"a\": {} // mine\n\t}, // end\n}\n",
            "{\n\t\"mcpServers\": {\n\t\t\"a\": {}, // mine\n\t\t\"servanda\": {\n\t\t\t\"command\": \"servanda\",\n\t\t\t\"args\": [\"stdio\"]\n\t\t}\n\t}, // end\n}\n".to_owned(),
        ),
        (
            "{\r\n    \"mcpServers\": {\r\n        \"a\": {},\r\n        // keep\r\n    }\r\n}",
            "{\r\n    \"mcpServers\": {\r\n        \"a\": {},\r\n        // keep\r\n        \"servanda\": {\r\n            \"command\": \"servanda\",\r\n            \"args\": [\"stdio\"]\r\n        },\r\n    }\r\n}".to_owned(),
        ),
        (
            "{\n   \"theme\": \"x\"\n}\n",
            "{\n   \"theme\": \"x\",\n   \"mcpServers\": {\n      \"servanda\": {\n         \"command\": \"servanda\",\n         \"args\": [\"stdio\"]\n      }\n   }\n}\n".to_owned(),
        ),
        (
            "{\n  \"mcpServers\": {\n    \"servanda\": 1, \"b\": 2\n  }\n}",
            "{\n  \"mcpServers\": {\n    \"servanda\": {\n      \"command\": \"servanda\",\n      \"args\": [\"stdio\"]\n    }, \"b\": 2\n  }\n}".to_owned(),
        ),
    ];
    for (text, expected) in cases {
        assert_eq!(edit::put(text, "mcpServers", "servanda", &entry()).unwrap(), expected, "{text}");
    }
}

#[test]
fn a_member_is_taken_out_with_its_lines() {
    let cases = [
        ("{\"s\": {\"a\": 1}}", false, "{\"s\": {}}"),
        ("{\"s\": {\"a\": 1}}", true, "{}"),
        ("{\"s\": {\"a\": 1, \"b\": 2}}", true, "{\"s\": {\"b\": 2}}"),
        ("{\"s\": {\"b\": 2, \"a\": 1}}", true, "{\"s\": {\"b\": 2}}"),
        ("{\"s\":{\"b\":2,\"a\":1,\"c\":3}}", true, "{\"s\":{\"b\":2,\"c\":3}}"),
        ("{\n  \"s\": {\n    \"a\": 1,\n    \"b\": 2\n  }\n}", false, "{\n  \"s\": {\n    \"b\": 2\n  }\n}"),
        (
            "{\n  \"s\": {\n    \"b\": 2, // two\n    \"a\": 1\n  }\n}",
            false,
            "{\n  \"s\": {\n    \"b\": 2 // two\n  }\n}",
        ),
        (
            "{\n  \"s\": {\n    // one\n    \"a\": 1, // here\n    \"b\": 2,\n  }\n}",
            false,
            "{\n  \"s\": {\n    // one\n    // here\n    \"b\": 2,\n  }\n}",
        ),
        ("{\n  \"s\": {\n    \"a\": 1\n  },\n  \"t\": 1\n}", true, "{\n  \"t\": 1\n}"),
        ("{\"s\": {\"b\": 1}}", true, "{\"s\": {\"b\": 1}}"),
        ("{\"t\": 1}", true, "{\"t\": 1}"),
    ];
    for (text, container_too, expected) in cases {
        assert_eq!(edit::take_out(text, "s", "a", container_too).unwrap(), expected, "{text}");
    }
}

#[test]
fn what_is_no_object_is_not_edited() {
    for (text, expected) in [
        ("[1]", "line 1, column 1: the file should be an object, in braces"),
        ("{\n \"s\": []}", "line 2, column 7: `s` should be an object, in braces"),
    ] {
        assert_eq!(edit::put(text, "s", "a", &json!(1)).unwrap_err().to_string(), expected);
        assert_eq!(edit::take_out(text, "s", "a", true).unwrap_err().to_string(), expected);
    }
}

/// Blanks and comments, which may be anywhere between tokens.
fn gap() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("\n  ".to_owned()),
        Just("\r\n\t".to_owned()),
        Just(" // a \" comment, { of theirs\n".to_owned()),
        Just("/* and } another */".to_owned()),
    ]
}

fn written(value: &Value, gaps: &mut dyn FnMut() -> String) -> String {
    match value {
        Value::Object(members) => {
            let mut text = "{".to_owned();
            for (index, (key, value)) in members.iter().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                let (one, two, three, four) = (gaps(), gaps(), gaps(), gaps());
                let (key, value) = (json!(key).to_string(), written(value, gaps));
                text.extend([comma, &one, &key, &two, ":", &three, &value, &four]);
            }
            // A trailing comma is allowed.
            if !members.is_empty() && gaps().contains(" //") {
                text.push(',');
            }
            text + &gaps() + "}"
        }
        other => other.to_string(),
    }
}

fn servers() -> impl Strategy<Value = Value> {
    let server =
        prop_oneof![Just(json!({})), Just(json!({ "command": "x", "args": ["-y", "a//b"] })), Just(json!(null))];
    proptest::collection::btree_map("[a-d]{1,2}", server, 0..5).prop_map(|servers| json!(servers))
}

fn document() -> impl Strategy<Value = (Value, String)> {
    (servers(), any::<bool>(), proptest::collection::vec(gap(), 64)).prop_map(|(servers, more, gaps)| {
        let value = if more { json!({ "x": 1, "s": servers, "y": { "s": {} } }) } else { json!({ "s": servers }) };
        let mut next = gaps.iter().cycle().cloned();
        let text = written(&value, &mut || next.next().unwrap_or_default());
        (value, text)
    })
}

proptest! {
    /// Only the one member changes in meaning, and no other byte is lost.
    #[test]
    fn putting_a_member_in_changes_only_that((value, text) in document()) {
        let edited = edit::put(&text, "s", "servanda", &entry()).unwrap();
        let mut expected = value;
        expected["s"]["servanda"] = entry();
        prop_assert_eq!(parse(&edited).unwrap().value(), expected);
        let mut rest = edited.chars();
        prop_assert!(text.chars().all(|wanted| rest.any(|character| character == wanted)), "{} became {}", text, edited);
    }

    /// Removing the added member restores the meaning and every comment.
    #[test]
    fn taking_it_out_again_brings_the_meaning_back((value, text) in document()) {
        let edited = edit::put(&text, "s", "servanda", &entry()).unwrap();
        let back = edit::take_out(&edited, "s", "servanda", false).unwrap();
        prop_assert_eq!(parse(&back).unwrap().value(), value);
        prop_assert_eq!(back.matches("comment").count(), text.matches("comment").count());
        prop_assert_eq!(back.matches("another").count(), text.matches("another").count());
    }

    /// Every member can be removed.
    #[test]
    fn taking_any_member_out_changes_only_that((value, text) in document(), pick in 0_usize..5) {
        let keys: Vec<String> = value["s"].as_object().unwrap().keys().cloned().collect();
        let Some(key) = keys.get(pick) else { return Ok(()) };
        let document = parse(&text).unwrap();
        let member = document.member("s").unwrap().value.member(key).unwrap().clone();
        let theirs = &text[member.start..member.comma.unwrap_or(member.value.span.end)];
        let edited = edit::take_out(&text, "s", key, false).unwrap();
        let mut expected = value;
        expected["s"].as_object_mut().unwrap().shift_remove(key);
        prop_assert_eq!(parse(&edited).unwrap().value(), expected, "{} became {}", text, edited);
        // Comments inside a member belong to the member.
        let kept = text.matches("comment").count() - theirs.matches("comment").count();
        prop_assert_eq!(edited.matches("comment").count(), kept, "{} became {}", text, edited);
    }
}
