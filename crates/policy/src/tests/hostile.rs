//! Malicious inputs end in a refusal or in an error that names its place, never in a panic.

use serde_json::{Value, json};

use super::{decide, failure, identity, payment, policies};
use crate::{PartyIdentity, PolicyDecision, PolicyFindingKind, PolicyRefusalCause, Principal, PrincipalError};

const LOOKS: &str = r#"
    permit (principal, action, resource);
    forbid (principal, action == Action::"call:bank.pay", resource) when { context.args.account == "x" };
"#;

fn with(member: &str, value: Value) -> Value {
    let mut arguments = payment(1);
    arguments.as_object_mut().unwrap().insert(member.to_owned(), value);
    arguments
}

#[test]
fn deep_arguments_are_passed_over_where_nobody_looks() {
    let deep = (0..400).fold(json!(1), |inner, _| json!([inner]));
    assert!(decide(&policies(LOOKS), "bank.pay", &with("anything", deep.clone())).is_allowed());
    let decision = decide(&policies(LOOKS), "bank.pay", &with("account", deep));
    assert!(
        matches!(decision, PolicyDecision::Refused(refused) if matches!(refused.cause(), PolicyRefusalCause::Arguments { .. }))
    );
}

#[test]
fn huge_strings_and_strange_names_are_values_like_others() {
    let policies = policies(LOOKS);
    for account in ["x".repeat(4 << 20), "\u{202e}x\u{0}\"; permit".to_owned(), "\u{10ffff}".to_owned()] {
        assert!(decide(&policies, "bank.pay", &with("account", json!(account))).is_allowed());
    }
    assert!(!decide(&policies, "bank.pay", &with("account", json!("x"))).is_allowed());
    for member in ["__entity", "__extn", "__expr", "type", "id", "", "Var", "context", "\u{0}"] {
        let value = json!({ "type": "User", "id": "acme/root" });
        let decision = decide(&policies, "bank.pay", &with(member, value));
        assert!(decision.is_allowed(), "{member:?} is not looked at");
    }
}

#[test]
fn an_argument_never_becomes_an_entity() {
    let text =
        r#"permit (principal, action == Action::"call:bank.pay", resource) when { context.args.to.name == "b" };"#;
    for to in [
        json!({ "__entity": { "type": "User", "id": "acme/root" } }),
        json!({ "name": { "__entity": { "type": "User", "id": "acme/root" } } }),
        json!({ "name": { "__extn": { "fn": "decimal", "arg": "1.0" } } }),
    ] {
        let decision = decide(&policies(text), "bank.pay", &with("to", to));
        assert!(
            matches!(decision, PolicyDecision::Refused(refused) if matches!(refused.cause(), PolicyRefusalCause::Arguments { .. }))
        );
    }
}

#[test]
fn principals_cannot_pass_for_others() {
    let text = r#"permit (principal == User::"acme/root", action, resource);"#;
    let policies = policies(text);
    for (tenant, id) in [("acme", "root\" "), ("acme", "x/root"), ("acme", "Root"), ("rival", "root")] {
        let principal = Principal::user(policies.vocabulary(), &identity(tenant, id, &[])).unwrap();
        assert!(!super::decide_as(&policies, &principal, "docs.read", &payment(1)).is_allowed(), "{tenant} {id}");
    }
    for tenant in ["", "acme/", "/", "acme/x"] {
        let error = Principal::user(policies.vocabulary(), &identity(tenant, "root", &[])).unwrap_err();
        assert!(matches!(error, PrincipalError::Tenant { .. }), "{tenant}");
    }
    let many =
        PartyIdentity { groups: (0..257).map(|group| format!("g{group}")).collect(), ..identity("acme", "root", &[]) };
    assert!(matches!(Principal::user(policies.vocabulary(), &many).unwrap_err(), PrincipalError::Memberships { .. }));
}

#[test]
fn policies_that_are_deep_or_long_are_refused_or_taken() {
    let deep = format!("permit (principal, action, resource) when {{ {}true{} }};", "(".repeat(500), ")".repeat(500));
    assert_eq!(failure(&deep).findings()[0].kind, PolicyFindingKind::Limit);
    // Cedar recurses along chains too, and a chain that is too long would end the process.
    for unit in ["resource.mutates && ", "context.tenant == \"a\" || ", "context.args has to && ", "1 == 1 || "] {
        let with =
            |count: usize| format!("permit (principal, action, resource) when {{ {}true }};", unit.repeat(count));
        assert_eq!(policies(&with(64)).count(), 4, "{unit}");
        assert_eq!(failure(&with(65)).findings()[0].kind, PolicyFindingKind::Limit, "{unit}");
    }
    for unit in [".args", " + 1", " - 1", " * 1", "[\"a\"]"] {
        let with =
            |count: usize| format!("permit (principal, action, resource) when {{ context{} }};", unit.repeat(count));
        assert_eq!(failure(&with(31)).findings()[0].kind, PolicyFindingKind::Type, "{unit}");
        assert_eq!(failure(&with(33)).findings()[0].kind, PolicyFindingKind::Limit, "{unit}");
    }
    for (unit, end) in [("if true then true else ", ""), ("!", "")] {
        let long = format!("permit (principal, action, resource) when {{ {}true{end} }};", unit.repeat(33));
        assert_eq!(failure(&long).findings()[0].kind, PolicyFindingKind::Limit, "{unit}");
    }
    let unclosed = "permit (principal, action, resource) when { \"";
    assert_eq!(failure(unclosed).findings()[0].kind, PolicyFindingKind::Syntax);
    assert_eq!(failure("\u{feff};;; ü").findings()[0].line, 1);
}
