//! Cases and explanations, as people read them.

use std::fmt::Write as _;

use servanda_approval::ApprovalSettings;

use super::{golden, policies};
use crate::{PolicyCases, run_cases};

const POLICIES: &str = r#"
@id("staff-pay")
@reason("staff may pay small amounts")
permit (principal in Group::"acme/staff", action == Action::"call:bank.pay", resource)
when { context.args.amount_cents <= 100 && principal.scopes.contains("bank:pay") }
unless { context has intent && context.intent == "read" };

@id("no-bots") forbid (principal is Agent, action, resource in Upstream::"bank");
@id("others") permit (principal in Group::"acme/others", action, resource);
@id("mail") permit (principal, action, resource == Tool::"mail.send");
"#;

const CASES: &str = r#"
cases:
  - name: staff may pay a little
    principal: { tenant: acme, user: alice, groups: [staff], scopes: ["bank:pay"] }
    tool: bank.pay
    args: { account: a, amount_cents: 100, to: { name: b } }
    expect: allow
    by: [staff-pay]
  - name: but not much
    principal: { tenant: acme, user: alice, groups: [staff], scopes: ["bank:pay"] }
    tool: bank.pay
    args: { account: a, amount_cents: 101, to: { name: b } }
    expect: deny
    by: []
  - name: agents may not
    principal: { tenant: acme, user: alice, agent: bot, groups: [staff], scopes: ["bank:pay"] }
    tool: bank.pay
    args: { account: a, amount_cents: 1, to: { name: b } }
    expect: deny
    by: [no-bots]
  - name: wrong about the decision and the policy
    principal: { tenant: acme, user: alice, groups: [staff], scopes: ["bank:pay"] }
    tool: bank.pay
    args: { account: a, amount_cents: 5, to: { name: b } }
    env: { intent: read, name: test, time_ms: 5 }
    expect: allow
    by: [others]
  - name: the local user is meant where nobody is named
    tool: mail.send
    args: { to: x }
    expect: approval
    approval: { pattern: consent, quorum: 1 }
  - name: wrong about the approval
    tool: mail.send
    args: { to: x }
    expect: approval
    approval: { pattern: dual, groups: [board], quorum: 2, presence: passkey }
  - name: allowed means without an approval
    tool: mail.send
    args: { to: x }
    expect: allow
  - name: in another tenant's name
    tool: mail.send
    env: { tenant: acme }
    expect: deny
    by: [always.own-tenant]
  - name: nobody knows the tool
    tool: nobody.knows
    expect: deny
"#;

#[test]
fn cases_are_tried_and_explained() {
    let outcomes = run_cases(
        &policies(POLICIES),
        &PolicyCases::read("cases.yaml", CASES).unwrap(),
        &ApprovalSettings::default(),
        &|_, _| None,
    );
    let passed: Vec<bool> = outcomes.iter().map(crate::CaseOutcome::passed).collect();
    assert_eq!(passed, [true, true, true, false, true, false, false, true, true]);
    let mut text = String::new();
    for outcome in outcomes {
        let verdict = if outcome.passed() { "pass" } else { "FAIL" };
        writeln!(text, "{verdict} {}", outcome.name).unwrap();
        for failure in &outcome.failures {
            writeln!(text, "  {failure}").unwrap();
        }
        text += &outcome.explanation.map_or_else(String::new, |explanation| format!("{explanation}\n\n"));
    }
    golden("cases.txt", &text);
}

/// Each policy is evaluated by itself: only the one that reads the number has no answer.
#[test]
fn an_argument_that_cannot_be_held_is_told_of_whoever_looks_at_it() {
    let policies = policies(
        "@id(\"all\") permit (principal, action, resource);\n@id(\"night\") forbid (principal, action, resource) when { \
         context.env.name == \"night\" };\n@id(\"rate\") forbid (principal, action == Action::\"call:bank.pay\", resource) when { \
         context.args has rate && context.args.rate.greaterThan(decimal(\"1.5\")) };",
    );
    let text = "cases:\n- { name: x, tool: bank.pay, args: { account: a, amount_cents: 1, to: { name: b }, rate: 1.00001 }, expect: deny }";
    let outcomes =
        run_cases(&policies, &PolicyCases::read("cases.yaml", text).unwrap(), &ApprovalSettings::default(), &|_, _| {
            None
        });
    let told = outcomes[0].explanation.as_ref().unwrap().to_string();
    for line in [
        "refused: a policy looks at a number with more than four decimals",
        "permit `all` holds",
        "forbid `night` does not hold: condition 1 of 1 is not met",
        "forbid `rate` failed: it looks at a number with more than four decimals",
    ] {
        assert!(told.contains(line), "{line}\n{told}");
    }
}

#[test]
fn a_misspelt_case_is_not_read() {
    let error =
        PolicyCases::read("cases.yaml", "cases:\n  - { name: x, tool: y, expect: allow, args_: {} }").unwrap_err();
    assert_eq!(error.line(), Some(2));
    assert!(PolicyCases::read("cases.yaml", "cases:\n  - { name: x, tool: y, expect: perhaps }").is_err());
}
