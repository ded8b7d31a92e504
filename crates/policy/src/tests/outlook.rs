//! The outlook without arguments agrees with every decision with arguments.

use proptest::{prelude::*, test_runner::TestRunner};

use super::{circumstances, decide_as, identity, ids, payment, policies};
use crate::{Outlook, Principal};

const CONDITIONS: [&str; 8] = [
    "",
    "when { context.args.amount_cents > 10 }",
    "when { principal.tenant == \"acme\" && context.args.amount_cents > 10 }",
    "when { principal.tenant == \"rival\" && context.args.amount_cents > 10 }",
    "when { context.env.time_ms > 5 }",
    "when { context has task && context.task == \"x\" }",
    "unless { context.args.amount_cents < 3 }",
    "when { context.args.amount_cents + 9223372036854775800 > 10 }",
];

#[test]
fn what_is_certain_without_arguments_is_decided_so_with_any() {
    let rule = (any::<bool>(), 0..CONDITIONS.len());
    TestRunner::default()
        .run(&(prop::collection::vec(rule, 0..4), 0_i64..20), |(rules, cents)| {
            let rule = |(permits, condition): &(bool, usize)| {
                let (effect, condition) = (if *permits { "permit" } else { "forbid" }, CONDITIONS[*condition]);
                format!("{effect} (principal, action == Action::\"call:bank.pay\", resource) {condition};\n")
            };
            let text = rules.iter().map(rule).collect::<Vec<_>>().concat();
            let policies = policies(&text);
            let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &[])).unwrap();
            let outlook = policies.outlook(&principal, "bank.pay", &circumstances("acme"));
            let decision = decide_as(&policies, &principal, "bank.pay", &payment(cents));
            match outlook {
                Outlook::Certain(certain) if certain.is_allowed() => prop_assert_eq!(certain, decision, "{}", text),
                // More policies may refuse than those that need no arguments.
                Outlook::Certain(_) => prop_assert!(!decision.is_allowed(), "{}", text),
                Outlook::Depends { on } => prop_assert!(!on.is_empty() && text.contains("context.args")),
            }
            Ok(())
        })
        .unwrap();
}

#[test]
fn it_depends_only_where_arguments_can_make_a_difference() {
    let table = [
        ("permit (principal, action, resource);", "allowed by mine.cedar:1"),
        (
            "permit (principal, action, resource);\nforbid (principal, action, resource) when { context.tenant == \"acme\" };",
            "refused",
        ),
        (
            "permit (principal, action, resource);\n@id(\"much\") forbid (principal, action == Action::\"call:bank.pay\", \
             resource) when { context.args.amount_cents > 1 };",
            "depends on much",
        ),
        (
            "@id(\"much\") forbid (principal, action == Action::\"call:bank.pay\", resource) when { \
             context.args.amount_cents > 1 };",
            "refused",
        ),
        (
            "permit (principal, action, resource);\nforbid (principal, action == Action::\"call:bank.pay\", resource) when { \
             principal.id == \"bob\" && context.args.amount_cents > 1 };",
            // It does not hold, but an amount that Cedar cannot hold makes the call refused.
            "depends on mine.cedar:2",
        ),
        (
            "permit (principal, action, resource);\nforbid (principal, action == Action::\"call:bank.pay\", resource) when { \
             principal.id == \"bob\" && context.args.account == \"x\" };",
            "allowed by mine.cedar:1",
        ),
        (
            "forbid (principal, action == Action::\"call:bank.pay\", resource) when { \
             principal.id == \"bob\" && context.args.amount_cents > 1 };",
            "refused",
        ),
    ];
    for (text, expected) in table {
        let policies = policies(text);
        let principal = Principal::user(policies.vocabulary(), &identity("acme", "alice", &[])).unwrap();
        let told = match policies.outlook(&principal, "bank.pay", &circumstances("acme")) {
            Outlook::Certain(decision) if decision.is_allowed() => format!("allowed by {}", ids(&decision).join(", ")),
            Outlook::Certain(_) => "refused".to_owned(),
            Outlook::Depends { on } => format!("depends on {}", on.join(", ")),
        };
        assert_eq!(told, expected, "{text}");
    }
}
