//! A policy that reads an argument that it cannot see is not loaded, because it would skip the calls it is for.

use std::sync::Arc;

use serde_json::{Value, json};
use servanda_contract::tool::{DataClassification, SideEffectClass};

use super::{decide, load_in, tool, vocabulary_of};
use crate::{BuiltInPermits, PolicyDecision, PolicyFindingKind, PolicyRefusalCause, Vocabulary};

/// `a.open` with a `path` and a `to.path` of strings, and `b.open` whose schema is given.
fn beside(schema: &Value) -> Arc<Vocabulary> {
    let plain = json!({ "type": "object", "properties": {
        "path": { "type": "string" },
        "to": { "type": "object", "properties": { "path": { "type": "string" } } },
        "list": { "type": "array", "items": { "type": "object", "properties": { "path": { "type": "string" } } } },
    } });
    let of = |name: &str, schema: &Value| {
        let mut tool = tool(name, SideEffectClass::ReadOnly, DataClassification::Public);
        tool.affordance.input_schema = schema.as_object().unwrap().clone().into();
        tool
    };
    vocabulary_of(&[of("a.open", &plain), of("b.open", schema)])
}

const PATH: &str = "context.args has path && context.args.path like \"/etc/*\"";
const NESTED: &str = "context.args has to && context.args.to has path && context.args.to.path like \"/etc/*\"";

fn with(path: &Value) -> Value {
    json!({ "type": "object", "properties": { "path": path } })
}

/// A condition, the schema of the second tool, and whether the condition reads something that cannot be seen.
fn conditions() -> Vec<(&'static str, Value, bool)> {
    let several = json!({ "type": ["string", "array"] });
    let inside = |to: Value| json!({ "type": "object", "properties": { "to": to } });
    let to =
        |path: &Value| inside(json!({ "type": "object", "properties": { "path": path, "x": { "type": "string" } } }));
    let partly = json!({ "type": "object", "properties": { "name": { "type": "string" }, "x": {} } });
    vec![
        (PATH, with(&several), true),
        (PATH, with(&json!({})), true),
        (PATH, with(&json!({ "type": "object", "additionalProperties": { "type": "string" } })), true),
        ("!(context.args has path)", with(&several), true),
        (NESTED, to(&several), true),
        (NESTED, inside(json!({})), true),
        (
            NESTED,
            inside(
                json!({ "type": "object", "properties": { "x": { "type": "string" } }, "additionalProperties": true }),
            ),
            true,
        ),
        (
            PATH,
            json!({ "type": "object", "properties": { "x": { "type": "string" } }, "anyOf": [{ "properties": { "path": { "type": "string" } } }] }),
            true,
        ),
        (
            PATH,
            json!({ "type": "object", "properties": { "x": { "type": "string" } },
            "if": { "required": ["x"] }, "then": { "$ref": "#/$defs/more" }, "$defs": { "more": { "properties": { "path": { "type": "string" } } } } }),
            true,
        ),
        (PATH, json!({ "type": "object", "patternProperties": { "^p": { "type": "string" } } }), true),
        ("context.args has to && context.args.to == {\"name\": \"b\"}", inside(partly.clone()), true),
        // Unseen arguments that it does not read do not matter, nor do those that are always absent.
        (PATH, with(&json!({ "type": "null" })), false),
        (PATH, inside(json!({})), false),
        (
            PATH,
            json!({ "type": "object", "properties": { "path": { "type": "string" }, "x": {} }, "anyOf": [{ "required": ["path"] }, { "required": ["x"] }] }),
            false,
        ),
        (NESTED, to(&json!({ "type": "string" })), false),
        (NESTED, with(&several), false),
        ("context.args has to && context.args.to has name && context.args.to.name == \"b\"", inside(partly), false),
        (
            "context.args has list && context.args.list.isEmpty()",
            json!({ "type": "object", "properties": { "list": { "type": "array", "items": { "type": "object", "properties": { "a": { "type": "string" }, "b": {} } } } } }),
            false,
        ),
    ]
}

#[test]
fn a_rule_over_all_tools_is_not_loaded_if_one_has_what_it_cannot_see() {
    for (condition, schema, refused) in conditions() {
        let vocabulary = beside(&schema);
        for (scope, concerned) in [
            ("principal, action, resource", true),
            ("principal, action == Action::\"call:b.open\", resource", true),
            ("principal, action, resource in Upstream::\"bank\"", true),
            ("principal, action == Action::\"call:a.open\", resource", false),
        ] {
            for effect in ["forbid", "permit"] {
                let text = format!("@may_never_apply(\"\")\n{effect} ({scope})\nwhen {{ {condition} }};");
                let loaded = load_in(&vocabulary, &text, BuiltInPermits::On);
                // Some of these conditions have no type for one tool or the other.
                let findings = loaded.map_or_else(|failure| failure.findings().to_vec(), |_| Vec::new());
                let unseen: Vec<_> = findings.iter().filter(|found| found.message.contains("cannot see")).collect();
                assert_eq!(!unseen.is_empty(), refused && concerned, "{text}\n{schema}\n{findings:?}");
                for found in unseen {
                    assert_eq!((found.kind, found.line), (PolicyFindingKind::Type, 3), "{found}");
                    assert!(found.message.contains("`b.open`") && !found.message.contains("`a.open`"), "{found}");
                }
            }
        }
    }
}

/// A call of a tool that accepts any argument is refused if it has one that a policy would have to see.
#[test]
fn what_a_contract_does_not_declare_refuses_the_call_where_a_policy_looks_at_it() {
    let open = json!({ "type": "object", "properties": { "x": { "type": "string" } }, "additionalProperties": true });
    let text = format!("forbid (principal, action, resource) when {{ {PATH} }};");
    let policies = load_in(&beside(&open), &text, BuiltInPermits::On).unwrap_or_else(|failure| panic!("{failure}"));
    let cause = |arguments: &Value| match decide(&policies, "b.open", arguments) {
        PolicyDecision::Allowed(_) => None,
        PolicyDecision::Refused(refused) => Some(refused.cause().clone()),
    };
    assert!(matches!(cause(&json!({ "path": "/etc/passwd" })), Some(PolicyRefusalCause::Arguments { .. })));
    for harmless in [json!({ "x": "y" }), json!({ "other": 1 }), json!({ "path": null })] {
        assert_eq!(cause(&harmless), None, "{harmless}");
    }
}
