//! The gateway's own log: one event a decision, as JSON or as text, and levels that follow the configuration while the gateway runs.

use serde_json::{Value, json};

use crate::{
    contract::{count_effects, pay_invoice},
    gateway::Gateway,
    world::{World, until},
};

/// The JSON events of a gateway about decisions. Lines for people, such as the one that says where it listens, are text.
fn decisions(gateway: &Gateway) -> Vec<Value> {
    let said = gateway.said();
    let events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["target"] == "servanda_decision").collect()
}

#[test]
fn a_decision_is_one_event_and_the_levels_follow_the_configuration() {
    let world = World::company([pay_invoice(), count_effects()]).unpinned();
    world.change_config(|config| config["log"] = json!({ "format": "json" }));
    let gateway = world.serve();
    let agent = gateway.modern();
    let read = agent.call("company__count_effects", json!({})).call_id();
    let refused = agent.call("company__pay_invoice", json!({ "invoice_id": "inv_secret" })).refusal();
    let told = until("both decisions", || Some(decisions(&gateway)).filter(|told| told.len() == 2));
    assert_eq!(told[0]["call_id"], json!(read), "{told:#?}");
    for (field, value) in
        [("level", "info"), ("tenant", "local"), ("tool", "company__count_effects"), ("outcome", "completed")]
    {
        assert_eq!(told[0][field], value, "{:#}", told[0]);
    }
    assert!(told[0]["took_ms"].is_u64() && told[0].get("gate").is_none(), "{:#}", told[0]);
    assert_eq!(told[1]["call_id"], refused["call_id"], "{told:#?}");
    for (field, value) in [("outcome", "refused"), ("gate", "structure"), ("class", "STRUCTURAL_VIOLATION")] {
        assert_eq!(told[1][field], value, "{:#}", told[1]);
    }
    assert!(!gateway.said().contains("inv_secret"), "no argument is told");

    // No decisions, and everything of the ledger.
    world.change_config(|config| {
        config["log"] = json!({ "format": "json", "level": "error",
            "targets": { "servanda_decision": "off", "servanda_upstream": "trace" } });
    });
    until("the other log", || gateway.said().contains("another log").then_some(()));
    agent.call("company__count_effects", json!({})).success();
    // Back to text for people, in which a decision is an event of the level `info`.
    world.change_config(|config| config["log"] = json!({ "level": "info" }));
    until("the third log", || (gateway.said().matches("another log").count() == 2).then_some(()));
    let last = agent.call("company__count_effects", json!({})).call_id();
    let line = until("the line about the last call", || {
        gateway.said().lines().find(|line| line.contains(&last)).map(str::to_owned)
    });
    assert!(line.contains("INFO") && line.contains("a call ended completed") && !line.starts_with('{'), "{line}");
    assert_eq!(decisions(&gateway).len(), 2, "none was told while they were switched off");
}

#[test]
fn a_target_that_is_none_is_refused() {
    let world = World::company([count_effects()]);
    world.change_config(|config| config["log"] = json!({ "targets": { "a=b": "warn" } }));
    let refused = world.run(&["check"]).ended(2);
    assert!(refused.stderr.contains("log.targets.a=b"), "{}", refused.stderr);
}
