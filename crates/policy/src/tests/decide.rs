//! Forbid wins, errors refuse, unknown things refuse, and a shadow permits nothing.

use serde_json::json;
use servanda_contract::tool::{DataClassification, SideEffectClass};

use servanda_approval::ApprovalSettings;

use super::{canonical, circumstances, contracts, decide, decide_as, identity, ids, load_in, payment, policies};
use crate::{BuiltInPermits, ListDecision, PolicyCall, PolicyDecision, PolicyRefusalCause, Principal, ShadowPolicies};

fn cause(decision: &PolicyDecision) -> &PolicyRefusalCause {
    match decision {
        PolicyDecision::Refused(refused) => refused.cause(),
        PolicyDecision::Allowed(_) => panic!("allowed by {:?}", ids(decision)),
    }
}

#[test]
fn forbid_wins_over_any_number_of_permits() {
    let text = r#"
        @id("yes") permit (principal, action, resource);
        @id("yes too") permit (principal == User::"acme/alice", action, resource == Tool::"bank.pay");
        @id("no") forbid (principal in Group::"acme/staff", action == Action::"call:bank.pay", resource)
          when { context.args.amount_cents > 100 };
    "#;
    let policies = policies(text);
    assert_eq!(ids(&decide(&policies, "bank.pay", &payment(100))), ["yes", "yes too"]);
    let decision = decide(&policies, "bank.pay", &payment(101));
    assert_eq!(*cause(&decision), PolicyRefusalCause::Forbidden);
    assert_eq!(ids(&decision), ["no"]);
}

#[test]
fn an_error_in_a_forbid_refuses_where_cedar_alone_would_allow() {
    // Adding to the largest amount overflows: Cedar skips the policy, and the permit would let the call through.
    let text = r#"
        @id("yes") permit (principal, action, resource);
        @id("limit") forbid (principal, action == Action::"call:bank.pay", resource)
          when { context.args.amount_cents + 9223372036854775807 > 100 };
    "#;
    let decision = decide(&policies(text), "bank.pay", &payment(1));
    assert!(matches!(cause(&decision), PolicyRefusalCause::ErrorInPolicy { errors } if errors.len() == 1));
    assert_eq!(ids(&decision), ["limit"]);
    assert!(decide(&policies(text), "docs.read", &payment(1)).is_allowed(), "not looked at, so it cannot fail");
}

#[test]
fn an_error_in_a_permit_refuses_too() {
    let text = r#"
        @id("yes") permit (principal, action, resource);
        @id("bad") permit (principal, action, resource) when { resource.risk * 9223372036854775807 > 0 };
    "#;
    let decision = decide(&policies(text), "bank.pay", &payment(1));
    assert!(matches!(cause(&decision), PolicyRefusalCause::ErrorInPolicy { .. }));
}

#[test]
fn a_tool_that_is_not_known_is_refused_and_not_listed() {
    let policies = policies("permit (principal, action, resource);");
    assert_eq!(*cause(&decide(&policies, "nobody.knows", &json!({}))), PolicyRefusalCause::UnknownTool);
    let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &[])).unwrap();
    assert_eq!(policies.list_decision(&principal, "nobody.knows", &circumstances("acme")), ListDecision::Denied);
}

#[test]
fn what_holds_for_a_user_or_a_group_holds_for_their_agents() {
    let text = r#"
        permit (principal in User::"acme/alice", action, resource == Tool::"docs.read");
        permit (principal in Group::"acme/staff", action, resource == Tool::"bank.pay");
        permit (principal == User::"acme/alice", action, resource == Tool::"mail.send");
    "#;
    let policies = policies(text);
    let (alice, bot) = (identity("acme", "alice", &["staff"]), identity("acme", "bot", &[]));
    let for_alice = Principal::agent(policies.vocabulary(), &bot, Some(&alice)).unwrap();
    let alone = Principal::agent(policies.vocabulary(), &bot, None).unwrap();
    let stranger = Principal::user(policies.vocabulary(), &identity("rival", "alice", &["staff"])).unwrap();
    for (tool, arguments, expected) in [
        ("docs.read", payment(1), [true, false, false]),
        ("bank.pay", payment(1), [true, false, false]),
        ("mail.send", json!({ "to": "x" }), [false, false, false]),
    ] {
        let got = [&for_alice, &alone, &stranger]
            .map(|principal| decide_as(&policies, principal, tool, &arguments).is_allowed());
        assert_eq!(got, expected, "{tool}");
    }
}

#[test]
fn a_rule_about_all_tools_may_look_at_an_argument_that_some_have() {
    let text = r#"
        permit (principal, action, resource);
        @id("few") forbid (principal, action, resource)
          when { context.args has amount_cents && context.args.amount_cents > 5 };
    "#;
    let policies = policies(text);
    assert!(!decide(&policies, "bank.pay", &payment(6)).is_allowed());
    assert!(decide(&policies, "bank.pay", &payment(5)).is_allowed());
    assert!(decide(&policies, "mail.send", &json!({ "to": "x" })).is_allowed());
}

#[test]
fn circumstances_are_seen() {
    let text = r#"
        permit (principal, action, resource) when {
          context.env.name == "production" && context.tenant == "acme" && context.env.time_ms == 1794735332007 &&
          context.env.time >= datetime("2026-11-15T09:35:32.007Z") && context has intent && context.intent == "read" &&
          context has task && context.task == "t" && context has client && context.client == "c"
        };
    "#;
    let policies = policies(text);
    let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &[])).unwrap();
    let mut circumstances = circumstances("acme");
    let arguments = canonical(&json!({ "to": "x" }));
    let allowed = |circumstances: &crate::CallCircumstances<'_>| {
        policies
            .decide(&PolicyCall { principal: &principal, tool: "mail.send", arguments: &arguments, circumstances })
            .is_allowed()
    };
    assert!(!allowed(&circumstances));
    circumstances.intent = Some("read");
    circumstances.task = Some("t");
    circumstances.client = Some("c");
    assert!(allowed(&circumstances));
}

#[test]
fn lists_say_what_can_be_said_without_a_call() {
    let text = r#"
        permit (principal, action, resource == Tool::"docs.read");
        permit (principal, action == Action::"call:bank.pay", resource) when { context.args.amount_cents < 10 };
        permit (principal, action == Action::"call:mail.send", resource)
          when { principal.id == "bob" && context.args.to == "x" };
    "#;
    let policies = policies(text);
    let standing = |id: &str| -> Vec<ListDecision> {
        let principal = Principal::user(policies.vocabulary(), &identity("acme", id, &[])).unwrap();
        let stands = |tool: &str| policies.list_decision(&principal, tool, &circumstances("acme"));
        policies.vocabulary().tool_names().map(stands).collect()
    };
    assert_eq!(standing("alice"), [ListDecision::Depends, ListDecision::Allowed, ListDecision::Denied]);
    assert_eq!(standing("bob"), [ListDecision::Depends, ListDecision::Allowed, ListDecision::Depends]);
}

#[test]
fn a_shadow_tells_what_enforcement_would_have_done_and_is_marked() {
    let vocabulary = super::vocabulary_of(&contracts());
    let text = "@id(\"no\") @reason(\"not today\") forbid (principal, action, resource);";
    let shadow = ShadowPolicies::new(load_in(&vocabulary, text, BuiltInPermits::On).unwrap());
    let principal = Principal::user(&vocabulary, &identity("acme", "alice", &[])).unwrap();
    let (arguments, circumstances) = (canonical(&payment(1)), circumstances("acme"));
    let call =
        PolicyCall { principal: &principal, tool: "bank.pay", arguments: &arguments, circumstances: &circumstances };
    let told = serde_json::to_value(shadow.would_have(&call, &ApprovalSettings::default(), None).to_record()).unwrap();
    assert_eq!(told, json!({ "would_have": "refused", "cause": "forbidden", "by": ["no"] }));
    let nothing = ShadowPolicies::new(load_in(&vocabulary, "", BuiltInPermits::On).unwrap());
    let told = serde_json::to_value(nothing.would_have(&call, &ApprovalSettings::default(), None).to_record()).unwrap();
    assert_eq!(told, json!({ "would_have": "allowed", "by": ["default.writes"] }));
}

#[test]
fn what_a_principal_remembers_of_one_world_is_not_taken_for_another() {
    let text = "permit (principal, action, resource) when { resource.risk < 4 };";
    let load = |class| {
        let contract = super::tool("t", class, DataClassification::Public);
        load_in(&super::vocabulary_of(&[contract]), text, BuiltInPermits::Off).unwrap()
    };
    let (mild, grave) = (load(SideEffectClass::ReadOnly), load(SideEffectClass::CriticalMutation));
    let principal = Principal::user(mild.vocabulary(), &identity("acme", "alice", &[])).unwrap();
    for _ in 0..2 {
        assert!(decide_as(&mild, &principal, "t", &payment(1)).is_allowed());
        assert!(!decide_as(&grave, &principal, "t", &payment(1)).is_allowed());
    }
}

#[test]
fn an_argument_that_no_policy_can_hold_keeps_a_tool_from_being_listed_as_always_allowed() {
    let text = r#"
        permit (principal, action, resource);
        forbid (principal, action == Action::"call:bank.pay", resource)
          when { principal.id == "bob" && context.args has rate && context.args.rate.lessThan(decimal("1.0")) };
    "#;
    let policies = policies(text);
    let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &[])).unwrap();
    let mut arguments = payment(1);
    arguments["rate"] = json!(1.000_01);
    let decision = decide_as(&policies, &principal, "bank.pay", &arguments);
    assert!(matches!(cause(&decision), PolicyRefusalCause::Arguments { .. }));
    assert_eq!(policies.list_decision(&principal, "bank.pay", &circumstances("acme")), ListDecision::Depends);
    assert_eq!(policies.list_decision(&principal, "docs.read", &circumstances("acme")), ListDecision::Allowed);
}

#[test]
fn comments_and_strings_in_conditions_are_what_cedar_takes_them_for() {
    let text = "permit (principal, action, resource) // when { false }\n\
        when { resource.owner != \"} unless { \\\" //\" // } don't \"\n }\n\
        unless // { true\n { principal.id == \"bob\" // the end\n };";
    let policies = policies(text);
    assert!(decide(&policies, "docs.read", &payment(1)).is_allowed());
    let bob = Principal::user(policies.vocabulary(), &identity("acme", "bob", &[])).unwrap();
    assert!(!decide_as(&policies, &bob, "docs.read", &payment(1)).is_allowed());
}

#[test]
fn a_carriage_return_ends_a_comment_as_it_does_for_cedar() {
    let rules = "permit (principal, action, resource);\r// Nobody pays.\r@id(\"no\") forbid (principal, action, resource) // all\r\
        when { principal.id == \"alice\" // and\r && resource.risk > 0 }; // done\r";
    for text in
        [rules.to_owned(), format!("// My rules.\r{rules}"), rules.replace('\r', "\r\n"), rules.replace('\r', "\n")]
    {
        let policies = policies(&text);
        assert_eq!(policies.written_count(), 2, "{text:?}");
        assert_eq!(ids(&decide(&policies, "bank.pay", &payment(1))), ["no"], "{text:?}");
        assert!(decide(&policies, "docs.read", &payment(1)).is_allowed(), "{text:?}");
    }
    let finding = &super::failure("// one\r// two\r\r  permit;").findings()[0].clone();
    assert_eq!((finding.line, finding.column > 2), (4, true), "{finding}");
}

#[test]
fn policies_and_principals_can_be_shared_between_threads() {
    const fn shared<T: Send + Sync>() {}
    shared::<crate::Policies>();
    shared::<Principal>();
}

#[test]
fn a_policy_that_fails_before_it_sees_the_call_denies_the_tool_in_lists() {
    let text = r"
        permit (principal, action, resource);
        forbid (principal, action, resource)
          when { resource.risk * 9223372036854775807 > 0 && context.env.time_ms > 5 };
    ";
    let policies = policies(text);
    let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &[])).unwrap();
    assert_eq!(policies.list_decision(&principal, "bank.pay", &circumstances("acme")), ListDecision::Denied);
    assert!(!decide_as(&policies, &principal, "bank.pay", &payment(1)).is_allowed());
}
