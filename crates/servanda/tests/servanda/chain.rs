//! A gateway behind a gateway: the second is a real upstream over Streamable HTTP, in either era.

use std::thread;

use serde_json::{Value, json};

use crate::{
    agent::Reply,
    contract::{changes, count_effects, get_invoice, pay_invoice, reads, slow_change},
    world::{World, until},
};

/// A world whose only upstream is another world's gateway.
fn before(address: std::net::SocketAddr) -> World {
    let world = World::empty();
    let url = format!("http://{address}/mcp");
    let headers = json!({ "x-test": "${HEADER_OF_TESTS:-none}" });
    world.configure(&json!({ "remote": { "url": url, "headers": headers } }));
    let report = reads("company__monthly_report").input(&["month"], &json!({ "month": { "type": "string" } }));
    for contract in [
        reads("company__get_invoice"),
        reads("company__count_effects"),
        changes("company__pay_invoice"),
        changes("company__misbehave_slow"),
        report,
    ] {
        let mut contract = contract.of("remote");
        // The inner gateway refuses invalid calls itself.
        contract.0["affordance"]["input_schema"] = json!({ "type": "object", "additionalProperties": true });
        world.add(&contract);
    }
    world
}

fn behind() -> World {
    let report = reads("monthly_report").input(&["month"], &json!({ "month": { "type": "string" } }));
    World::company([get_invoice(), pay_invoice(), count_effects(), slow_change(), report])
}

#[test]
fn calls_refusals_and_progress_pass_both() {
    let inner = behind();
    let inner_gateway = inner.serve();
    let outer = before(inner_gateway.address);
    let outer_gateway = outer.serve();
    let agent = outer_gateway.legacy();
    let reply = agent.call("remote__company__get_invoice", json!({ "invoice_id": "inv_1001" }));
    assert_eq!(reply.success()["structuredContent"]["invoice_id"], "inv_1001");
    assert_eq!(reply.raw.matches("servanda/observation").count(), 1, "the observation is the outer gateway's own");
    assert_eq!(reply.observation()["tool_identity"]["name"], "remote.company__get_invoice");

    let refused = agent.call("remote__company__get_invoice", json!({ "invoice_id": 7 }));
    assert_eq!(refused.refusal()["gate"], "types", "the inner gateway's refusal is the tool's own error here");
    assert_eq!(outer.record(&refused.call_id())["outcome"], "tool_error");

    let params = json!({
        "name": "remote__company__monthly_report",
        "arguments": { "month": "2026-10" },
        "_meta": { "progressToken": "outermost" },
    });
    let mut stream = agent.begin("r", "tools/call", params);
    let messages: Vec<Value> = std::iter::from_fn(|| stream.next_event()).map(|raw| Reply::of(raw).message).collect();
    let steps = messages.iter().filter(|message| message["params"]["progressToken"] == "outermost").count();
    assert_eq!((steps, messages.len()), (5, 6), "{messages:?}");
}

/// The inner gateway is lost during a change: the outcome is unknown, and the next call works once it is back.
#[test]
fn the_inner_gateway_is_lost() {
    let inner = behind();
    let inner_gateway = inner.serve();
    let address = inner_gateway.address.to_string();
    let outer = before(inner_gateway.address);
    let outer_gateway = outer.serve();
    let agent = outer_gateway.modern();
    agent.call("remote__company__count_effects", json!({})).success();
    let waiting = {
        let agent = agent.clone();
        thread::spawn(move || agent.call("remote__company__misbehave_slow", json!({ "milliseconds": 2000 })).refusal())
    };
    inner.record_of("company__misbehave_slow", "dispatching");
    inner_gateway.kill();
    let refusal = waiting.join().unwrap();
    assert_eq!((&refusal["gate"], &refusal["effect"]), (&json!("perform"), &json!("unknown")), "{refusal:#}");
    assert_eq!(outer.record_of("remote__company__misbehave_slow", "unknown")["refusal"], refusal);
    let down = agent.call("remote__company__pay_invoice", json!({})).refusal();
    assert_eq!((&down["error_code"], &down["effect"]), (&json!("DEPENDENCY_UNAVAILABLE"), &json!("none")), "{down:#}");
    inner.assert_nothing_left();
    let _again = inner.serve_at(&address);
    until("the inner gateway to be used again", || {
        let reply = agent.call("remote__company__count_effects", json!({}));
        (reply.result()["isError"] != true).then_some(())
    });
}
