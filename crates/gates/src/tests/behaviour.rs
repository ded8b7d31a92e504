//! Gate 6: what kind of tool was meant, and what its arguments would do.

use std::sync::{Arc, atomic::AtomicU64};

use serde_json::{Value, json};
use servanda_contract::{
    GateName, Refusal, TaxonomyClass,
    expectation::{BehaviourPattern, Expectation, ExpectationSource, Intent},
};

use super::{LIMITS, Ticks, admitted, proposal, rejected};
use crate::{CompiledContract, Expected, Mandate, Permit, Resolved, Trail, pass_all};

/// A tool that takes a query; whether it changes something, and what it declares.
fn querying(pure: bool, effect: &Value, behaviour: &Value) -> Vec<(&'static str, Value)> {
    let schema = json!({
        "type": "object", "additionalProperties": false, "required": ["query"],
        "properties": {
            "query": { "type": "string", "x-effect": effect },
            "more": { "type": "array", "items": { "type": "object", "properties": { "sql": { "type": "string", "x-effect": "sqlite" } } } },
        },
    });
    let mut changes = vec![
        ("/affordance/input_schema", schema),
        ("/affordance/examples", json!([])),
        ("/rules", json!([])),
        ("/behaviour", behaviour.clone()),
    ];
    if pure {
        changes.extend([
            ("/effect", json!({ "class": "R", "mutation_class": "read_only" })),
            (
                "/transactional",
                json!({
                    "side_effect_class": "READ_ONLY", "confirmation_required": false, "semantics": "read_only",
                    "compensation_tool": null, "post_action_verification_required": false
                }),
            ),
            ("/verification", Value::Null),
        ]);
    }
    changes
}

fn read_query() -> Arc<CompiledContract> {
    admitted(&querying(
        true,
        &json!("sqlite"),
        &json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" }),
    ))
}

fn write_query() -> Arc<CompiledContract> {
    let behaviour = json!({ "mutability": "MUTATES", "action": "OVERWRITE", "output_domain": "DATA" });
    admitted(&querying(false, &json!({ "kind": "sql", "dialect": "sqlite" }), &behaviour))
}

fn judged(
    contract: &Arc<CompiledContract>,
    arguments: &Value,
    expected: Vec<Expected>,
) -> Result<Permit, Box<Refusal>> {
    let ticks = Ticks(AtomicU64::new(0));
    let resolved = Resolved::new(proposal(arguments.to_string()), contract.clone()).expecting(expected);
    pass_all(resolved, &Mandate::Gateway, LIMITS, &mut Trail::new(&ticks))
}

fn refused(contract: &Arc<CompiledContract>, arguments: &Value, expected: Vec<Expected>) -> Refusal {
    *judged(contract, arguments, expected).unwrap_err()
}

fn task(allowed: &Value) -> Expected {
    let allowed: Vec<BehaviourPattern> = serde_json::from_value(allowed.clone()).unwrap();
    Expected::Of(Expectation { source: ExpectationSource::Task("triage".to_owned()), allowed })
}

#[test]
fn a_tool_of_another_kind_than_was_meant_is_refused_with_both_identities() {
    let select = json!({ "query": "select 1" });
    let read_only = task(&json!([{ "mutability": "PURE" }]));
    assert!(judged(&read_query(), &select, vec![read_only.clone()]).is_ok());
    let refusal = refused(&write_query(), &select, vec![read_only]);
    assert_eq!((refusal.gate, refusal.error_code), (GateName::Behaviour, TaxonomyClass::SemanticInvalidity));
    assert_eq!(
        refusal.message,
        "`office__book` is MUTATES|OVERWRITE|DATA (e1a1f1d0b1a4d0a5); the task `triage` expects PURE|*|*"
            .replace("e1a1f1d0b1a4d0a5", &write_query().contract().behaviour.clone().unwrap().identity())
    );
}

#[test]
fn an_expectation_is_met_by_any_of_its_patterns_and_all_expectations_have_to_be() {
    let pattern = |json: Value| task(&json!([json]));
    let table = [
        (json!({}), true),
        (json!({ "mutability": "MUTATES" }), true),
        (json!({ "action": "OVERWRITE" }), true),
        (json!({ "action": ["CREATE", "OVERWRITE"], "output_domain": "DATA" }), true),
        (json!({ "action": "CREATE" }), false),
        (json!({ "output_domain": ["REPO", "USER"] }), false),
        (json!({ "content_type": "TEXT" }), false),
    ];
    let delete = json!({ "query": "delete from users" });
    for (allowed, fits) in table {
        assert_eq!(judged(&write_query(), &delete, vec![pattern(allowed.clone())]).is_ok(), fits, "{allowed}");
    }
    let either = task(&json!([{ "action": "CREATE" }, { "action": "OVERWRITE" }]));
    assert!(judged(&write_query(), &delete, vec![either.clone()]).is_ok());
    assert!(judged(&write_query(), &delete, vec![either, pattern(json!({ "action": "CREATE" }))]).is_err());
    assert!(judged(&write_query(), &delete, vec![task(&json!([]))]).is_err());
}

#[test]
fn an_intent_is_checked_in_both_directions() {
    let (read, write) = (read_query(), write_query());
    let select = json!({ "query": "select 1" });
    let table = [
        (&read, Intent::Read, true),
        (&read, Intent::Write, false),
        (&read, Intent::Destructive, false),
        (&write, Intent::Read, false),
        (&write, Intent::Write, true),
        (&write, Intent::Destructive, true),
    ];
    for (contract, intent, fits) in table {
        let expected = vec![Expected::Of(intent.expectation())];
        assert_eq!(judged(contract, &select, expected).is_ok(), fits, "{intent:?}");
    }
}

#[test]
fn of_a_tool_that_declares_nothing_only_its_mutability_is_known() {
    let plain = admitted(&querying(true, &json!("sqlite"), &Value::Null));
    let select = json!({ "query": "select 1" });
    assert!(judged(&plain, &select, vec![Expected::Of(Intent::Read.expectation())]).is_ok());
    let refusal = refused(&plain, &select, vec![task(&json!([{ "action": "READ" }]))]);
    assert_eq!(refusal.message, "`office__book` is PURE, and declares no more; the task `triage` expects *|READ|*");
}

#[test]
fn what_cannot_be_compared_does_not_fit() {
    let unclear = Expected::Unclear { message: "no such task".to_owned(), hint: "leave it out".to_owned() };
    let refusal = refused(&read_query(), &json!({ "query": "select 1" }), vec![unclear]);
    assert_eq!(
        (refusal.gate, refusal.message.as_str(), refusal.hint.as_str()),
        (GateName::Behaviour, "no such task", "leave it out")
    );
}

#[test]
fn a_tool_that_only_reads_is_not_asked_to_change_anything() {
    let contract = read_query();
    for query in ["select * from users", "  -- a comment\nwith a as (select 1) select * from a"] {
        assert!(judged(&contract, &json!({ "query": query }), Vec::new()).is_ok(), "{query}");
    }
    let refusal = refused(&contract, &json!({ "query": "select 1; DELETE FROM users" }), Vec::new());
    assert_eq!((refusal.gate, refusal.error_code), (GateName::Behaviour, TaxonomyClass::SemanticInvalidity));
    assert_eq!(refusal.field_errors.len(), 1);
    let error = &refusal.field_errors[0];
    assert_eq!((error.pointer.as_str(), error.actual.as_str()), ("/query", "DELETE (write)"));
    assert!(refusal.message.starts_with("`query`: this would change something: "), "{}", refusal.message);
    assert!(!refusal.message.contains("users"), "a refusal never carries a value");
    // What cannot be read counts as a change.
    let refusal = refused(&contract, &json!({ "query": "frobnicate the users" }), Vec::new());
    assert!(refusal.message.contains("it cannot be told that this only reads"), "{}", refusal.message);
    // Every place that the schema says is a program is looked at.
    let nested = json!({ "query": "select 1", "more": [{ "sql": "select 2" }, { "sql": "drop table users" }] });
    assert_eq!(refused(&contract, &nested, Vec::new()).field_errors[0].pointer, "/more/1/sql");
    // A tool that is made for changes may make them.
    assert!(judged(&write_query(), &json!({ "query": "delete from users" }), Vec::new()).is_ok());
}

#[test]
fn a_contract_says_what_its_arguments_are_in_words_that_are_known() {
    let behaviour = json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" });
    for (effect, reason) in [
        (json!("cobol"), "`cobol` is not known"),
        (json!(7), "say `sql`"),
        (json!({ "kind": "path" }), "a path needs `roots`"),
        (json!({ "kind": "sql", "dialect": "oracle" }), "`oracle` is not known"),
    ] {
        let rejection = rejected(&querying(true, &effect, &behaviour)).to_string();
        assert!(rejection.contains("input_schema.properties.query: x-effect"), "{rejection}");
        assert!(rejection.contains(reason), "{rejection}");
    }
}

#[test]
fn a_path_stays_inside_of_its_roots_and_a_method_reads() {
    let behaviour = json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" });
    let path = admitted(&querying(true, &json!({ "kind": "path", "roots": ["/srv/data"] }), &behaviour));
    let method = admitted(&querying(true, &json!("http_method"), &behaviour));
    let table = [
        (&path, "/srv/data/a/b.txt", true),
        (&path, "/srv/data/a/../b.txt", true),
        (&path, "/srv/data/../secret", false),
        (&path, "/srv/database", false),
        (&path, "/etc/passwd", false),
        (&method, "get", true),
        (&method, "HEAD", true),
        (&method, "POST", false),
    ];
    for (contract, text, fits) in table {
        assert_eq!(judged(contract, &json!({ "query": text }), Vec::new()).is_ok(), fits, "{text}");
    }
}
