//! Grants as policies: what each bound admits, whatever is written into the arguments, and that all bounds together admit no more than each.

use proptest::prelude::*;
use serde_json::{Value, json};
use servanda_approval::{
    ApprovalCause, ApprovalDemand, ApprovalGrant, ArgumentBound, BoundRule, GrantedCall, NarrowedBound, TicketId,
    proposed_bounds,
};
use servanda_contract::{
    Caller, CallerActor, Digest,
    digest::DigestDomain,
    json::canonicalize,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};

use crate::{GrantQuestion, grant_admits, grant_policy, granted_call_admits};

fn digest(text: &str) -> Digest {
    Digest::compute(DigestDomain::Payload, &[text.as_bytes()])
}

fn caller() -> Caller {
    let actors = vec![CallerActor { name: "planner".to_owned(), proven: true }];
    Caller { actors, ..Caller::named("acme", "ada") }
}

fn bytes(arguments: &Value) -> Vec<u8> {
    canonicalize(arguments).unwrap().bytes().to_vec()
}

fn call(ticket: &str, tool: &str, contract: &str, bounds: Vec<ArgumentBound>) -> GrantedCall {
    GrantedCall {
        ticket: Some(TicketId::from(ticket.to_owned())),
        payload_hash: digest(ticket),
        tool_name: tool.to_owned(),
        tool_version: "1.0.0".to_owned(),
        contract_digest: digest(contract),
        demand: ApprovalDemand {
            pattern: ApprovalPattern::Operator,
            groups: std::collections::BTreeSet::new(),
            quorum: 1,
            presence: Presence::Session,
            decide_within_ms: 1,
            use_within_ms: 1,
            escalation: Vec::new(),
            causes: vec![ApprovalCause::Class],
            class: SideEffectClass::HighRiskExternal,
        },
        bounds,
        uses_max: 20,
    }
}

fn with_bounds(bounds: Vec<ArgumentBound>) -> ApprovalGrant {
    let caller = caller();
    ApprovalGrant {
        ticket: TicketId::from("apr_1".to_owned()),
        payload_hash: digest("call"),
        tenant: caller.tenant,
        principal: caller.principal,
        actors: caller.actors,
        calls: vec![call("apr_1", "bank.pay", "contract", bounds)],
        cost_max: None,
        until_ms: 0,
        approver: "olga".to_owned(),
        groups: std::collections::BTreeSet::new(),
        presence: Presence::Session,
        credential: "console".to_owned(),
        at_ms: 0,
    }
}

/// The grant that an approved call implies.
fn grant(approved: &Value) -> ApprovalGrant {
    with_bounds(proposed_bounds(&bytes(approved)).unwrap())
}

fn admits(grant: &ApprovalGrant, arguments: &Value) -> bool {
    let (caller, contract, arguments) = (caller(), digest("contract"), bytes(arguments));
    let question = GrantQuestion { caller: &caller, tool: "bank.pay", contract: &contract, arguments: &arguments };
    grant_admits(grant, &question)
}

#[test]
fn the_policy_of_a_grant_reads_as_what_it_does() {
    let approved = json!({ "amount": 42, "path": "/srv/a/b.csv", "to": "bob \"x\"", "url": "https://api.example/v1" });
    assert_eq!(
        grant_policy(&grant(&approved)),
        format!(
            r#"@id("grant:apr_1")
permit (
  principal == User::"acme/ada",
  action == Action::"call",
  resource == Tool::"bank.pay"
) when {{
  context.tenant == "acme" &&
  context.agents == "[[\"planner\",true]]" &&
  context.contract == "{}" &&
  context.fields == ["/amount", "/path", "/to", "/url"] &&
  context.arguments["/amount"].number.greaterThanOrEqual(decimal("0.0")) &&
  context.arguments["/amount"].number.lessThanOrEqual(decimal("42.0")) &&
  context.arguments["/path"].path like "/srv/a/*" &&
  context.arguments["/to"].text == "bob \"x\"" &&
  context.arguments["/url"].origin == "https://api.example:443"
}};
"#,
            digest("contract")
        )
    );
    assert!(admits(&grant(&approved), &approved));
}

#[test]
fn a_plan_admits_what_one_of_its_calls_admits_and_no_mixture_of_them() {
    let first = grant(&json!({ "amount": 100, "to": "bob" }));
    let further = |ticket: &str, tool: &str, approved: &Value| {
        let contract = if tool == "bank.pay" { "contract" } else { "of refunds" };
        call(ticket, tool, contract, proposed_bounds(&bytes(approved)).unwrap())
    };
    let mut plan = first.clone();
    plan.calls.extend([
        further("apr_2", "bank.pay", &json!({ "amount": 5, "to": "kim" })),
        further("apr_3", "bank.pay", &json!({ "amount": "all", "to": "kim" })),
        GrantedCall { ticket: None, ..further("apr_4", "bank.refund", &json!({ "invoice": 7 })) },
    ]);
    let policy = grant_policy(&plan);
    for id in ["grant:apr_1", "grant:apr_2", "grant:apr_3", "grant:apr_1/4"] {
        assert_eq!(policy.matches(&format!("@id(\"{id}\")")).count(), 1, "{policy}");
    }
    for (arguments, expected) in [
        (json!({ "amount": 100, "to": "bob" }), true),
        (json!({ "amount": 5, "to": "kim" }), true),
        // The second call has a number where this has a text. That its policy fails is nothing to the third.
        (json!({ "amount": "all", "to": "kim" }), true),
        (json!({ "amount": 100, "to": "kim" }), false),
        (json!({ "amount": "all", "to": "bob" }), false),
        (json!({ "invoice": 7 }), false),
    ] {
        assert_eq!(admits(&plan, &arguments), expected, "{arguments}");
    }
    let (caller, refunds, arguments) = (caller(), digest("of refunds"), bytes(&json!({ "invoice": 7 })));
    let question = GrantQuestion { caller: &caller, tool: "bank.refund", contract: &refunds, arguments: &arguments };
    assert!(grant_admits(&plan, &question));
    for number in 0..6 {
        // Only the call that it is for, so that the draw counts for that one.
        assert_eq!(granted_call_admits(&plan, number, &question), number == 3, "{number}");
    }
    assert!(!grant_admits(&plan, &GrantQuestion { contract: &digest("contract"), ..question }));
    assert!(!grant_admits(&first, &question));
}

#[test]
fn numbers_are_at_most_as_approved() {
    let approved = grant(&json!({ "amount": 100 }));
    for (value, expected) in [
        (json!(100), true),
        (json!(0), true),
        (json!(99.5), true),
        (json!(-0.0), true),
        (json!(100.0001), false),
        (json!(101), false),
        (json!(-1), false),
        (json!(-100), false),
        (json!(1e-9), false),
        (json!(1e300), false),
        (json!(9_007_199_254_740_991_i64), false),
        (json!("100"), false),
        (json!("1"), false),
        (json!(true), false),
        (json!(null), false),
        (json!([1]), false),
        (json!({ "number": 1 }), false),
    ] {
        assert_eq!(admits(&approved, &json!({ "amount": value })), expected, "{value}");
    }
    // No bytes of a number beyond every double are arguments.
    let (caller, contract) = (caller(), digest("contract"));
    for text in ["{\"amount\":1e400}", "{\"amount\":}", ""] {
        let arguments = text.as_bytes();
        let question = GrantQuestion { caller: &caller, tool: "bank.pay", contract: &contract, arguments };
        assert!(!grant_admits(&approved, &question), "{text}");
    }
    let negative = grant(&json!({ "amount": -100 }));
    for (value, expected) in [(-100, true), (0, true), (-101, false), (1, false)] {
        assert_eq!(admits(&negative, &json!({ "amount": value })), expected, "{value}");
    }
    let large = grant(&json!({ "amount": 9_007_199_254_740_991_i64 }));
    assert!(admits(&large, &json!({ "amount": 9_007_199_254_740_991_i64 })));
    assert!(!admits(&large, &json!({ "amount": 1 })), "a number that a policy cannot hold is equal or nothing");
}

#[test]
fn paths_stay_below_the_folder_whatever_is_written() {
    let approved = grant(&json!({ "path": "/srv/reports/2026/q3.csv" }));
    for (value, expected) in [
        ("/srv/reports/2026/q3.csv", true),
        ("/srv/reports/2026/q4.csv", true),
        ("/srv/reports/2026/sub/x", true),
        ("/srv/reports/2026/..x", true),
        ("/srv/reports/2026/", false),
        ("/srv/reports/2026", false),
        ("/srv/reports/2027/q3.csv", false),
        ("/srv/reports/20266/q3.csv", false),
        ("/SRV/reports/2026/q3.csv", false),
        ("/srv/reports/2026/../2025/q3.csv", false),
        ("/srv/reports/2026/./q3.csv", false),
        ("/srv/reports/2026//q3.csv", false),
        ("//srv/reports/2026/q3.csv", false),
        ("/srv/reports/2026/..", false),
        ("/srv/reports/2026/.. /x", false),
        ("/srv/reports/2026/.../x", false),
        ("/srv/reports/2026/%2e%2e/x", false),
        ("/srv/reports/2026/..%2fx", false),
        ("/srv/reports/2026/..\\x", false),
        ("/srv/reports/2026\\..\\x", false),
        ("/srv/reports/2026/x\0.csv", false),
        ("/srv/reports/2026/x\n", false),
        ("/srv/reports/2026/$(id)", false),
        ("/srv/reports/2026/*", false),
        ("/srv/reports/2026/~/x", false),
        ("/srv/reports/2026/x:stream", false),
        ("/srv/reports/2026/\u{ff0e}\u{ff0e}/x", false),
        ("/srv/reports/2026/\u{202e}vsc", false),
        ("file:///srv/reports/2026/q3.csv", false),
        (" /srv/reports/2026/q3.csv", false),
        ("srv/reports/2026/q3.csv", false),
        ("", false),
    ] {
        assert_eq!(admits(&approved, &json!({ "path": value })), expected, "{value:?}");
    }
    let long = format!("/srv/reports/2026/{}", "x".repeat(1_024));
    assert!(!admits(&approved, &json!({ "path": long })));
    // A folder name with a character that means something in a pattern is not one that a bound can have.
    let star = grant(&json!({ "path": "/srv/*/q3.csv" }));
    assert!(!admits(&star, &json!({ "path": "/srv/x/q3.csv" })));
}

#[test]
fn urls_keep_scheme_host_and_port() {
    let approved = grant(&json!({ "url": "https://api.example/v1/items" }));
    for (value, expected) in [
        ("https://api.example/", true),
        ("https://api.example:443/other?q=1#f", true),
        ("HTTPS://API.EXAMPLE/x", true),
        ("https://api.example.", true),
        ("http://api.example/", false),
        ("https://api.example:444/", false),
        ("https://api.example.evil.example/", false),
        ("https://evil.example/https://api.example/", false),
        ("https://api.example@evil.example/", false),
        ("https://user:pass@api.example/", false),
        ("https://evil.example\\@api.example/", false),
        ("https:/api.example/", false),
        ("https:api.example/", false),
        ("https:///api.example/", false),
        ("//api.example/", false),
        ("https://api.example%2f@evil.example/", false),
        ("https://\u{430}pi.example/", false),
        ("https://api\u{3002}example/", false),
        (" https://api.example/", false),
        ("https://api.example/\n", false),
        ("https://api.exampl%65/", false),
        ("javascript:https://api.example/", false),
        ("wss://api.example/", false),
        ("", false),
    ] {
        assert_eq!(admits(&approved, &json!({ "url": value })), expected, "{value:?}");
    }
}

#[test]
fn everything_else_is_equal_and_what_was_missing_stays_missing() {
    let approved = json!({ "to": "bob", "is_final": true, "note": null, "tags": [], "options": {}, "account_id": 42 });
    let with = |name: &str, value: Value| {
        let mut arguments = approved.clone();
        arguments[name] = value;
        arguments
    };
    let grant = grant(&approved);
    assert!(admits(&grant, &approved));
    for (name, value) in [
        ("to", json!("Bob")),
        ("to", json!("bob\u{200b}")),
        ("to", json!(["bob"])),
        ("is_final", json!(false)),
        ("is_final", json!("true")),
        ("note", json!("null")),
        ("note", json!(0)),
        ("tags", json!(["x"])),
        ("tags", json!({})),
        ("options", json!([])),
        ("options", json!({ "force": true })),
        ("account_id", json!(41)),
        ("account_id", json!("42")),
        ("extra", json!(null)),
        ("extra", json!(1)),
        ("account_id/x", json!(1)),
    ] {
        assert!(!admits(&grant, &with(name, value.clone())), "{name} = {value}");
    }
    for name in ["to", "is_final", "note", "tags", "options", "account_id"] {
        let mut arguments = approved.clone();
        arguments.as_object_mut().unwrap().remove(name);
        assert!(!admits(&grant, &arguments), "without {name}");
    }
    assert!(!admits(&grant, &json!({})));
    let without = with_bounds(Vec::new());
    assert!(admits(&without, &json!({})) && !admits(&without, &json!({ "to": "bob" })));
    // The same text in an array: another value, at other places.
    let list = self::grant(&json!({ "ids": ["a", "b"] }));
    for (arguments, expected) in [
        (json!({ "ids": ["a", "b"] }), true),
        (json!({ "ids": ["b", "a"] }), false),
        (json!({ "ids": ["a", "b", "c"] }), false),
        (json!({ "ids": ["a"] }), false),
        (json!({ "ids": { "0": "a", "1": "b" } }), true),
    ] {
        assert_eq!(admits(&list, &arguments), expected, "{arguments}");
    }
}

#[test]
fn another_caller_agent_tool_or_contract_is_not_admitted() {
    let approved = json!({ "amount": 1 });
    let (grant, arguments, contract) = (grant(&approved), bytes(&approved), digest("contract"));
    let own = caller();
    let claimed = vec![CallerActor { name: "planner".to_owned(), proven: false }];
    let question = GrantQuestion { caller: &own, tool: "bank.pay", contract: &contract, arguments: &arguments };
    assert!(grant_admits(&grant, &question));
    for other in [
        Caller { actors: Vec::new(), ..own.clone() },
        Caller { actors: claimed, ..own.clone() },
        Caller { actors: own.actors.iter().chain(&own.actors).cloned().collect(), ..own.clone() },
        Caller { principal: "eve".to_owned(), ..own.clone() },
        Caller { tenant: "umbrella".to_owned(), ..own.clone() },
        Caller { tenant: "acme/ada".to_owned(), principal: String::new(), ..own.clone() },
    ] {
        assert!(!grant_admits(&grant, &GrantQuestion { caller: &other, ..question }), "{other:?}");
    }
    assert!(!grant_admits(&grant, &GrantQuestion { tool: "bank.payx", ..question }));
    assert!(!grant_admits(&grant, &GrantQuestion { contract: &digest("newer"), ..question }));
    // Names with a slash: two callers with one joined name are told apart.
    let slashed = Caller { tenant: "a/b".to_owned(), principal: "c".to_owned(), ..own.clone() };
    let moved = Caller { tenant: "a".to_owned(), principal: "b/c".to_owned(), ..own.clone() };
    let of_slashed = ApprovalGrant { tenant: slashed.tenant.clone(), principal: slashed.principal.clone(), ..grant };
    assert!(grant_admits(&of_slashed, &GrantQuestion { caller: &slashed, ..question }));
    assert!(!grant_admits(&of_slashed, &GrantQuestion { caller: &moved, ..question }));
}

#[test]
fn text_of_agents_does_not_become_policy() {
    for hostile in [
        "x\" || true || \"",
        "x\"};permit(principal,action,resource);//",
        "\\",
        "\\\"",
        "\u{202e}x",
        "\0",
        "*",
        "$(id)\n\r\t",
        "\u{1f600}",
    ] {
        let approved = json!({ "to": hostile, hostile: 1 });
        let grant = grant(&approved);
        assert!(admits(&grant, &approved), "{hostile:?}");
        assert!(!admits(&grant, &json!({ "to": "other", hostile: 1 })), "{hostile:?}");
        assert!(!admits(&grant, &json!({ "to": hostile })), "{hostile:?}");
        assert!(grant_policy(&grant).is_ascii(), "{hostile:?}");
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        (-200_i64..200).prop_map(|number| json!(number)),
        (-20_000_i32..20_000).prop_map(|number| json!(f64::from(number) / 100.0)),
        any::<f64>().prop_filter("JSON has no infinity", |number| number.is_finite()).prop_map(|number| json!(number)),
        any::<bool>().prop_map(|value| json!(value)),
        Just(json!(null)),
        "[a-c]{0,2}".prop_map(|text| json!(text)),
        prop_oneof![Just("/srv/a/x"), Just("/srv/a/b/x"), Just("/srv/a/../x"), Just("/etc/x"), Just("a/b")]
            .prop_map(|path| json!(path)),
        prop_oneof![Just("https://a.example/x"), Just("https://b.example/x"), Just("https://u@a.example/")]
            .prop_map(|url| json!(url)),
    ]
}

fn arguments() -> impl Strategy<Value = Value> {
    let names = prop_oneof![Just("amount"), Just("path"), Just("url"), Just("to"), Just("id")];
    proptest::collection::btree_map(names, value(), 0..4).prop_map(|members| {
        members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<serde_json::Map<_, _>>().into()
    })
}

/// A call near an approved one: some values are others.
fn nearby(approved: Value) -> impl Strategy<Value = (Value, Value)> {
    let members: Vec<(String, Value)> = approved.as_object().unwrap().clone().into_iter().collect();
    let changed = members.into_iter().map(|(name, own)| (Just(name), prop_oneof![2 => Just(own), 1 => value()]));
    let changed: Vec<_> = changed.collect();
    (Just(approved), changed.prop_map(|members| members.into_iter().collect::<serde_json::Map<_, _>>().into()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// What a grant admits, each of its bounds admits taken singly; what every bound admits, the grant admits; and the approved call is
    /// always admitted.
    #[test]
    fn a_grant_is_all_of_its_bounds((approved, other) in arguments().prop_flat_map(nearby)) {
        let grant = grant(&approved);
        prop_assert!(admits(&grant, &approved), "{}", approved);
        let singly = |bound: &ArgumentBound| {
            let name = bound.pointer.trim_start_matches('/');
            let alone = json!({ name: other[name] });
            admits(&with_bounds(vec![bound.clone()]), &alone)
        };
        let by_each = grant.calls[0].bounds.iter().all(singly);
        prop_assert_eq!(admits(&grant, &other), by_each, "{} for {}", other, approved);
    }

    /// A narrower bound never admits what the proposed one does not.
    #[test]
    fn narrowing_never_admits_more(
        (approved, other) in arguments().prop_flat_map(nearby),
        wanted in prop_oneof![(-300_i64..300).prop_map(|number| number.to_string()), Just("/srv/a/b/".to_owned()), Just("/".to_owned())],
        exactly in any::<bool>(),
    ) {
        let grant = grant(&approved);
        let canonical: Value = serde_json::from_slice(&bytes(&approved)).unwrap();
        let narrow = |bound: &ArgumentBound| {
            let value = &canonical[bound.pointer.trim_start_matches('/')];
            let wanted = if exactly { NarrowedBound::Exactly(value) } else { NarrowedBound::Text(&wanted) };
            bound.narrowed(wanted).unwrap_or_else(|_| bound.clone())
        };
        let narrower = with_bounds(grant.calls[0].bounds.iter().map(narrow).collect());
        if admits(&narrower, &other) {
            prop_assert!(admits(&grant, &other), "{} for {}", other, approved);
        }
        if exactly {
            prop_assert_eq!(admits(&narrower, &other), bytes(&other) == bytes(&approved));
        }
    }
}

#[test]
fn a_bound_that_is_not_one_admits_nothing() {
    let one = |rule: BoundRule| with_bounds(vec![ArgumentBound { pointer: "/x".to_owned(), rule }]);
    for rule in [
        BoundRule::AtMost("all".to_owned()),
        BoundRule::AtMost("1e400".to_owned()),
        BoundRule::AtMost("\") || true || (\"".to_owned()),
        BoundRule::AtMost("99999999999999999999.0".to_owned()),
    ] {
        for value in [json!(1), json!(0), json!("x")] {
            assert!(!admits(&one(rule.clone()), &json!({ "x": value })), "{rule:?}");
        }
    }
}
