//! Validation that would take exponentially many steps is refused before the first step. The tests count steps, not time.

use serde_json::{Value, json};

use super::{compile, compiled};
use crate::schema::{
    CompiledSchema, SchemaError, SchemaProfile,
    validation_cost::{CostExceeded, ValidationCost},
};

/// Two alternatives that both contain the whole schema again under the same name.
fn twice(keyword: &str) -> Value {
    let branch = |leaf: &str| json!({ "properties": { "c": { "$ref": "#" }, "leaf": { "const": leaf } } });
    json!({ "type": "object", keyword: [branch("a"), branch("b")] })
}

fn nested(depth: usize, leaf: &Value) -> Value {
    (0..depth).fold(json!({ "leaf": leaf }), |inner, _| json!({ "c": inner }))
}

fn growth(schema: &Value) -> Option<ValidationCost> {
    ValidationCost::measure(schema, schema).unwrap()
}

#[test]
fn a_value_too_deep_for_a_schema_that_multiplies_is_not_judged() {
    for keyword in ["oneOf", "anyOf", "allOf"] {
        let schema = twice(keyword);
        assert_eq!(growth(&schema).unwrap().check(&nested(30, &json!(1))), Err(CostExceeded::Depth(11)), "{keyword}");
        assert_eq!(growth(&schema).unwrap().check(&nested(8, &json!(1))), Ok(()), "{keyword}");
        for profile in [SchemaProfile::Arguments, SchemaProfile::Results] {
            let enforced = CompiledSchema::compile(schema.as_object().unwrap(), profile).unwrap();
            let findings = enforced.judge(&nested(30, &json!(1)));
            assert_eq!(findings.structure.len(), 1, "{keyword}");
            let words = "nested deeper than 11 levels, which this recursive schema allows at most";
            assert_eq!(findings.structure[0].message, words);
            // A valid value is refused too, because its depth is refused.
            assert!(!enforced.is_valid(&nested(30, &json!("a"))));
        }
    }
}

#[test]
fn a_shallow_value_is_judged_as_ever() {
    let enforced = compiled(twice("anyOf"));
    assert!(enforced.judge(&nested(8, &json!("b"))).is_empty());
    let findings = enforced.judge(&nested(3, &json!("z"))).into_all();
    assert_eq!(findings[0].pointer, "/c/c/c/leaf");
}

#[test]
fn recursion_that_does_not_multiply_has_no_depth() {
    for schema in [
        json!({ "properties": { "next": { "$ref": "#" } } }),
        json!({ "properties": { "left": { "$ref": "#" }, "right": { "$ref": "#" } } }),
        json!({ "properties": { "children": { "items": { "$ref": "#" } } } }),
        // Alternatives that continue under different names.
        json!({ "anyOf": [
            { "properties": { "and": { "items": { "$ref": "#" } } } },
            { "properties": { "or": { "items": { "$ref": "#" } } } },
            { "properties": { "not": { "$ref": "#" } } },
        ] }),
        json!({ "properties": { "a": { "$ref": "#" } }, "additionalProperties": { "$ref": "#" } }),
        json!({ "prefixItems": [{ "$ref": "#" }], "items": { "$ref": "#" } }),
    ] {
        assert_eq!(growth(&schema), None, "{schema}");
    }
}

#[test]
fn every_way_to_multiply_is_seen() {
    let again = json!({ "$ref": "#" });
    for schema in [
        json!({ "properties": { "c": again }, "patternProperties": { "^c": again } }),
        json!({ "properties": { "c": again }, "allOf": [{ "additionalProperties": again }] }),
        json!({ "properties": { "c": again }, "not": { "properties": { "c": again } } }),
        json!({ "if": { "properties": { "c": again } }, "then": { "properties": { "c": again } } }),
        json!({ "properties": { "c": again }, "dependentSchemas": { "c": { "properties": { "c": again } } } }),
        json!({ "properties": { "c": again }, "dependencies": { "c": { "properties": { "c": again } } } }),
        json!({ "items": again, "contains": again }),
        json!({ "items": [again], "allOf": [{ "additionalItems": again }] }),
        json!({ "items": again, "anyOf": [{ "prefixItems": [again] }] }),
        json!({ "properties": { "c": { "allOf": [again, again] } } }),
        // Two definitions in turn.
        json!({ "properties": { "c": { "$ref": "#/$defs/d" } },
            "$defs": { "d": { "anyOf": [{ "properties": { "c": again } }, { "properties": { "c": again } }] } } }),
    ] {
        let growth = growth(&schema).unwrap();
        assert!(growth.depth_max().is_some_and(|depth_max| (4..32).contains(&depth_max)), "{schema}: {growth:?}");
    }
}

/// The same without a single cycle.
#[test]
fn definitions_that_multiply_one_into_the_next() {
    let mut definitions = json!({ "d0": {} });
    for level in 1..=40 {
        let below = json!({ "properties": { "c": { "$ref": format!("#/$defs/d{}", level - 1) } } });
        definitions[format!("d{level}")] = json!({ "anyOf": [below, below] });
    }
    let schema = json!({ "$ref": "#/$defs/d40", "$defs": definitions });
    assert_eq!(growth(&schema).unwrap().check(&nested(30, &json!(1))), Err(CostExceeded::Depth(11)));
}

/// A depth that is allowed, with many values at it.
#[test]
fn breadth_counts_too() {
    let schema = json!({ "type": "object", "anyOf": [
        { "properties": { "c": { "$ref": "#" }, "leaves": { "items": { "type": "integer" } } } },
        { "properties": { "c": { "$ref": "#" }, "leaves": { "items": { "type": "integer" } } } },
    ] });
    let wide = |depth: usize, leaves: usize| {
        (0..depth).fold(json!({ "leaves": vec!["x"; leaves] }), |inner, _| json!({ "c": inner }))
    };
    let growth = growth(&schema).unwrap();
    assert_eq!(growth.check(&wide(8, 10)), Ok(()));
    assert_eq!(growth.check(&wide(8, 10_000)), Err(CostExceeded::Steps));
    // As long as nothing multiplies, the work is proportional to what was sent.
    assert_eq!(growth.check(&wide(0, 100_000)), Ok(()));
    let findings = compiled(schema).judge(&wide(8, 10_000));
    assert!(findings.structure[0].message.starts_with("too many values"), "{findings:?}");
}

#[test]
fn defaults_do_not_multiply_either() {
    let part = json!({ "properties": { "c": { "$ref": "#/$defs/node", "default": {} } } });
    let schema = json!({ "type": "object", "properties": { "c": { "$ref": "#/$defs/node" } },
        "$defs": { "node": { "allOf": [part, part] } } });
    let enforced = compiled(schema);
    // Defaults go as deep as the caller's own value, not as deep as the recursion.
    let mut value = json!({ "c": {} });
    enforced.apply_defaults(&mut value);
    let depth = std::iter::successors(Some(&value), |value| value.get("c")).count();
    assert!((3..=16).contains(&depth), "{depth}");
    // A value that is too costly to validate stays unchanged.
    let mut deep = nested(30, &json!(1));
    enforced.apply_defaults(&mut deep);
    assert_eq!(deep, nested(30, &json!(1)));
}

#[test]
fn a_default_that_cannot_be_judged_is_dropped() {
    let mut schema = twice("anyOf");
    schema["properties"] = json!({ "c": { "$ref": "#", "default": nested(30, &json!(1)) } });
    assert_eq!(compiled(schema).effective()["properties"]["c"].get("default"), None);
}

/// Computing the bound itself takes bounded time.
#[test]
fn a_schema_too_entangled_to_bound_is_refused() {
    let alternatives: Vec<Value> = (0..2_000).map(|_| json!({ "title": "t" })).collect();
    let properties: serde_json::Map<String, Value> =
        (0..600).map(|number| (format!("p{number}"), json!({ "$ref": "#/$defs/wide" }))).collect();
    let schema = json!({ "type": "object", "properties": properties, "$defs": { "wide": { "anyOf": alternatives } } });
    assert!(matches!(compile(schema), Err(SchemaError::Unfolds { .. })));
}
