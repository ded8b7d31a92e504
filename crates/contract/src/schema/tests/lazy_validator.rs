//! A dormant schema validates as before, and keeps no validator until it validates a value.

use serde_json::{Value, json};

use crate::{
    schema::{CompiledSchema, SchemaProfile, lazy_validator::EffectiveSchema},
    shared::SchemaDocument,
};

fn document(schema: &Value) -> SchemaDocument {
    schema.as_object().unwrap().clone().into()
}

fn schemas() -> Vec<Value> {
    vec![
        json!({ "type": "object", "properties": { "a": { "type": "string", "pattern": "^x+$" } }, "required": ["a"],
            "additionalProperties": false }),
        json!({ "properties": { "n": { "type": "integer", "default": 3 }, "b": { "type": "boolean", "default": "no" } } }),
        json!({ "type": "object", "properties": { "next": { "$ref": "#" }, "when": { "format": "date" } } }),
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "allOf": [{ "properties": { "a": {} } }, { "properties": { "b": { "enum": [1, null] } } }] }),
        json!({ "type": "object", "properties": { "x": { "type": "number", "maximum": 0.1, "multipleOf": 0.000_1 } } }),
    ]
}

fn values() -> Vec<Value> {
    vec![
        json!({}),
        json!({ "a": "xx" }),
        json!({ "a": "y", "more": 1 }),
        json!({ "n": "1", "b": true }),
        json!({ "next": { "next": { "when": "tomorrow" } } }),
        json!({ "a": 1, "b": 1, "c": 1 }),
        json!({ "x": 0.100_01 }),
        json!({ "x": 0.05 }),
    ]
}

#[test]
fn a_schema_at_rest_judges_as_before() {
    for schema in schemas() {
        let compiled = || CompiledSchema::compile_document(&document(&schema), SchemaProfile::Arguments).unwrap();
        let (awake, resting) = (compiled(), compiled().without_validator());
        assert!(resting.compiled.get().is_none(), "{schema}");
        for mut value in values() {
            let judged = |schema: &CompiledSchema| format!("{:?}", schema.judge(&value));
            assert_eq!(judged(&awake), judged(&resting), "{schema} {value}");
            assert_eq!(awake.is_valid(&value), resting.is_valid(&value), "{schema} {value}");
            let mut other = value.clone();
            awake.apply_defaults(&mut value);
            resting.apply_defaults(&mut other);
            assert_eq!(value, other, "{schema}");
        }
        let again = resting.without_validator();
        assert!(again.compiled.get().is_none() && awake.effective() == again.effective(), "{schema}");
    }
}

/// Agents see the members in their order.
#[test]
fn what_is_enforced_is_shown_in_the_same_order_without_being_made_ready() {
    for schema in schemas() {
        let compiled = || CompiledSchema::compile_document(&document(&schema), SchemaProfile::Arguments).unwrap();
        let (awake, resting) = (compiled(), compiled().without_validator());
        let shown = serde_json::to_string(&resting.effective_members()).unwrap();
        assert_eq!(shown, serde_json::to_string(awake.effective()).unwrap(), "{schema}");
        assert_eq!(shown, serde_json::to_string(&awake.effective_members()).unwrap(), "{schema}");
        assert!(resting.compiled.get().is_none(), "{schema}");
    }
}

#[test]
fn a_schema_that_is_enforced_as_it_is_written_is_kept_once() {
    let closed = document(&schemas()[0]);
    let resting = CompiledSchema::compile_document(&closed, SchemaProfile::Arguments).unwrap().without_validator();
    assert!(matches!(resting.effective, EffectiveSchema::AsWritten) && resting.written.is_same(&closed));
    let open = document(&schemas()[1]);
    let resting = CompiledSchema::compile_document(&open, SchemaProfile::Arguments).unwrap().without_validator();
    assert!(matches!(resting.effective, EffectiveSchema::Text(_)));
}

/// A text that parses to a different number would be another schema.
#[test]
fn what_a_text_cannot_hold_exactly_is_kept_as_it_is() {
    let numbers = (0..2_000).map(|number| 1.0 / f64::from(number * 7 + 3) * 1e-7);
    let schema = json!({ "type": "object", "properties": { "x": { "enum": numbers.collect::<Vec<f64>>() } } });
    let awake = CompiledSchema::compile_document(&document(&schema), SchemaProfile::Arguments).unwrap();
    let resting =
        CompiledSchema::compile_document(&document(&schema), SchemaProfile::Arguments).unwrap().without_validator();
    assert_eq!(awake.effective(), resting.effective());
}
