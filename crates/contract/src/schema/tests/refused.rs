//! Schemas that cannot be enforced are refused with a reason when they are compiled, and never run.

use serde_json::{Value, json};

use super::compile;
use crate::schema::SchemaError;

fn refused(schema: Value) -> SchemaError {
    let shown = schema.to_string();
    match compile(schema) {
        Ok(_) => panic!("compiled: {shown}"),
        Err(error) => error,
    }
}

#[test]
fn nothing_outside_the_document_is_referred_to() {
    for reference in [
        "http://example.test/schema.json",
        "https://example.test/schema.json#/x",
        "file:///etc/passwd",
        "other.json",
        "//example.test/x",
        "#/$defs/absent",
    ] {
        let error = refused(json!({ "type": "object", "properties": { "a": { "$ref": reference } } }));
        assert!(matches!(error, SchemaError::Invalid { .. }), "{reference}: {error}");
        assert!(error.to_string().contains(reference.trim_start_matches('#').trim_end_matches("#/x")), "{error}");
    }
    // An `$id` elsewhere does not make the documents beside it reachable.
    let schema = json!({ "$id": "https://example.test/tool.json", "type": "object", "properties": { "a": { "$ref": "b.json" } } });
    assert!(matches!(refused(schema), SchemaError::Invalid { .. }));
}

#[test]
fn patterns_are_linear_in_time_and_bounded_in_memory() {
    for pattern in [
        r"^(a*)*\1b$",
        r"^(?=a)b",
        r"(?!x)",
        r"(?<=x)y",
        r"^(a{0,1000}){0,1000}$",
        r"^.{0,100000000}$",
        r"(((x{0,100}){0,100}){0,100}){0,100}",
        "(unclosed",
    ] {
        for schema in [
            json!({ "type": "object", "properties": { "a": { "pattern": pattern } } }),
            json!({ "type": "object", "patternProperties": { pattern: {} } }),
        ] {
            let error = refused(schema);
            assert!(error.to_string().contains("linear time"), "{pattern}: {error}");
            assert!(error.to_string().contains("attern"), "{pattern}: {error}");
        }
    }
    // The classic example of catastrophic backtracking is harmless to an engine that does not backtrack.
    let schema = compile(json!({ "type": "object", "properties": { "a": { "pattern": "^(a+)+$" } } })).unwrap();
    assert!(!schema.is_valid(&json!({ "a": format!("{}b", "a".repeat(50_000)) })));
}

#[test]
fn dialects() {
    for known in [
        "https://json-schema.org/draft/2020-12/schema",
        "http://json-schema.org/draft/2020-12/schema#",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema#",
        "https://json-schema.org/draft-07/schema",
    ] {
        assert!(compile(json!({ "$schema": known, "type": "object" })).is_ok(), "{known}");
    }
    for unknown in [
        json!("http://json-schema.org/draft-04/schema#"),
        json!("https://example.test/own"),
        json!("2020-12"),
        json!(7),
    ] {
        let error = refused(json!({ "$schema": unknown, "type": "object" }));
        assert!(matches!(error, SchemaError::Dialect { .. }), "{error}");
    }
}

#[test]
fn arguments_are_an_object() {
    for other in [json!("array"), json!("string"), json!(["object", "null"]), json!(null)] {
        assert_eq!(refused(json!({ "type": other })), SchemaError::RootNotObject);
    }
}

#[test]
fn what_is_not_a_schema() {
    let cases = [
        (json!({ "type": "object", "properties": { "a": { "type": "strng" } } }), "/properties/a/type"),
        (json!({ "type": "object", "required": "a" }), "/required"),
        (json!({ "type": "object", "properties": { "a": { "minimum": "1" } } }), "/properties/a/minimum"),
        (json!({ "type": "object", "properties": [] }), "/properties"),
    ];
    for (schema, place) in cases {
        match refused(schema) {
            SchemaError::Invalid { location, .. } => assert_eq!(location, place),
            other => panic!("{other}"),
        }
    }
}

#[test]
fn a_schema_that_applies_itself_to_the_same_value() {
    for schema in [
        json!({ "type": "object", "allOf": [{ "$ref": "#" }] }),
        json!({ "type": "object", "$ref": "#" }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#/properties/a" } } }),
        json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/a" } },
            "$defs": { "a": { "anyOf": [{ "$ref": "#/$defs/b" }] }, "b": { "not": { "$ref": "#/$defs/a" } } } }),
    ] {
        let error = refused(schema);
        assert!(matches!(error, SchemaError::Endless { .. }), "{error}");
    }
}

#[test]
fn a_few_lines_that_unfold_to_billions() {
    let mut definitions = json!({ "d0": { "type": "integer" } });
    for level in 1..=40 {
        let below = format!("#/$defs/d{}", level - 1);
        definitions[format!("d{level}")] = json!({ "allOf": [{ "$ref": below }, { "$ref": below }] });
    }
    let error =
        refused(json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/d40" } }, "$defs": definitions }));
    assert!(matches!(error, SchemaError::Unfolds { .. }), "{error}");
}
