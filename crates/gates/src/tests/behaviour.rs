//! Gate 6: the expected kind of tool, and what its arguments would do.

use std::sync::{Arc, atomic::AtomicU64};

use serde_json::{Value, json};
use servanda_contract::{
    GateName, Refusal, TaxonomyClass,
    expectation::{BehaviourPattern, Expectation, ExpectationSource, Intent},
    tool::SideEffectClass,
};

use super::{LIMITS, Ticks, admitted, proposal, rejected};
use crate::{CompiledContract, Permit, ResolvedCall, ToolExpectation, Trail, mandate::CallOrigin, sequence::pass};

/// A tool that takes a query, with these declarations about changes and effects.
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
    expected: Vec<ToolExpectation>,
) -> Result<Permit, Box<Refusal>> {
    let ticks = Ticks(AtomicU64::new(0));
    let resolved = ResolvedCall::new(Box::new(proposal(arguments.to_string())), contract.clone()).expecting(expected);
    pass(resolved, &CallOrigin::Gateway, LIMITS, &mut Trail::new(&ticks)).map(|judged| judged.permitted().unwrap())
}

fn refused(contract: &Arc<CompiledContract>, arguments: &Value, expected: Vec<ToolExpectation>) -> Refusal {
    *judged(contract, arguments, expected).unwrap_err()
}

fn task(allowed: &Value) -> ToolExpectation {
    let allowed: Vec<BehaviourPattern> = serde_json::from_value(allowed.clone()).unwrap();
    ToolExpectation::Known(Expectation { source: ExpectationSource::Task("triage".to_owned()), allowed })
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
fn any_pattern_meets_an_expectation_and_all_expectations_have_to_be_met() {
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
        let expected = vec![ToolExpectation::Known(intent.expectation())];
        assert_eq!(judged(contract, &select, expected).is_ok(), fits, "{intent:?}");
    }
}

#[test]
fn a_tool_that_declares_nothing_is_known_only_by_its_mutability() {
    let plain = admitted(&querying(true, &json!("sqlite"), &Value::Null));
    let select = json!({ "query": "select 1" });
    assert!(judged(&plain, &select, vec![ToolExpectation::Known(Intent::Read.expectation())]).is_ok());
    let refusal = refused(&plain, &select, vec![task(&json!([{ "action": "READ" }]))]);
    assert_eq!(refusal.message, "`office__book` is PURE, and declares no more; the task `triage` expects *|READ|*");
}

#[test]
fn an_unclear_expectation_is_not_met() {
    let unclear = ToolExpectation::Unclear { message: "no such task".to_owned(), hint: "leave it out".to_owned() };
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
    // A text that cannot be parsed counts as a change.
    let refusal = refused(&contract, &json!({ "query": "frobnicate the users" }), Vec::new());
    assert!(refusal.message.contains("it is not certain that this only reads"), "{}", refusal.message);
    // Every argument that the schema declares as a program is checked.
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

/// A keyword in a place where it cannot be enforced is an error, wherever it is.
#[test]
fn a_keyword_that_is_not_reached_is_an_error() {
    let text = json!({ "type": "string", "x-effect": "sqlite" });
    for (query, place) in [
        (json!({ "anyOf": [{ "type": "null" }, text] }), ".properties.query.anyOf.1"),
        (json!({ "oneOf": [text] }), ".properties.query.oneOf.0"),
        (json!({ "allOf": [text] }), ".properties.query.allOf.0"),
        (json!({ "if": text }), ".properties.query.if"),
        (json!({ "type": "array", "prefixItems": [text] }), ".properties.query.prefixItems.0"),
        (json!({ "type": "object", "additionalProperties": text }), ".properties.query.additionalProperties"),
        (json!({ "type": "object", "patternProperties": { "a": text } }), ".properties.query.patternProperties.a"),
        (json!({ "type": "array", "items": { "type": "string" }, "x-effect": "shell" }), "only a text can be read"),
        (json!({ "type": "object", "x-effect": "sqlite" }), "only a text can be read"),
        (json!({ "x-effect": "sqlite" }), "only a text can be read"),
        (json!({ "type": ["string", "integer"], "x-effect": "sqlite" }), "only a text can be read"),
        (json!({ "items": text }), ".properties.query.items"),
        (json!({ "type": ["array", "string"], "items": text }), ".properties.query.items"),
        (json!({ "properties": { "a": text } }), ".properties.query.properties.a"),
        (json!({ "type": "string", "X-Effect": "sqlite" }), "`X-Effect` is not read"),
        (json!({ "type": "string", "x_effect": "sqlite" }), "`x_effect` is not read"),
    ] {
        let rejection = rejected(&with_query(&query)).to_string();
        assert!(rejection.contains("x-effect") && rejection.contains(place), "{query}: {rejection}");
    }
    let behind =
        json!({ "type": "object", "properties": { "query": { "$ref": "#/$defs/sql" } }, "$defs": { "sql": text } });
    let rejection = rejected(&with_schema(behind)).to_string();
    assert!(rejection.contains("input_schema.$defs.sql: x-effect is not enforced here"), "{rejection}");
    for reference in ["#/properties/query", "#", "#query", "other.json"] {
        let beside = json!({ "type": "object", "properties": { "query": text, "other": { "$ref": reference } } });
        let rejection = rejected(&with_schema(beside)).to_string();
        assert!(rejection.contains("properties.other"), "{reference}: {rejection}");
    }
    // A name may look like the path to another place.
    let disguised = json!({ "type": "object",
        "properties": { "x.anyOf.1": text, "x": { "anyOf": [{ "type": "null" }, text] } } });
    let rejection = rejected(&with_schema(disguised)).to_string();
    assert!(rejection.contains(".properties.x.anyOf.1: x-effect is not enforced here"), "{rejection}");
    // A property of that name, and values, are not keywords.
    let named = json!({ "type": "object", "properties": { "x-effect": { "type": "string", "default": "x-effect" },
        "query": { "type": ["string", "null"], "x-effect": "sqlite" } } });
    let contract = admitted(&with_schema(named));
    assert!(judged(&contract, &json!({ "query": null, "x-effect": "a" }), Vec::new()).is_ok());
    assert!(judged(&contract, &json!({ "query": "drop table a" }), Vec::new()).is_err());
}

fn with_query(query: &Value) -> Vec<(&'static str, Value)> {
    with_schema(json!({ "type": "object", "properties": { "query": query } }))
}

fn with_schema(schema: Value) -> Vec<(&'static str, Value)> {
    let behaviour = json!({ "mutability": "PURE", "action": "READ", "output_domain": "DATA" });
    let mut changes = querying(true, &json!("sqlite"), &behaviour);
    changes[0].1 = schema;
    changes
}

#[test]
fn a_request_is_judged_with_its_method_and_what_overrides_it() {
    let schema = |method: Value| {
        json!({ "type": "object", "properties": { "method": method, "url": { "type": "string" },
            "headers": { "type": "object" } } })
    };
    let plain = admitted(&with_schema(schema(json!({ "type": "string", "x-effect": "http_method" }))));
    let default =
        admitted(&with_schema(schema(json!({ "type": "string", "default": "GET", "x-effect": "http_method" }))));
    for (arguments, by_plain, by_default) in [
        (json!({ "method": "GET", "url": "https://a/x" }), true, true),
        (json!({ "method": "post", "url": "https://a/x" }), false, false),
        (json!({ "url": "https://a/x" }), false, true),
        (json!({ "method": "GET", "url": "https://a/x?_method=DELETE" }), false, false),
        (json!({ "method": "GET", "headers": { "X-HTTP-Method-Override": "DELETE" } }), false, false),
        (json!({ "url": "https://a/x?_method=DELETE" }), false, false),
    ] {
        let passed = [&plain, &default].map(|contract| judged(contract, &arguments, Vec::new()).is_ok());
        assert_eq!(passed, [by_plain, by_default], "{arguments}");
    }
    let method = json!({ "type": ["string", "null"], "default": "GET", "x-effect": "http_method" });
    let nullable = admitted(&with_schema(schema(method)));
    assert!(judged(&nullable, &json!({ "method": null }), Vec::new()).is_ok());
    assert!(judged(&nullable, &json!({ "method": null, "url": "https://a/x?_method=DELETE" }), Vec::new()).is_err());
    // Without the object around the method there is no method either.
    let inner =
        json!({ "type": "object", "properties": { "method": { "type": "string", "x-effect": "http_method" } } });
    let requests = json!({ "type": "array", "items": inner });
    let properties = json!({ "request": inner, "requests": requests });
    let held = admitted(&with_schema(json!({ "type": "object", "properties": properties })));
    let whole = json!({ "request": { "method": "GET" }, "requests": [{ "method": "HEAD" }] });
    assert!(judged(&held, &whole, Vec::new()).is_ok());
    for missing in
        [json!({ "requests": [{ "method": "GET" }] }), json!({ "request": { "method": "GET" }, "requests": [] })]
    {
        assert!(judged(&held, &missing, Vec::new()).is_err(), "{missing}");
    }
}

#[test]
fn a_url_leads_only_where_the_contract_allows() {
    let rules = json!({ "kind": "url", "hosts": ["api.test", "10.0.0.5"], "schemes": ["https", "http"] });
    let schema =
        |effect: &Value| json!({ "type": "object", "properties": { "url": { "type": "string", "x-effect": effect } } });
    let (open, named) = (admitted(&with_schema(schema(&json!("url")))), admitted(&with_schema(schema(&rules))));
    for (url, by_open, by_named) in [
        ("https://api.test/x", true, true),
        ("https://other.test/", true, false),
        ("http://10.0.0.5/", false, true),
        ("https://169.254.169.254/", false, false),
        ("file:///etc/passwd", false, false),
    ] {
        let arguments = json!({ "url": url });
        let passed = [&open, &named].map(|contract| judged(contract, &arguments, Vec::new()).is_ok());
        assert_eq!(passed, [by_open, by_named], "{url}");
    }
    let refusal = refused(&open, &json!({ "url": "https://169.254.169.254/latest" }), Vec::new());
    assert!(refusal.message.contains("not a public one") && !refusal.message.contains("169"), "{}", refusal.message);
    for effect in [json!({ "kind": "url", "schemes": ["file"] }), json!({ "kind": "sql", "hosts": ["a"] })] {
        assert!(rejected(&with_schema(schema(&effect))).to_string().contains("x-effect"), "{effect}");
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

/// The contract's class for the worst program, a program, and the class of that call.
#[test]
fn a_call_is_as_grave_as_the_program_that_it_brings_where_that_is_proved() {
    use SideEffectClass::{CriticalMutation, MediumRiskWrite, ReadOnly};
    let behaviour = json!({ "mutability": "MUTATES", "action": "OVERWRITE", "output_domain": "DATA" });
    let tool = |effect: &Value| {
        let mut changes = querying(false, effect, &behaviour);
        changes.push(("/transactional/side_effect_class", json!("CRITICAL_MUTATION")));
        admitted(&changes)
    };
    let class = |contract: &Arc<CompiledContract>, query: &str| {
        judged(contract, &json!({ "query": query }), Vec::new()).unwrap().side_effect_class()
    };
    let decides = tool(&json!({ "kind": "sqlite", "decides_class": true }));
    let rows = [
        ("select * from users", ReadOnly),
        ("insert into users values (1)", MediumRiskWrite),
        ("INSERT INTO users VALUES (1);", MediumRiskWrite),
        ("update users set name = 'x' where id = 1", MediumRiskWrite),
        ("update users set name = 'x'", CriticalMutation),
        ("insert or replace into users values (1)", CriticalMutation),
        ("insert into users values (1); delete from users", CriticalMutation),
        ("delete from users where id = 1", CriticalMutation),
        ("drop table users", CriticalMutation),
        ("create table t (id int)", CriticalMutation),
        ("insert into notes values ('drop it')", CriticalMutation),
        ("not sql at all", CriticalMutation),
    ];
    for (query, expected) in rows {
        assert_eq!(class(&decides, query), expected, "{query}");
    }
    // If the contract does not say that the program decides, the tool may do more than the program says.
    assert_eq!(class(&tool(&json!("sqlite")), "select 1"), CriticalMutation);
    let shell = tool(&json!({ "kind": "shell", "decides_class": true }));
    assert_eq!((class(&shell, "ls -l"), class(&shell, "rm -r x")), (ReadOnly, CriticalMutation));
    let method = tool(&json!({ "kind": "http_method", "decides_class": true }));
    assert_eq!((class(&method, "GET"), class(&method, "DELETE")), (ReadOnly, CriticalMutation));
}

/// The contract's class is the gravest possible: no program makes a call graver than that.
#[test]
fn a_program_makes_no_call_graver_than_its_contract() {
    let behaviour = json!({ "mutability": "MUTATES", "action": "OVERWRITE", "output_domain": "DATA" });
    let effect = json!({ "kind": "sqlite", "decides_class": true });
    let mut changes = querying(false, &effect, &behaviour);
    changes.push(("/transactional/side_effect_class", json!("LOW_RISK_INTERNAL")));
    let permit = judged(&admitted(&changes), &json!({ "query": "insert into t values (1)" }), Vec::new()).unwrap();
    assert_eq!(permit.side_effect_class(), SideEffectClass::LowRiskInternal);
}
