//! A claimed name counts against the caller and never for it, and a forbid for an agent that acted before still counts.

use proptest::prelude::*;
use servanda_contract::CallerActor;

use servanda_approval::ApprovalSettings;

use super::{circumstances, decide_as, identity, ids, laws, payment, policies};
use crate::{ListDecision, Policies, PolicyCases, Principal, run_cases};

/// The agents that act for `acme/alice`, the one that acts now first. A name with a `?` is only claimed.
fn acting(policies: &Policies, names: &[&str]) -> Principal {
    let actor = |name: &&str| CallerActor { name: name.trim_end_matches('?').to_owned(), proven: !name.ends_with('?') };
    let actors: Vec<CallerActor> = names.iter().map(actor).collect();
    Principal::acting(policies.vocabulary(), &identity("acme", "alice", &["staff"]), &actors).unwrap()
}

fn allowed(policies: &Policies, names: &[&str]) -> bool {
    let principal = acting(policies, names);
    let allowed = decide_as(policies, &principal, "docs.read", &payment(1)).is_allowed();
    let standing = policies.list_decision(&principal, "docs.read", &circumstances("acme"));
    assert_eq!(standing, if allowed { ListDecision::Allowed } else { ListDecision::Denied }, "{names:?}");
    allowed
}

#[test]
fn a_forbid_on_an_agent_holds_however_its_name_came() {
    for forbid in [
        r#"forbid (principal == Agent::"acme/bot", action, resource);"#,
        r#"forbid (principal in Agent::"acme/bot", action, resource);"#,
        r#"forbid (principal, action, resource) when { principal == Agent::"acme/bot" };"#,
        r#"forbid (principal is Agent, action, resource) when { principal.id == "bot" };"#,
    ] {
        let policies = policies(&format!("permit (principal, action, resource); @id(\"no\") {forbid}"));
        for names in
            [&["bot"][..], &["bot?"], &["x?", "bot"], &["x", "bot"], &["x", "bot?"], &["x?", "bot?"], &["bot?", "x"]]
        {
            assert!(!allowed(&policies, names), "{forbid} {names:?}");
            assert_eq!(ids(&decide_as(&policies, &acting(&policies, names), "docs.read", &payment(1))), ["no"]);
        }
        for names in [&[][..], &["x"], &["x?"], &["y?", "x"]] {
            assert!(allowed(&policies, names), "{forbid} {names:?}");
        }
    }
}

#[test]
fn nothing_is_gained_by_a_claim() {
    type Chains = &'static [&'static [&'static str]];
    let table: [(&str, Chains, Chains); 5] = [
        (
            r#"permit (principal == Agent::"acme/bot", action, resource);"#,
            &[&["bot"], &["bot", "x"], &["bot?", "bot"]],
            &[&[], &["bot?"], &["x?", "bot"], &["bot?", "x"], &["x", "bot"]],
        ),
        (
            r"permit (principal is Agent, action, resource);",
            &[&["bot"], &["x?", "bot"]],
            &[&[], &["bot?"], &["x?", "bot?"]],
        ),
        (
            r#"permit (principal, action, resource); @id("no") forbid (principal, action, resource) unless { principal == Agent::"acme/bot" };"#,
            &[&["bot"]],
            &[&[], &["bot?"], &["x?", "bot"], &["bot?", "x"]],
        ),
        (
            // A person who is forbidden something is not allowed it as an agent of their own naming.
            r#"permit (principal, action, resource); @id("no") forbid (principal == User::"acme/alice", action, resource);"#,
            &[&["bot"], &["x?", "bot"]],
            &[&[], &["bot?"], &["x?", "y?"]],
        ),
        (
            r#"permit (principal in User::"acme/alice", action, resource) unless { principal == Agent::"acme/bot" };"#,
            &[&[], &["x"], &["x?"], &["x", "bot"]],
            &[&["bot"], &["bot?"], &["bot?", "x"], &["x?", "bot"]],
        ),
    ];
    for (text, may, may_not) in table {
        let policies = policies(text);
        for names in may {
            assert!(allowed(&policies, names), "{text} {names:?}");
        }
        for names in may_not {
            assert!(!allowed(&policies, names), "{text} {names:?}");
        }
    }
}

#[test]
fn cases_say_whether_a_name_is_proven() {
    let policies = policies(
        r#"@id("bots") permit (principal == Agent::"acme/bot", action, resource == Tool::"docs.read");
           @id("all") permit (principal, action, resource == Tool::"mail.send");
           @id("no-bots") forbid (principal == Agent::"acme/bot", action, resource == Tool::"mail.send");"#,
    );
    let case = |tool: &str, proven: &str, expect: &str| {
        let (name, args) = (format!("{tool} {proven}"), if tool == "mail.send" { "{ to: x }" } else { "{}" });
        format!(
            "  - {{ name: '{name}', principal: {{ tenant: acme, user: alice, agent: bot{proven} }}, tool: {tool}, args: {args}, expect: {expect} }}\n"
        )
    };
    let text = [
        "cases:\n".to_owned(),
        case("docs.read", "", "allow"),
        case("docs.read", ", proven: true", "allow"),
        case("docs.read", ", proven: false", "deny"),
        case("mail.send", "", "deny"),
        case("mail.send", ", proven: false", "deny"),
    ]
    .concat();
    let outcomes = run_cases(
        &policies,
        &PolicyCases::read("cases.yaml", &text).unwrap(),
        &ApprovalSettings::default(),
        &|_, _| None,
    );
    for outcome in &outcomes {
        assert!(outcome.passed(), "{outcome:?}");
    }
    let told: Vec<String> = [2, 4].iter().map(|at| outcomes[*at].explanation.as_ref().unwrap().to_string()).collect();
    assert!(
        told[0].starts_with("refused: no policy permits it under every name that the caller has or claims"),
        "{}",
        told[0]
    );
    assert!(told[1].contains("`no-bots` of Agent::\"acme/bot\", which is only claimed, holds"), "{}", told[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// A claim allows nothing that was not allowed without it, and nothing that would not be allowed if it were true.
    #[test]
    fn a_claim_only_ever_takes_away(
        text in laws::text(), asked in prop::collection::vec(laws::asked(), 8), before in prop::option::of(any::<bool>()),
        name in prop::sample::select(&["a0", "a1"][..]),
    ) {
        let policies = laws::loaded(&text, crate::BuiltInPermits::Off);
        for asked in asked {
            let user = asked.user();
            let chain = |front: Option<bool>| {
                let actor = |name: &str, proven| CallerActor { name: name.to_owned(), proven };
                let front = front.map(|proven| actor(name, proven));
                let actors: Vec<CallerActor> = front.into_iter().chain(before.map(|proven| actor("a2", proven))).collect();
                let principal = Principal::acting(policies.vocabulary(), &user, &actors).unwrap();
                asked.decide(&policies, &principal).is_allowed()
            };
            if chain(Some(false)) {
                prop_assert!(chain(None), "{asked:?}");
                prop_assert!(chain(Some(true)), "{asked:?}");
            }
        }
    }
}
