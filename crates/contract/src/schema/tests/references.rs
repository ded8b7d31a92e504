//! All code that follows references follows every way to refer to a part of the document, or the schema is refused.

use serde_json::{Value, json};

use super::{compile, compiled};
use crate::schema::{CompiledSchema, SchemaError, SchemaProfile};

/// A schema whose `p` is a point, one for each way to refer to it.
fn referring() -> Vec<Value> {
    let point = json!({ "type": "object", "properties": { "x": { "type": "integer", "default": 7 } } });
    let with = |keyword: &str, name: &str| {
        let mut point = point.clone();
        point[keyword] = json!(name);
        point
    };
    let schema = |reference: Value, point: Value| {
        json!({ "$id": "https://example.test/tool.json", "type": "object",
        "properties": { "p": reference }, "$defs": { "a point/~": point } })
    };
    let mut draft_07 = schema(json!({ "$ref": "#point" }), with("$id", "#point"));
    draft_07["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    vec![
        schema(json!({ "$ref": "#/$defs/a%20point~1~0" }), point.clone()),
        schema(json!({ "$ref": "#point" }), with("$anchor", "point")),
        schema(json!({ "$ref": "https://example.test/tool.json#/$defs/a%20point~1~0" }), point.clone()),
        schema(json!({ "$ref": "https://example.test/tool.json#point" }), with("$anchor", "point")),
        schema(json!({ "$dynamicRef": "#point" }), with("$dynamicAnchor", "point")),
        schema(json!({ "$ref": "#point" }), with("$dynamicAnchor", "point")),
        draft_07,
    ]
}

#[test]
fn objects_are_closed_and_defaults_applied_behind_every_reference() {
    for schema in referring() {
        let enforced = compiled(schema.clone());
        assert!(enforced.is_valid(&json!({ "p": { "x": 1 } })), "{schema}");
        assert!(!enforced.is_valid(&json!({ "p": { "x": "1" } })), "{schema}");
        assert!(!enforced.is_valid(&json!({ "p": { "bogus": 1 } })), "{schema}");
        let mut value = json!({ "p": {} });
        enforced.apply_defaults(&mut value);
        assert_eq!(value, json!({ "p": { "x": 7 } }), "{schema}");
    }
}

#[test]
fn recursion_is_seen_behind_every_reference() {
    for (name, reference) in [
        ("$anchor", json!({ "$ref": "#whole" })),
        ("$anchor", json!({ "$ref": "https://example.test/tool.json" })),
        ("$anchor", json!({ "$ref": "https://example.test/tool.json#whole" })),
        ("$dynamicAnchor", json!({ "$dynamicRef": "#whole" })),
    ] {
        let branch = json!({ "properties": { "c": reference } });
        let schema = json!({ "$id": "https://example.test/tool.json", name: "whole", "anyOf": [branch, branch] });
        let deep = (0..30).fold(json!({}), |inner, _| json!({ "c": inner }));
        for profile in [SchemaProfile::Arguments, SchemaProfile::Results] {
            let enforced = CompiledSchema::compile(schema.as_object().unwrap(), profile).unwrap();
            assert!(enforced.judge(&deep).structure[0].message.starts_with("nested deeper than"), "{schema}");
        }
        let endless = json!({ "$id": "https://example.test/tool.json", name: "whole", "allOf": [reference] });
        assert!(matches!(compile(endless), Err(SchemaError::Endless { .. })), "{reference}");
    }
    let schema =
        json!({ "$schema": "https://json-schema.org/draft/2019-09/schema", "allOf": [{ "$recursiveRef": "#" }] });
    assert!(matches!(compile(schema), Err(SchemaError::Endless { .. })));
}

#[test]
fn what_is_not_inside_is_refused() {
    let embedded = json!({ "$id": "other.json", "properties": { "x": {} } });
    for (words, part) in [
        ("`#absent` refers to nothing inside", json!({ "$ref": "#absent" })),
        ("`#absent` refers to nothing inside", json!({ "$dynamicRef": "#absent" })),
        ("`#/$defs/absent` refers to nothing inside", json!({ "$ref": "#/$defs/absent" })),
        // The library has these built in; their expansion cannot be bounded here.
        ("refers to nothing inside", json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" })),
        ("starts another document", json!({ "allOf": [{ "$ref": "#/$defs/other" }] })),
        ("`#twice` refers to nothing inside", json!({ "$ref": "#twice" })),
        ("several references", json!({ "$ref": "#one", "$dynamicRef": "#/$defs/two" })),
    ] {
        let mut schema = json!({ "type": "object", "properties": { "p": part },
            "$defs": { "one": { "$anchor": "one" }, "two": { "$anchor": "twice" }, "three": { "$anchor": "twice" } } });
        if words.contains("another document") {
            schema["$defs"]["other"] = embedded.clone();
        }
        for profile in [SchemaProfile::Arguments, SchemaProfile::Results] {
            let error = CompiledSchema::compile(schema.as_object().unwrap(), profile).unwrap_err();
            assert!(error.to_string().contains(words), "{schema}: {error}");
        }
    }
}

#[test]
fn names_and_data_are_no_references() {
    let schema = json!({ "type": "object", "properties": {
        "$ref": { "type": "string" }, "$id": { "type": "string" },
        "fixed": { "const": { "$ref": "https://example.test/" }, "examples": [{ "$ref": "x" }] },
        "more": { "$ref": "#/properties/$ref" },
    } });
    let enforced = compiled(schema);
    let value = json!({ "$ref": "x", "$id": "y", "fixed": { "$ref": "https://example.test/" }, "more": "z" });
    assert!(enforced.judge(&value).is_empty());
}
