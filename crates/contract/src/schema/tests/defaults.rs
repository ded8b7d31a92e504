//! Absent arguments get their defaults, and only defaults that are values the argument may have.

use serde_json::{Value, json};

use super::compiled;

fn check(schema: Value, mut value: Value, expected: &Value) {
    let compiled = compiled(schema);
    compiled.apply_defaults(&mut value);
    assert_eq!(&value, expected);
}

#[test]
fn at_the_root_and_nested() {
    let schema = json!({ "type": "object", "properties": {
        "limit": { "type": "integer", "default": 10 },
        "range": { "type": "object", "properties": { "from": { "default": 0 }, "to": {} } },
        "made": { "type": "object", "default": {}, "properties": { "inner": { "default": true } } },
    } });
    check(schema.clone(), json!({}), &json!({ "limit": 10, "made": { "inner": true } }));
    check(
        schema,
        json!({ "limit": 0, "range": {}, "made": { "inner": false } }),
        &json!({
            "limit": 0, "range": { "from": 0 }, "made": { "inner": false },
        }),
    );
}

#[test]
fn in_items_behind_references_and_in_parts() {
    check(
        json!({ "type": "object", "properties": {
            "lines": { "items": { "$ref": "#/$defs/line" } },
            "pair": { "prefixItems": [{ "properties": { "left": { "default": "l" } } }] },
            "mode": { "$ref": "#/$defs/alias" },
            "nearer": { "$ref": "#/$defs/mode", "default": "slow" },
        }, "allOf": [{ "properties": { "part": { "default": 1 } } }],
        "$defs": {
            "alias": { "$ref": "#/$defs/mode" },
            "mode": { "enum": ["fast", "slow"], "default": "fast" },
            "line": { "type": "object", "properties": { "count": { "default": 1 } } },
        } }),
        json!({ "lines": [{}, { "count": 2 }], "pair": [{}] }),
        &json!({
            "lines": [{ "count": 1 }, { "count": 2 }], "pair": [{ "left": "l" }],
            "mode": "fast", "nearer": "slow", "part": 1,
        }),
    );
}

#[test]
fn a_default_that_breaks_its_own_schema_is_not_applied() {
    let schema = json!({ "type": "object", "properties": {
        "nothing": { "type": "string", "default": null },
        "unknown": { "enum": ["a", "b"], "default": "c" },
        "short": { "type": "string", "minLength": 3, "default": "" },
        "behind": { "$ref": "#/$defs/count", "default": "many" },
        "strange / name": { "type": "integer", "default": "x" },
        "nullable": { "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null },
        "object": { "type": "object", "properties": { "a": {} }, "default": { "b": 1 } },
        "default": { "type": "string", "default": "a property may be called default" },
    }, "$defs": { "count": { "type": "integer" } } });
    let expected = json!({ "nullable": null, "default": "a property may be called default" });
    check(schema.clone(), json!({}), &expected);
    // The broken default is not shown either.
    assert_eq!(compiled(schema).effective()["properties"]["nothing"], json!({ "type": "string" }));
}

#[test]
fn what_is_there_is_never_replaced() {
    let schema = json!({ "type": "object", "properties": { "a": { "type": ["integer", "null"], "default": 1 } } });
    check(schema.clone(), json!({ "a": null }), &json!({ "a": null }));
    check(schema, json!({ "a": "wrong" }), &json!({ "a": "wrong" }));
}

#[test]
fn by_position_in_the_tuples_of_draft_07() {
    let with = |default: &str| json!({ "type": "object", "properties": { "a": { "default": default } } });
    let schema = json!({ "$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "properties": { "pair": { "items": [with("first"), true], "additionalItems": with("other") } } });
    check(schema, json!({ "pair": [{}, {}, {}] }), &json!({ "pair": [{ "a": "first" }, {}, { "a": "other" }] }));
}
