//! What passes, what is refused at which gate, and with which words.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_contract::{
    GateName, TaxonomyClass,
    record::{Decision, Verdict},
    refusal::EffectKnowledge,
};

use super::{admitted, booking, call, golden, passed, proposal, refused};
use crate::{CompiledContract, GateLimits, ResolvedCall, Stopwatch, Trail, mandate::CallOrigin, sequence::pass};

const ALL: [GateName; 10] = [
    GateName::Parse,
    GateName::Structure,
    GateName::Types,
    GateName::Bounds,
    GateName::Semantics,
    GateName::Behaviour,
    GateName::Scope,
    GateName::Policy,
    GateName::State,
    GateName::Confirmation,
];

#[test]
fn arguments_that_keep_the_contract_pass_with_defaults_as_canonical_bytes() {
    let contract = admitted(&[]);
    let permit = passed(&contract, &booking(&json!({ "guests": [{ "email": "a@example.test" }], "price": 1.50 })));
    assert_eq!(
        std::str::from_utf8(permit.arguments().bytes()).unwrap(),
        r#"{"end":"2026-11-15T10:00:00Z","guests":[{"email":"a@example.test","remote":false}],"price":1.5,"priority":"normal","room":"room_1","start":"2026-11-15T09:00:00Z"}"#
    );
    assert_eq!(permit.contract().digest(), contract.digest());
}

#[test]
fn absent_arguments_are_an_empty_object() {
    let contract = admitted(&[
        ("/affordance/input_schema", json!({ "type": "object" })),
        ("/rules", json!([])),
        ("/affordance/examples", json!([])),
    ]);
    assert_eq!(call(&contract, Bytes::new()).0.unwrap().arguments().bytes(), "{}".as_bytes());
    assert_eq!(call(&contract, "{}").0.unwrap().arguments().bytes(), "{}".as_bytes());
    let refusal = refused(&admitted(&[]), Bytes::new());
    assert_eq!((refusal.gate, refusal.field_errors.len()), (GateName::Structure, 3));
}

/// One row for each way to be refused: the gate, what it is about, the arguments.
fn rows() -> Vec<(GateName, &'static str, String)> {
    let with = |changes: Value| booking(&changes).to_string();
    vec![
        (GateName::Parse, "not JSON", "{'room': 1}".to_owned()),
        (GateName::Parse, "empty text is absent, white space is not", " ".to_owned()),
        (GateName::Parse, "an array", "[]".to_owned()),
        (GateName::Parse, "an object inside a string", json!(booking(&json!({})).to_string()).to_string()),
        (GateName::Parse, "null", "null".to_owned()),
        (GateName::Parse, "a duplicate key", r#"{"room":"room_1","room":"room_2"}"#.to_owned()),
        (GateName::Parse, "an integer that loses digits", r#"{"seats":9007199254740993}"#.to_owned()),
        (GateName::Parse, "a lone surrogate", r#"{"room":"\ud800"}"#.to_owned()),
        (GateName::Parse, "too deep", format!("{}{}", r#"{"a":"#.repeat(9), "}".repeat(9))),
        (GateName::Parse, "too long", with(json!({ "note": "x".repeat(5_000) }))),
        (
            GateName::Structure,
            "a missing and a misspelt field",
            r#"{"room":"room_1","startt":"x","end":"y"}"#.to_owned(),
        ),
        (GateName::Structure, "unknown fields, nested too", with(json!({ "colour": 1, "guests": [{ "mail": "x" }] }))),
        (
            GateName::Types,
            "two wrong types, although a bound is broken too",
            with(json!({ "seats": "4", "price": "1", "room": "x" })),
        ),
        (
            GateName::Bounds,
            "a pattern, an option, a range, a length",
            with(json!({ "room": "1", "priority": "hihg", "seats": 41, "note": "n".repeat(21) })),
        ),
        (
            GateName::Bounds,
            "a format and a count",
            with(
                json!({ "start": "today", "guests": [{ "email": "a" }, { "email": "b@x.test" }, { "email": "c@x.test" }, { "email": "d@x.test" }] }),
            ),
        ),
        (GateName::Semantics, "two rules", with(json!({ "end": "2026-11-15T09:00:00Z", "price": 0 }))),
        (GateName::Semantics, "a rule that cannot be decided", with(json!({ "priority": "high" }))),
    ]
}

#[test]
fn every_refusal_in_its_words() {
    let contract = admitted(&[]);
    let mut told = serde_json::Map::new();
    for (gate, about, arguments) in rows() {
        let refusal = refused(&contract, arguments);
        assert_eq!(refusal.gate, gate, "{about}: {refusal:?}");
        assert_eq!(refusal.effect, EffectKnowledge::None);
        assert!(!refusal.field_errors.is_empty() && !refusal.hint.is_empty(), "{about}");
        told.insert(format!("{gate}: {about}"), json!(refusal));
    }
    golden("refusals.json", &Value::Object(told));
}

#[test]
fn each_gate_has_its_class() {
    let contract = admitted(&[]);
    for (gate, about, arguments) in rows() {
        let class = match gate {
            GateName::Parse => TaxonomyClass::SyntacticParseFail,
            GateName::Structure => TaxonomyClass::StructuralViolation,
            GateName::Types => TaxonomyClass::TypeMismatch,
            GateName::Bounds => TaxonomyClass::OutOfBounds,
            _ => TaxonomyClass::SemanticInvalidity,
        };
        assert_eq!(refused(&contract, arguments).error_code, class, "{about}");
    }
}

/// Every error of the refusing gate is listed, and none of a later gate.
#[test]
fn all_of_one_gate_and_nothing_of_a_later_one() {
    let contract = admitted(&[]);
    let pointers = |arguments: Value| -> (GateName, Vec<String>) {
        let refusal = refused(&contract, arguments.to_string());
        (refusal.gate, refusal.field_errors.into_iter().map(|error| error.pointer).collect())
    };
    let mut arguments = json!({ "guests": [{}], "seats": "x", "priority": "urgent", "colour": 1 });
    let (gate, found) = pointers(arguments.clone());
    assert_eq!((gate, found), (GateName::Structure, owned(&["/colour", "/end", "/guests/0/email", "/room", "/start"])));
    arguments = booking(
        &json!({ "seats": "x", "guests": [{ "email": 1 }], "priority": "urgent", "end": "2020-01-01T00:00:00Z" }),
    );
    assert_eq!(pointers(arguments), (GateName::Types, owned(&["/guests/0/email", "/seats"])));
    arguments = booking(
        &json!({ "seats": 0, "guests": [{ "email": "x" }], "priority": "urgent", "end": "2020-01-01T00:00:00Z" }),
    );
    assert_eq!(pointers(arguments), (GateName::Bounds, owned(&["/guests/0/email", "/priority", "/seats"])));
    arguments = booking(&json!({ "priority": "high", "note": "", "end": "2020-01-01T00:00:00Z", "price": -1 }));
    assert_eq!(pointers(arguments), (GateName::Semantics, owned(&["/end", "/note", ""])));
}

fn owned(pointers: &[&str]) -> Vec<String> {
    pointers.iter().map(|pointer| (*pointer).to_owned()).collect()
}

#[test]
fn the_trail_has_a_verdict_of_each_gate_that_was_reached_and_of_no_other() {
    let contract = admitted(&[]);
    for (gate, about, arguments) in rows() {
        let (_, verdicts) = call(&contract, arguments);
        let reached: Vec<GateName> = verdicts.iter().map(|verdict| verdict.gate).collect();
        let position = ALL.iter().position(|other| *other == gate).unwrap();
        assert_eq!(reached, ALL[..=position], "{about}");
        let (last, before) = verdicts.split_last().unwrap();
        assert_eq!(last.decision, Decision::Refused, "{about}");
        assert!(before.iter().all(|verdict| verdict.decision == Decision::Passed), "{about}");
    }
    let (permit, verdicts) = call(&contract, booking(&json!({})).to_string());
    assert!(permit.is_ok());
    let expected = ALL.map(|gate| Verdict { gate, decision: Decision::Passed, took_us: 1 });
    assert_eq!(verdicts, expected);
}

#[test]
fn the_gateway_does_not_ask_a_tool_that_needs_an_approval() {
    let contract = admitted(&[("/transactional/confirmation_required", json!(true))]);
    let (result, verdicts) = call(&contract, booking(&json!({})).to_string());
    let refusal = *result.unwrap_err();
    assert_eq!((refusal.gate, refusal.error_code), (GateName::Confirmation, TaxonomyClass::ConfirmationMissing));
    assert!(refusal.requires_approval && refusal.fail_closed && !refusal.repairable && !refusal.retryable);
    assert_eq!(verdicts.len(), 10);
    // The gates before it still refuse first.
    assert_eq!(refused(&contract, "{}").gate, GateName::Structure);
}

#[test]
fn limits_are_those_handed_in() {
    let contract = admitted(&[]);
    let arguments = booking(&json!({ "guests": [{ "email": "a@example.test" }] })).to_string();
    let outcome = |limits: GateLimits| {
        let ticks = Still;
        let mut trail = Trail::new(&ticks);
        pass(
            ResolvedCall::new(Box::new(proposal(arguments.clone())), contract.clone()),
            &CallOrigin::Gateway,
            limits,
            &mut trail,
        )
        .map_err(|refusal| refusal.gate)
    };
    let exactly = GateLimits { arguments_bytes_max: arguments.len(), arguments_depth_max: 3 };
    assert!(outcome(exactly).is_ok());
    let shorter = GateLimits { arguments_bytes_max: arguments.len() - 1, ..exactly };
    assert_eq!(outcome(shorter).unwrap_err(), GateName::Parse);
    let shallower = GateLimits { arguments_depth_max: 2, ..exactly };
    assert_eq!(outcome(shallower).unwrap_err(), GateName::Parse);
}

struct Still;

impl Stopwatch for Still {
    fn elapsed_us(&self) -> u64 {
        7
    }
}

/// What an approval signs: the same for the same meaning, different for another tenant, contract or value.
#[test]
fn the_proposal_digest_binds_tenant_contract_and_meaning() {
    let contract = admitted(&[]);
    let digest = |contract: &Arc<CompiledContract>, arguments: &str| {
        call(contract, arguments.to_owned()).0.unwrap().proposal_digest()
    };
    let plain = r#"{"room":"room_1","start":"2026-11-15T09:00:00Z","end":"2026-11-15T10:00:00Z","seats":2}"#;
    let same = r#" { "seats": 2.0, "end":"2026-11-15T10:00:00\u005a", "start":"2026-11-15T09:00:00Z", "priority":"normal", "room":"room_1" } "#;
    assert_eq!(digest(&contract, plain), digest(&contract, same));
    assert_ne!(digest(&contract, plain), digest(&contract, &plain.replace("room_1", "room_2")));
    let other = admitted(&[("/identity/owner", json!("somebody else"))]);
    assert_ne!(digest(&contract, plain), digest(&other, plain));

    let mut elsewhere = proposal(plain);
    Arc::make_mut(&mut elsewhere.caller).tenant = "other".to_owned();
    let ticks = Still;
    let mut trail = Trail::new(&ticks);
    let permit =
        pass(ResolvedCall::new(Box::new(elsewhere), contract.clone()), &CallOrigin::Gateway, super::LIMITS, &mut trail)
            .unwrap();
    assert_ne!(digest(&contract, plain), permit.proposal_digest());
}

/// No refusal contains the value that broke the gate.
#[test]
fn no_refusal_repeats_a_value() {
    const CANARY: &str = "canary-5f1e9";
    let contract = admitted(&[(
        "/rules",
        json!([
            { "id": "time", "rule": "timestamp(args.note) > timestamp(args.start)", "message": "m", "when": "has(args.note)" },
            { "id": "key", "rule": "{'a': 1}[args.note] > 0", "message": "m", "when": "has(args.note)" },
            { "id": "types", "rule": "args.note > 1", "message": "m", "when": "has(args.note)" },
            { "id": "sum", "rule": "args.note + 1 == 2", "message": "m", "when": "has(args.note)" },
            { "id": "number", "rule": "int(args.note) > 0", "message": "m", "when": "has(args.note)" },
            { "id": "index", "rule": "[1][args.note] == 1", "message": "m", "when": "has(args.note)" },
            { "id": "text", "rule": "args.note", "message": "m", "when": "has(args.note)" },
        ]),
    )]);
    let canary = |name: &str| booking(&json!({ name: CANARY })).to_string();
    let mut texts: Vec<String> =
        ["room", "start", "priority", "seats", "price", "guests", "note"].into_iter().map(canary).collect();
    texts.push(format!("{{\"room\": {CANARY}"));
    texts.push(json!([CANARY]).to_string());
    texts.push(json!(CANARY).to_string());
    for text in texts {
        let refusal = refused(&contract, text.clone());
        assert!(!json!(refusal).to_string().contains(CANARY), "{text}: {refusal:#?}");
    }
    assert_eq!(refused(&contract, canary("note")).field_errors.len(), 7);
}

/// Two hundred bytes that would keep a worker busy for longer than any client waits.
#[test]
fn structure_refuses_arguments_that_would_take_exponentially_long() {
    let branch = json!({ "properties": { "c": { "$ref": "#/$defs/node" }, "leaf": { "type": "integer" } } });
    let contract = admitted(&[
        ("/affordance/input_schema/properties/tree", json!({ "$ref": "#/$defs/node" })),
        ("/affordance/input_schema/$defs", json!({ "node": { "oneOf": [branch, branch] } })),
    ]);
    let nested = |depth: usize| (0..depth).fold(json!({ "leaf": "x" }), |inner, _| json!({ "c": inner }));
    let limits = crate::GateLimits { arguments_depth_max: 64, ..super::LIMITS };
    let ticks = super::Ticks(std::sync::atomic::AtomicU64::new(0));
    let mut trail = crate::Trail::new(&ticks);
    let arguments = booking(&json!({ "tree": nested(40) })).to_string();
    let resolved = crate::ResolvedCall::new(Box::new(super::proposal(arguments)), contract.clone());
    let refusal = crate::sequence::pass(resolved, &CallOrigin::Gateway, limits, &mut trail).unwrap_err();
    assert_eq!(refusal.gate, GateName::Structure);
    assert!(refusal.message.starts_with("nested deeper than "), "{}", refusal.message);
    // Less deep arguments get a refusal that says what is wrong.
    let refusal = refused(&contract, booking(&json!({ "tree": nested(4) })).to_string());
    assert!(!refusal.message.starts_with("nested deeper than "), "{}", refusal.message);
}
