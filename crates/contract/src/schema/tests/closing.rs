//! Objects are closed by default, wherever they are described, and nothing else changes.

use serde_json::{Value, json};

use super::compiled;

/// Each of `accepted` passes and each of `refused` does not.
fn check(schema: Value, accepted: &[Value], refused: &[Value]) {
    let compiled = compiled(schema);
    for value in accepted {
        let findings = compiled.judge(value);
        assert!(findings.is_empty(), "{value}: {findings:#?}\n{:#}", compiled.effective());
    }
    for value in refused {
        assert!(!compiled.is_valid(value), "{value} passes {:#}", compiled.effective());
    }
}

#[test]
fn the_root_nested_objects_and_items() {
    check(
        json!({ "type": "object", "properties": {
            "address": { "type": "object", "properties": { "city": { "type": "string" } } },
            "lines": { "type": "array", "items": { "type": "object", "properties": { "sku": {} } } },
            "pair": { "prefixItems": [{ "properties": { "left": {} } }, { "properties": { "right": {} } }] },
        } }),
        &[
            json!({}),
            json!({ "address": { "city": "Turin" }, "lines": [{ "sku": 1 }, {}], "pair": [{ "left": 1 }, { "right": 1 }] }),
        ],
        &[
            json!({ "other": 1 }),
            json!({ "address": { "town": "Turin" } }),
            json!({ "lines": [{ "sku": 1 }, { "price": 1 }] }),
            json!({ "pair": [{ "right": 1 }] }),
        ],
    );
}

#[test]
fn a_tool_without_parameters_takes_none() {
    check(json!({ "type": "object" }), &[json!({})], &[json!({ "a": 1 })]);
    check(json!({}), &[json!({})], &[json!({ "a": 1 }), json!([])]);
}

#[test]
fn what_says_otherwise_is_left_alone() {
    check(json!({ "type": "object", "additionalProperties": true }), &[json!({ "a": 1 })], &[]);
    check(
        json!({ "type": "object", "properties": { "a": {} }, "additionalProperties": { "type": "string" } }),
        &[json!({ "a": 1, "b": "x" })],
        &[json!({ "b": 1 })],
    );
    check(
        json!({ "type": "object", "properties": {
            "open": { "properties": { "a": {} }, "additionalProperties": true },
            "behind": { "$ref": "#/$defs/open" },
            "map": { "type": "object", "additionalProperties": { "properties": { "x": {} } } },
        }, "$defs": { "open": { "properties": { "a": {} }, "additionalProperties": true } } }),
        &[json!({ "open": { "b": 1 }, "behind": { "b": 1 }, "map": { "any": { "x": 1 } } })],
        &[json!({ "map": { "any": { "y": 1 } } })],
    );
}

#[test]
fn a_free_form_object_stays_free() {
    check(
        json!({ "type": "object", "properties": {
            "metadata": { "type": "object" },
            "anything": {},
            "yes": true,
            "either": { "anyOf": [{ "type": "object" }, { "type": "null" }] },
            "one_free": { "anyOf": [{ "type": "object" }, { "properties": { "a": {} } }] },
            "behind": { "$ref": "#/$defs/free" },
        }, "$defs": { "free": { "type": "object", "minProperties": 1 } } }),
        &[json!({
            "metadata": { "a": 1 }, "anything": { "a": 1 }, "yes": { "a": 1 }, "either": { "a": 1 },
            "one_free": { "z": 1 }, "behind": { "a": 1 },
        })],
        &[json!({ "behind": {} })],
    );
}

#[test]
fn definitions_are_closed_where_they_describe_a_whole_value() {
    check(
        json!({ "type": "object", "properties": {
            "one": { "$ref": "#/$defs/point" },
            "many": { "type": "array", "items": { "$ref": "#/$defs/point" } },
            "joined": { "allOf": [{ "$ref": "#/$defs/point" }, { "properties": { "z": {} } }] },
            "chained": { "$ref": "#/$defs/alias" },
        }, "$defs": {
            "alias": { "$ref": "#/$defs/point" },
            "point": { "type": "object", "properties": { "x": {}, "inner": { "properties": { "deep": {} } } } },
        } }),
        &[json!({ "one": { "x": 1 }, "many": [{ "x": 1 }], "joined": { "x": 1, "z": 1 }, "chained": { "x": 1 } })],
        &[
            json!({ "one": { "y": 1 } }),
            json!({ "many": [{ "y": 1 }] }),
            json!({ "joined": { "x": 1, "y": 1 } }),
            json!({ "chained": { "y": 1 } }),
            json!({ "one": { "inner": { "other": 1 } } }),
        ],
    );
}

#[test]
fn a_definition_that_contains_itself() {
    check(
        json!({ "type": "object", "properties": { "tree": { "$ref": "#/$defs/node" } },
            "$defs": { "node": { "properties": { "children": { "items": { "$ref": "#/$defs/node" } } } } } }),
        &[json!({ "tree": { "children": [{ "children": [{}] }] } })],
        &[json!({ "tree": { "children": [{ "children": [{ "leaf": 1 }] }] } })],
    );
}

#[test]
fn alternatives() {
    let kinds = json!([
        { "properties": { "kind": { "const": "card" }, "number": {} }, "required": ["kind", "number"] },
        { "properties": { "kind": { "const": "cash" }, "drawer": {} }, "required": ["kind"] },
    ]);
    for keyword in ["anyOf", "oneOf"] {
        check(
            json!({ "type": "object", "properties": { "payment": { keyword: kinds } } }),
            &[
                json!({ "payment": { "kind": "card", "number": 1 } }),
                json!({ "payment": { "kind": "cash", "drawer": 1 } }),
            ],
            &[
                json!({ "payment": { "kind": "cash", "other": 1 } }),
                // A field of the other alternative.
                json!({ "payment": { "kind": "cash", "number": 1 } }),
            ],
        );
        // At the root, beside properties of its own.
        check(
            json!({ "type": "object", "properties": { "id": {} }, keyword: kinds }),
            &[json!({ "id": 1, "kind": "cash" })],
            &[json!({ "id": 1, "kind": "cash", "other": 1 })],
        );
    }
    check(
        json!({ "type": "object", "properties": { "maybe": { "anyOf": [{ "$ref": "#/$defs/a" }, { "type": "null" }] } },
            "$defs": { "a": { "type": "object", "properties": { "a": {} } } } }),
        &[json!({ "maybe": null }), json!({ "maybe": { "a": 1 } })],
        &[json!({ "maybe": { "b": 1 } })],
    );
}

#[test]
fn alternatives_that_only_require_something_name_nothing() {
    let schema = json!({ "type": "object", "properties": { "id": {}, "name": {} },
        "anyOf": [{ "required": ["id"] }, { "required": ["name"] }] });
    assert_eq!(compiled(schema.clone()).effective()["additionalProperties"], json!(false));
    check(schema, &[json!({ "id": 1 }), json!({ "name": 1 })], &[json!({}), json!({ "id": 1, "x": 1 })]);
}

#[test]
fn joined_schemas_use_unevaluated_properties() {
    let schema = json!({ "type": "object", "allOf": [
        { "properties": { "a": { "type": "integer" } } },
        { "if": { "properties": { "a": { "const": 1 } }, "required": ["a"] }, "then": { "properties": { "b": {} } } },
    ] });
    assert_eq!(compiled(schema.clone()).effective()["unevaluatedProperties"], json!(false));
    check(schema, &[json!({ "a": 1, "b": 1 })], &[json!({ "a": 1, "c": 1 }), json!({ "a": 2, "b": 1 })]);
}

#[test]
fn draft_07_has_no_unevaluated_properties_and_is_closed_all_the_same() {
    check(
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {
                "plain": { "properties": { "a": {} } },
                "referred": { "$ref": "#/definitions/point", "description": "ignored beside a $ref" },
                "joined": { "allOf": [{ "$ref": "#/definitions/point" }, { "properties": { "z": {} } }] },
                "tuple": { "items": [{ "properties": { "l": {} } }], "additionalItems": { "properties": { "r": {} } } },
            },
            "allOf": [{ "properties": { "extra": {} } }],
            "definitions": { "point": { "type": "object", "required": ["x"],
                "properties": { "x": { "type": "integer" } }, "patternProperties": { "^n_": {} } } } }),
        &[json!({
            "plain": { "a": 1 }, "referred": { "x": 1, "n_1": 1 }, "joined": { "x": 1, "z": 1 }, "extra": 1,
            "tuple": [{ "l": 1 }, { "r": 1 }],
        })],
        &[
            json!({ "plain": { "b": 1 } }),
            json!({ "referred": { "x": 1, "y": 1 } }),
            json!({ "referred": {} }),
            json!({ "joined": { "x": 1, "y": 1 } }),
            json!({ "joined": { "x": "1", "z": 1 } }),
            json!({ "tuple": [{ "r": 1 }] }),
            json!({ "other": 1 }),
        ],
    );
}

#[test]
fn draft_07_definitions_that_say_otherwise_are_left_alone() {
    check(
        json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
            "properties": {
                "referred": { "$ref": "#/definitions/open" },
                "joined": { "allOf": [{ "$ref": "#/definitions/open" }, { "properties": { "z": {} } }] },
            },
            "definitions": { "open": { "properties": { "x": { "type": "integer" } }, "additionalProperties": true } } }),
        &[json!({ "referred": { "x": 1, "any": 1 }, "joined": { "any": 1, "z": 1 } })],
        &[json!({ "referred": { "x": "1" } })],
    );
}

#[test]
fn conditions_are_not_closed() {
    check(
        json!({ "type": "object", "properties": { "a": {}, "b": {} },
            "not": { "properties": { "a": { "const": 0 } }, "required": ["a"] },
            "if": { "properties": { "a": { "const": 1 } }, "required": ["a"] }, "then": { "required": ["b"] } }),
        &[json!({ "a": 1, "b": 2 }), json!({ "a": 2 })],
        // If `not` were closed, the first would pass because of `b`. If `if` were closed, it would not match the second.
        &[json!({ "a": 0, "b": 1 }), json!({ "a": 1 })],
    );
}
