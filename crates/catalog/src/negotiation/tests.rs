use std::fs;

use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Map, Value, json};

use super::{SchemaMatch, negotiate};
use crate::{inference::infer, pins::Definition, testing::shared};

fn object(value: &Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

/// The outcome of a pair as a line: the word, and the pointers in order.
fn outcome(told: &Value, taken: &Value) -> String {
    let pointers = |gaps: &[super::SchemaGap]| {
        gaps.iter().map(|gap| gap.pointer.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
    };
    match negotiate(&object(told), &object(taken)) {
        SchemaMatch::Full => "full".to_owned(),
        SchemaMatch::Partial { gaps } => format!("partial {}", pointers(&gaps)),
        SchemaMatch::Incompatible { reasons } => format!("incompatible {}", pointers(&reasons)),
    }
}

fn with(members: &Value, required: &Value) -> Value {
    json!({ "type": "object", "properties": members, "required": required })
}

#[test]
fn members() {
    let told = with(&json!({ "a": { "type": "string" }, "b": { "type": "integer" } }), &json!(["a"]));
    let rows = [
        (told.clone(), "full"),
        // The tool offers more than the contract tells.
        (with(&json!({ "a": {}, "b": {}, "c": {} }), &json!(["a"])), "full"),
        (with(&json!({ "a": {} }), &json!([])), "partial b"),
        (with(&json!({ "b": {} }), &json!([])), "incompatible a"),
        (with(&json!({}), &json!([])), "full"),
        (json!({ "type": "object" }), "full"),
        (json!({ "type": "object", "properties": {}, "additionalProperties": false }), "incompatible a"),
        (json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": true }), "full"),
        // What the tool requires.
        (with(&json!({ "a": {}, "b": {} }), &json!(["a", "b"])), "partial b"),
        (with(&json!({ "a": {}, "b": {}, "c": {} }), &json!(["a", "c"])), "incompatible c"),
        (with(&json!({ "a": {}, "b": {}, "c": { "default": 1 } }), &json!(["a", "c"])), "full"),
    ];
    for (taken, expected) in rows {
        assert_eq!(outcome(&told, &taken), expected, "{taken}");
    }
    let marked = with(&json!({ "a": { "type": "string", "x-effect": "sql" } }), &json!(["a"]));
    let plain = with(&json!({ "a": { "type": "string" } }), &json!(["a"]));
    assert_eq!(outcome(&marked, &plain), "full", "a keyword of ours is no difference");
    let filled_in = with(&json!({ "a": {}, "b": { "default": 7 } }), &json!(["a"]));
    assert_eq!(outcome(&filled_in, &with(&json!({ "a": {}, "b": {} }), &json!(["a", "b"]))), "full");
    let open = json!({ "type": "object", "additionalProperties": true });
    assert_eq!(outcome(&open, &with(&json!({ "a": {} }), &json!(["a"]))), "full");
    assert_eq!(outcome(&json!({ "type": "object" }), &with(&json!({ "a": {} }), &json!(["a"]))), "incompatible a");
}

#[test]
fn types_and_values() {
    let rows = [
        (json!({ "type": "string" }), json!({ "type": "string" }), "full"),
        (json!({ "type": "string" }), json!({}), "full"),
        (json!({ "type": "string" }), json!({ "type": "integer" }), "incompatible x"),
        (json!({ "type": "integer" }), json!({ "type": "number" }), "full"),
        (json!({ "type": "number" }), json!({ "type": "integer" }), "partial x"),
        (json!({ "type": ["string", "null"] }), json!({ "type": "string" }), "partial x"),
        (json!({ "type": "string" }), json!({ "type": ["string", "null"] }), "full"),
        (json!({}), json!({ "type": "string" }), "partial x"),
        (json!({ "type": "string" }), json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), "full"),
        (json!({ "type": "string" }), json!({ "anyOf": [{ "type": "array" }, { "type": "null" }] }), "incompatible x"),
        (json!({ "enum": ["a", "b"] }), json!({ "enum": ["b", "a", "c"] }), "full"),
        (json!({ "enum": ["a", "b"] }), json!({ "enum": ["b"] }), "partial x"),
        (json!({ "enum": ["a"] }), json!({ "enum": ["b"] }), "incompatible x"),
        (json!({ "enum": ["a"] }), json!({ "type": "string" }), "full"),
        (json!({ "const": "a" }), json!({ "enum": ["a", "b"] }), "full"),
        (json!({ "type": "string" }), json!({ "type": "string", "enum": ["a"] }), "partial x"),
        // Limits are not compared.
        (
            json!({ "type": "string", "maxLength": 5 }),
            json!({ "type": "string", "maxLength": 2, "pattern": "^a" }),
            "full",
        ),
        (
            json!({ "type": "array", "items": { "type": "string" } }),
            json!({ "type": "array", "items": { "type": "integer" } }),
            "incompatible items",
        ),
        (
            with(&json!({ "deep": { "type": "string" } }), &json!(["deep"])),
            with(&json!({ "other": { "type": "string" } }), &json!([])),
            "incompatible deep",
        ),
    ];
    for (told, taken, expected) in rows {
        let (told, taken) = (with(&json!({ "x": told }), &json!([])), with(&json!({ "x": taken }), &json!([])));
        assert_eq!(outcome(&told, &taken), expected, "{told} {taken}");
    }
}

#[test]
fn references_and_combinations_are_followed() {
    let told = with(&json!({ "x": { "type": "string" } }), &json!(["x"]));
    let referring = |schema: &Value| json!({ "type": "object", "properties": { "x": { "$ref": "#/$defs/X" } }, "$defs": { "X": schema } });
    assert_eq!(outcome(&told, &referring(&json!({ "type": "string" }))), "full");
    assert_eq!(outcome(&told, &referring(&json!({ "type": "object" }))), "incompatible x");
    let all = json!({ "allOf": [{ "properties": { "x": {} } }, { "properties": { "y": {} }, "required": ["y"] }] });
    assert_eq!(outcome(&told, &all), "incompatible y");
    let either = json!({ "oneOf": [
        { "properties": { "x": {}, "kind": { "const": 1 } }, "required": ["x", "kind"] },
        { "properties": { "y": {} }, "required": ["y"] },
    ] });
    assert_eq!(outcome(&told, &either), "full");
}

/// Schemas that contain themselves, and schemas that are made to take for ever.
#[test]
fn comparing_ends() {
    let tree = json!({
        "type": "object", "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#/$defs/t" } },
        "$defs": { "t": { "properties": { "left": { "$ref": "#/$defs/t" }, "right": { "$ref": "#/$defs/t" } } } },
    });
    assert_eq!(outcome(&tree, &tree), "full");
    let mut definitions = Map::new();
    for level in 0..40 {
        let next = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
        definitions
            .insert(format!("l{level}"), json!({ "allOf": [next, next], "properties": { "a": next, "b": next } }));
    }
    let bomb = json!({ "type": "object", "properties": { "a": { "$ref": "#/$defs/l0" } }, "$defs": definitions });
    outcome(&bomb, &bomb);
}

fn schemas() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({ "type": "string" })),
        Just(json!({ "type": ["integer", "null"] })),
        Just(json!({ "enum": ["a", 1] })),
        Just(json!(true)),
    ];
    leaf.prop_recursive(4, 40, 4, |inner| {
        let name = "[a-d]";
        prop_oneof![
            (
                prop::collection::btree_map(name, inner.clone(), 0..4),
                prop::collection::btree_set(name, 0..3),
                any::<bool>()
            )
                .prop_map(|(members, required, open)| json!({
                    "type": "object", "properties": members, "required": required, "additionalProperties": open,
                })),
            inner.clone().prop_map(|items| json!({ "type": "array", "items": items })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|schemas| json!({ "anyOf": schemas })),
            prop::collection::vec(inner, 1..3).prop_map(|schemas| json!({ "allOf": schemas })),
        ]
    })
}

#[test]
fn a_schema_fits_itself() {
    let root = (prop::collection::btree_map("[a-d]", schemas(), 0..4), prop::collection::btree_set("[a-d]", 0..3));
    TestRunner::default()
        .run(&root, |(members, required)| {
            let required: Vec<_> = required.into_iter().filter(|name| members.contains_key(name)).collect();
            let schema = object(&with(&json!(members), &json!(required)));
            prop_assert_eq!(negotiate(&schema, &schema), SchemaMatch::Full);
            Ok(())
        })
        .unwrap();
}

/// The contract that `init` writes for a real tool matches that tool, whatever it left out of the schema.
#[test]
fn real_tools_fit_their_inferred_contracts() {
    let Some(file) = shared("corpora/tools/tools.jsonl") else { return };
    let mut misfits = Vec::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        let tool: Value = serde_json::from_str(line).unwrap();
        let offered = object(&tool["input_schema"]);
        let definition = json!({ "name": tool["name"], "inputSchema": offered });
        let definition: Definition = serde_json::from_value(definition).unwrap();
        let expected = infer("real", &definition).unwrap().contract.affordance.input_schema;
        for (told, taken) in [(&offered, &offered), (&expected, &offered)] {
            let outcome = negotiate(told, taken);
            if outcome != SchemaMatch::Full {
                misfits.push(format!("{}: {outcome:?}", tool["id"]));
            }
        }
    }
    assert_eq!(misfits, Vec::<String>::new());
}
