//! Arguments are converted exactly, or the call is refused. No error quotes a value.

use serde_json::{Value, json};

use super::{decide, payment, policies};
use crate::{PolicyDecision, PolicyRefusalCause};

fn with(member: &str, value: Value) -> Value {
    let mut arguments = payment(1);
    arguments.as_object_mut().unwrap().insert(member.to_owned(), value);
    arguments
}

/// Whether `bank.pay` is allowed by a permit with this condition.
fn holds(condition: &str, arguments: &Value) -> Result<bool, String> {
    let text = format!("permit (principal, action == Action::\"call:bank.pay\", resource) when {{ {condition} }};");
    match decide(&policies(&text), "bank.pay", arguments) {
        PolicyDecision::Allowed(_) => Ok(true),
        PolicyDecision::Refused(refused) => match refused.cause() {
            PolicyRefusalCause::NotPermitted => Ok(false),
            PolicyRefusalCause::Arguments { reason } => Err(reason.clone()),
            other => panic!("{other:?}"),
        },
    }
}

#[test]
fn every_type_is_seen_as_it_is() {
    let cases = [
        ("context.args.account == \"a\"", payment(1), true),
        ("context.args.to.name == \"b\"", payment(1), true),
        ("context.args.to has iban", payment(1), false),
        ("context.args has rate && context.args.rate.greaterThan(decimal(\"1.5\"))", with("rate", json!(1.5001)), true),
        ("context.args has rate && context.args.rate.greaterThan(decimal(\"1.5\"))", with("rate", json!(1.5)), false),
        ("context.args has rate && context.args.rate == decimal(\"3.0\")", with("rate", json!(3)), true),
        ("context.args has rate && context.args.rate == decimal(\"-0.25\")", with("rate", json!(-0.25)), true),
        ("context.args has urgent && context.args.urgent", with("urgent", json!(true)), true),
        ("context.args has memo", with("memo", json!("x")), true),
        ("context.args has memo", with("memo", Value::Null), false),
        ("context.args has due && context.args.due == \"x\"", with("due", json!("x")), true),
        ("context.args has due", with("due", Value::Null), false),
        ("context.args has labels && context.args.labels.contains(\"q\")", with("labels", json!(["p", "q"])), true),
        ("context.args has labels && context.args.labels.isEmpty()", with("labels", json!([])), true),
        (
            "context.args has parts && context.args.parts.contains({ cents: 2 })",
            with("parts", json!([{ "cents": 1 }, { "cents": 2 }])),
            true,
        ),
        ("context.args has channel && context.args.channel == \"web\"", with("channel", json!("web")), true),
        ("context.args[\"__entity\"] == \"x\"", with("__entity", json!("x")), true),
        ("context.args[\"a quote \\\" and ü\"] == \"ü\"", with("a quote \" and ü", json!("ü")), true),
        ("context.args has tree && context.args.tree has label", with("tree", json!({ "label": "l" })), true),
    ];
    for (condition, arguments, expected) in cases {
        let condition = guarded(condition);
        assert_eq!(holds(&condition, &arguments), Ok(expected), "{condition}");
    }
}

/// A policy has to ask first whether an optional attribute is present.
fn guarded(condition: &str) -> String {
    match condition.split_once("[\"").and_then(|(_, rest)| rest.split_once("\"] ==")) {
        Some((name, _)) => format!("context.args has \"{name}\" && {condition}"),
        None => condition.to_owned(),
    }
}

#[test]
fn what_cannot_be_held_exactly_is_refused_where_a_policy_looks_at_it_and_nowhere_else() {
    let looks = "context.args has rate && context.args.rate.lessThan(decimal(\"5.0\"))";
    for value in [json!(1.00001), json!(1e300), json!(1e-9), json!(1_000_000_000_000_000_i64)] {
        let reason = holds(looks, &with("rate", value.clone())).unwrap_err();
        assert!(!reason.contains("00001") && !reason.contains("1000000"), "{reason}");
        let beyond = value.as_f64().unwrap() > 2.0;
        assert_eq!(reason.contains("beyond"), beyond, "{reason}");
        assert_eq!(holds("context.args.amount_cents == 1", &with("rate", value)), Ok(true));
    }
    assert!(holds("context.args.amount_cents > 5", &with("amount_cents", json!(1e21))).is_err());
}

#[test]
fn what_does_not_fit_its_type_is_refused_without_being_repeated() {
    let secret = "hunter2";
    for (condition, arguments) in [
        ("context.args.amount_cents == 1", with("amount_cents", json!(secret))),
        ("context.args.amount_cents == 1", with("amount_cents", json!([secret]))),
        ("context.args.amount_cents == 1", with("amount_cents", json!({ "x": secret }))),
        ("context.args.account == \"a\"", with("account", json!(7_041_776))),
        ("context.args.account == \"a\"", with("account", Value::Null)),
        ("context.args.account == \"a\"", json!({ "to": { "name": secret } })),
        ("context.args.to.name == \"a\"", with("to", json!({ "iban": secret }))),
        ("context.args.account == \"a\"", json!([secret])),
    ] {
        let reason = holds(condition, &arguments).unwrap_err();
        assert!(!reason.contains(secret) && !reason.contains("7041776"), "{reason}");
    }
}
