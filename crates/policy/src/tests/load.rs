//! Mistakes in policies are reported with file and line, and nothing is loaded.

use super::{contracts, decide, failure, golden, load_in, payment, policies, vocabulary_of};
use crate::{BuiltInPermits, Policies, PolicyFindingKind, PolicyLimits, PolicySource};

/// One mistake per policy.
const MISTAKES: &str = r#"// Comments and "strings; with" semicolons do not count.
@id("fine") permit (principal, action, resource) when { resource.owner == "a;b // c \" d" };

@id("syntax")
permit (principal, action, resource) when { resource.risk > };

@id("attribute")
forbid (principal, action, resource)
when { resource.colour == "red" };

@id("type") forbid (principal, action, resource) when { resource.risk > "high" };

@id("unknown action") forbid (principal, action == Action::"call:bank.pya", resource);

@id("group as action") forbid (principal, action == Action::"call", resource);

@id("unknown tool") forbid (principal, action, resource == Tool::"bank.pya");

@id("unknown upstream") forbid (principal, action, resource in Upstream::"bnak");

@id("two tools") forbid (principal, action == Action::"call:bank.pay", resource == Tool::"mail.send");

@id("no tenant") permit (principal == User::"alice", action, resource);

@id("no tenant inside") permit (principal, action, resource) when { principal in Group::"staff" };

@id("optional") forbid (principal, action == Action::"call:bank.pay", resource) when { context.args.memo == "x" };

@id("untyped") forbid (principal, action == Action::"call:bank.pay", resource) when { context.args.either == "x" };

@id("arguments of all") forbid (principal, action, resource) when { context.args.amount_cents > 5 };

@id("untyped of one") forbid (principal, action, resource)
when { context.args has either && context.args.either == "x" };

@id("types differ") forbid (principal, action, resource) when { context.args has to && context.args.to == "x" };

@id("impossible") forbid (principal, action, resource) when { resource.risk > 3 && false };

@id("others are not looked into") forbid (principal, action, resource) when { User::"acme/bob".id == "bob" };

@id("fine") forbid (principal, action, resource);

@id("template") permit (principal == ?principal, action, resource);

@id("looks alike") permit (principal, action, resource) when { resource.owner == "sаme" };

permit (principal, action, resource)
"#;

#[test]
fn every_mistake_of_a_file_is_told_with_its_line() {
    let failure = failure(MISTAKES);
    golden("mistakes.txt", &format!("{failure}\n"));
    for finding in failure.findings() {
        let line = MISTAKES.lines().nth(finding.line - 1).unwrap();
        assert!(!line.trim().is_empty(), "{finding}");
        if let Some(policy) = &finding.policy {
            let before = MISTAKES.lines().take(finding.line).collect::<Vec<_>>().join("\n");
            assert!(before.contains(&format!("@id(\"{policy}\")")), "{finding}");
        }
    }
}

#[test]
fn what_may_never_apply_can_be_said() {
    for text in [
        r#"@may_never_apply("it comes and goes") forbid (principal, action, resource == Tool::"gone");"#,
        r#"@may_never_apply("for later") forbid (principal, action, resource) when { false };"#,
    ] {
        assert_eq!(policies(text).count(), 4, "{text}");
        let without = text.split_once(") ").unwrap().1;
        assert_eq!(failure(without).findings()[0].kind, PolicyFindingKind::NeverApplies, "{without}");
    }
    let still = failure("@may_never_apply(\"no\") forbid (principal, action, resource) when { resource.x };");
    assert_eq!(still.findings()[0].kind, PolicyFindingKind::Type, "only that is excused");
}

/// A policy that can never apply applies to nothing, not to everything.
#[test]
fn what_never_applies_decides_nothing() {
    for scope in [
        "principal, action == Action::\"call\", resource",
        "principal, action, resource is Upstream",
        "principal, action, resource == Upstream::\"bank\"",
        "principal, action, resource is Upstream in Upstream::\"bank\"",
        "principal, action, resource in Group::\"acme/staff\"",
        "principal is Upstream, action, resource",
        "principal == Group::\"acme/staff\", action, resource",
    ] {
        let permit = policies(&format!("@may_never_apply(\"why\") permit ({scope});"));
        assert!(!decide(&permit, "bank.pay", &payment(1)).is_allowed(), "{scope}");
        let rules =
            format!("permit (principal, action, resource); @id(\"no\") @may_never_apply(\"why\") forbid ({scope});");
        assert!(decide(&policies(&rules), "bank.pay", &payment(1)).is_allowed(), "{scope}");
    }
}

/// A word that an attribute never has: the policy would silently never hold.
#[test]
fn a_misspelt_word_of_a_closed_set_is_found() {
    let rows = [
        (r#"resource.side_effect_class == "CRITICAL_MUTATON""#, "did you mean \"CRITICAL_MUTATION\"?"),
        (r#""READONLY" != resource.side_effect_class"#, "did you mean \"READ_ONLY\"?"),
        (r#"["READ_ONLY", "NONE"].contains(resource.side_effect_class)"#, "it is one of READ_ONLY, EPHEMERAL_WRITE"),
        (r#"principal.id == "x" && !(resource.data_classification == "sekret")"#, "did you mean \"secret\"?"),
        (r#"resource.egress == "anywhere""#, "it is one of none, allowlisted_domains"),
        (r#"context has question && context.question == "forms""#, "did you mean \"form\"?"),
    ];
    for (condition, hint) in rows {
        let found = failure(&format!("forbid (principal, action, resource) when {{ {condition} }};"));
        let finding = &found.findings()[0];
        assert!(finding.hint.as_ref().is_some_and(|said| said.starts_with(hint)), "{condition}: {finding:?}");
    }
    let fine = r#"resource.side_effect_class == "READ_ONLY" && resource.name == "READONLY" && resource.data_classification != "secret""#;
    policies(&format!("permit (principal, action, resource) when {{ {fine} }};"));
}

#[test]
fn one_bad_policy_keeps_all_from_being_loaded() {
    assert!(
        load_in(&vocabulary_of(&contracts()), "permit (principal, action, resource); permit;", BuiltInPermits::On)
            .is_err()
    );
}

#[test]
fn a_policy_without_an_id_is_called_by_its_place() {
    let policies = policies("\n\n  permit (principal, action, resource);\npermit (principal, action, resource);");
    let ids: Vec<&str> = policies.loaded().iter().skip(3).map(|policy| policy.id.as_str()).collect();
    assert_eq!(ids, ["mine.cedar:3", "mine.cedar:4"]);
}

#[test]
fn built_in_ids_cannot_be_taken() {
    let text = r#"@id("always.own-tenant") permit (principal, action, resource);"#;
    assert_eq!(failure(text).findings()[0].kind, PolicyFindingKind::SameId);
}

#[test]
fn there_are_limits() {
    let vocabulary = vocabulary_of(&contracts());
    let load = |text: &str, limits: PolicyLimits| {
        let source = PolicySource { name: "mine.cedar", text };
        Policies::load(vocabulary.clone(), &[source], BuiltInPermits::Off, &limits).map(|policies| policies.count())
    };
    let four = "permit (principal, action, resource);".to_owned();
    let (all, default) = (crate::ALWAYS_TEXT.len() + four.len(), PolicyLimits::default());
    assert_eq!(load(&four, PolicyLimits { policies_max: 4, ..default }), Ok(4));
    for limits in [
        PolicyLimits { policies_max: 3, ..default },
        PolicyLimits { policy_bytes_max: 10, ..default },
        PolicyLimits { sources_bytes_max: all - 1, ..default },
    ] {
        assert_eq!(load(&four, limits).unwrap_err().findings()[0].kind, PolicyFindingKind::Limit, "{limits:?}");
    }
}
