//! Budgets from outside: which calls are refused, the messages, and what `servanda budgets` shows while a gateway is running.

use serde_json::{Value, json};

use crate::{
    agent::Reply,
    contract::{Contract, count_effects, pay_invoice},
    gateway::Gateway,
    world::{World, until},
};

/// A payment whose call costs half a dollar.
fn costly() -> Contract {
    let mut contract = pay_invoice();
    contract.0["runtime"]["cost_profile"] = json!({
        "currency": "USD", "cost_per_call": 0.4, "cost_unit": "call", "components": { "network": 0.1 },
    });
    contract
}

fn world(budgets: &Value) -> World {
    let world = World::company([costly(), count_effects()]);
    world.change_config(|config| config["budgets"] = budgets.clone());
    world
}

fn pay(gateway: &Gateway, key: &str) -> Reply {
    let arguments = json!({ "invoice_id": "inv_1003", "amount_cents": 100, "currency": "CHF" });
    let meta = json!({ "servanda/idempotency-key": key });
    let params = json!({ "name": "company__pay_invoice", "arguments": arguments, "_meta": meta });
    let agent = gateway.modern();
    Reply::of(agent.exchange(&agent.question(1, "tools/call", params)).text())
}

/// A critical call that no budget allows is refused, and the refusal names the setting that would allow it.
#[test]
fn what_is_critical_is_refused_until_a_budget_allows_it() {
    let world = world(&json!([]));
    let refused =
        world.call("company__pay_invoice", r#"{"invoice_id":"inv_1003","amount_cents":100,"currency":"CHF"}"#);
    let refused = refused.ended(3);
    assert!(refused.stderr.contains("refused at budget"), "{}", refused.stderr);
    assert!(refused.stderr.contains("dimension: critical"), "{}", refused.stderr);
    assert_eq!(world.effects(), 0);
    let nothing = world.run(&["budgets"]).ended(0);
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("has been used yet"), "{}", nothing.everything());
}

#[test]
fn money_and_critical_changes_are_drawn_once_each_and_shown() {
    let budgets = json!([
        { "dimension": "financial", "amount": "1.20", "currency": "USD", "per": "tenant", "period": "total" },
        { "dimension": "critical", "amount": 5, "per": "caller", "period": "total" },
    ]);
    let world = world(&budgets);
    let gateway = world.serve();
    let costs = |key: &str| {
        pay(&gateway, key).success();
        let explained = world.run(&["explain", "--last"]).ended(0).stdout;
        explained.lines().find(|line| line.contains("costs")).map(|line| line.trim().to_owned())
    };
    let stated = "costs     at most 0.50 USD: external API 0.40, network 0.10".to_owned();
    assert_eq!(["a", "b"].map(costs), [Some(stated.clone()), Some(stated)]);
    assert_eq!(["a", "b"].map(costs), [None, None], "what was answered before costs nothing");
    let refusal = pay(&gateway, "c").refusal();
    assert_eq!((&refusal["error_code"], &refusal["gate"]), (&json!("BUDGET_EXHAUSTED"), &json!("budget")));
    let left = json!({ "account": "tenant `local`, financial in USD, in total", "dimension": "financial", "currency": "USD", "left": 200_000 });
    assert_eq!(refusal["budget"], left);
    assert_eq!(world.effects(), 2);
    let shown = world.run(&["budgets", "--json"]).ended(0).json();
    let of = |dimension: &str| {
        let accounts = shown["accounts"].as_array().unwrap();
        let one = accounts.iter().find(|one| one["account"]["dimension"] == dimension).unwrap();
        json!([one["limit"], one["spent"], one["reserved"], one["left"]])
    };
    assert_eq!(of("financial"), json!([1_200_000, 1_000_000, 0, 200_000]));
    assert_eq!(of("critical"), json!([5, 2, 0, 3]));
    assert_eq!(shown["reservations"], json!([]));
    let page = world.run(&["budgets"]).ended(0);
    assert!(page.stdout.contains("financial in USD") && page.stdout.contains("0.20"), "{}", page.stdout);
    let other = world.run(&["budgets", "--tenant", "other"]).ended(0);
    assert!(other.stdout.is_empty(), "{}", other.stdout);
}

#[test]
fn a_budget_that_fits_nothing_is_told_of() {
    let budget =
        |tool: &str| json!([{ "dimension": "write", "amount": 1, "per": "tenant", "period": "day", "tool": tool }]);
    world(&budget("company.pay_invoice")).run(&["check"]).ended(0);
    let euros = json!([{ "dimension": "financial", "amount": 1, "currency": "EUR", "per": "tenant", "period": "day" }]);
    for (budgets, expected) in [
        (budget("company.pay_invioce"), "`budgets[0].tool`: there is no contract `company.pay_invioce`"),
        (budget("company__pay_invoice"), "did you mean `company.pay_invoice`?"),
        (euros, "`budgets[0].currency`: calls of `company.pay_invoice` cost USD, and no budget is in USD"),
    ] {
        let refused = world(&budgets).run(&["check"]).ended(2);
        assert!(refused.everything().contains(expected), "{}", refused.everything());
    }
}

#[test]
fn a_reload_changes_what_is_allowed() {
    let world = world(&json!([]));
    let gateway = world.serve();
    assert_eq!(pay(&gateway, "a").refusal()["gate"], "budget");
    world.change_config(|config| {
        config["budgets"] = json!([{ "dimension": "critical", "amount": 1, "per": "tenant", "period": "total" }]);
    });
    until("the reload", || gateway.said().contains("other budgets").then_some(()));
    pay(&gateway, "a").success();
    assert_eq!(pay(&gateway, "b").refusal()["error_code"], "BUDGET_EXHAUSTED");
    assert_eq!(world.effects(), 1);
}
