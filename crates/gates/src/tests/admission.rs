//! A contract is admitted completely or not at all, and every conjunct that fails is named.

use serde_json::{Value, json};
use servanda_contract::admission::Conjunct;

use super::{admitted, rejected};

fn conjuncts(changes: &[(&str, Value)]) -> Vec<Conjunct> {
    let mut conjuncts: Vec<Conjunct> = rejected(changes).failures.into_iter().map(|failure| failure.conjunct).collect();
    conjuncts.dedup();
    conjuncts
}

#[test]
fn a_contract_that_breaks_every_conjunct_lists_every_conjunct() {
    let mut found = conjuncts(&[
        ("/error_contract/repairable_errors", json!(["OOPS"])),
        ("/identity/version", json!("one")),
        ("/security/required_scopes", json!([])),
        ("/execution", json!(null)),
        ("/effect", json!(null)),
        ("/observability/audit_required", json!(false)),
        ("/affordance/examples", json!([{ "description": "none", "arguments": {} }])),
        ("/affordance/title", json!("Book\u{200b}")),
    ]);
    found.sort();
    assert_eq!(
        found,
        [
            Conjunct::SchemaValid,
            Conjunct::VersionRegistered,
            Conjunct::AuthPolicyDefined,
            Conjunct::TimeoutClassAssigned,
            Conjunct::IdempotencySpecified,
            Conjunct::MutationClassLabeled,
            Conjunct::ObservabilityInstrumented,
            Conjunct::ContractTestsPassing,
            Conjunct::TextLegible,
        ]
    );
}

#[test]
fn examples_are_the_contract_s_own_tests() {
    let example =
        |arguments: Value| [("/affordance/examples", json!([{ "description": "x", "arguments": arguments }]))];
    let reason = |arguments: Value| rejected(&example(arguments)).failures[0].reason.clone();
    let good = json!({ "room": "room_1", "start": "2026-11-15T09:00:00Z", "end": "2026-11-15T10:00:00Z" });
    admitted(&example(good.clone()));
    assert_eq!(reason(json!({})), "example `x`: `end` is missing: string (required)");
    let mut backwards = good;
    backwards["end"] = json!("2026-11-15T08:00:00Z");
    assert_eq!(reason(backwards), "example `x`: a meeting ends after it starts (rule `ends_after_it_starts`)");
}

/// Examples that cannot be tried count as failed.
#[test]
fn examples_without_a_schema_to_try_them_do_not_pass() {
    let changes = [("/affordance/input_schema", json!({ "type": "array" }))];
    assert_eq!(conjuncts(&changes), [Conjunct::SchemaValid, Conjunct::ContractTestsPassing]);
}

#[test]
fn rules_that_cannot_be_used_are_listed_one_by_one() {
    let rejection = rejected(&[(
        "/rules",
        json!([
            { "id": "one", "rule": "args.", "message": "m" },
            { "id": "two", "rule": "user.name == 'x'", "message": "m" },
            { "id": "three", "rule": "true", "when": "now() > 1", "message": "m" },
        ]),
    )]);
    let reasons: Vec<&str> = rejection.failures.iter().map(|failure| failure.reason.as_str()).collect();
    assert!(reasons[0].starts_with("rule `one`: does not compile: "), "{reasons:?}");
    assert_eq!(reasons[1], "rule `two`: knows only `args`, not `user`");
    assert_eq!(reasons[2], "rule `three`: knows no function `now`");
    assert!(
        rejection.to_string().starts_with("contract `office.book_room` is not admitted: SchemaValid: "),
        "{rejection}"
    );
}

#[test]
fn rules_over_arguments_that_can_never_be_there_are_refused() {
    let rules = |rule: &str, when: Option<&str>| {
        let mut rules = json!([{ "id": "r", "rule": rule, "message": "m" }]);
        if let Some(when) = when {
            rules[0]["when"] = json!(when);
        }
        ("/rules", rules)
    };
    let none = ("/affordance/examples", json!([]));
    for changes in [
        rules("args.endd > args.start", None),
        rules("true", Some("has(args.endd)")),
        rules("args.guests.all(guest, guest.email != args.endd)", None),
    ] {
        let reasons: Vec<String> =
            rejected(&[changes, none.clone()]).failures.into_iter().map(|it| it.reason).collect();
        assert_eq!(reasons, ["rule `r`: the input schema declares no `endd`"]);
    }
    // A member of a member, and a loop variable of the same name, are not checked against the schema.
    admitted(&[rules("args.guests.all(args, args.endd != '')", None), none.clone()]);
    // If the schema allows additional properties, any argument may be there.
    let open = ("/affordance/input_schema/additionalProperties", json!(true));
    admitted(&[rules("args.endd != ''", None), open, none.clone()]);
    let pattern = ("/affordance/input_schema/patternProperties", json!({ "^end": {} }));
    admitted(&[rules("args.endd != ''", None), pattern, none.clone()]);
    let part = ("/affordance/input_schema/allOf", json!([{ "properties": { "endd": {} } }]));
    admitted(&[rules("args.endd != ''", None), part, none]);
}
