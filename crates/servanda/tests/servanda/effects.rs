//! What one idempotency key may do to the company's books, as an agent sees it from outside.

use serde_json::{Value, json};

use crate::{
    agent::Reply,
    contract::{changes, count_effects, pay_invoice, slow_change},
    gateway::Gateway,
    world::{World, until},
};

fn payment(amount_cents: u64) -> Value {
    json!({ "invoice_id": "inv_1003", "amount_cents": amount_cents, "currency": "CHF" })
}

/// A payment with a key in a header or in `_meta`.
fn pay(gateway: &Gateway, header: Option<&str>, meta: Option<&str>, amount_cents: u64) -> Reply {
    let mut params = json!({ "name": "company__pay_invoice", "arguments": payment(amount_cents) });
    if let Some(key) = meta {
        params["_meta"] = json!({ "servanda/idempotency-key": key });
    }
    let agent = gateway.modern();
    let mut question = agent.question(1, "tools/call", params);
    if let Some(key) = header {
        question = question.with("idempotency-key", key);
    }
    Reply::of(agent.exchange(&question).text())
}

fn hit(reply: &Reply) -> &Value {
    &reply.observation()["execution_metadata"]["idempotency_hit"]
}

#[test]
fn a_payment_is_made_once_however_often_it_is_sent() {
    let world = World::company([pay_invoice(), count_effects()]);
    let gateway = world.serve();
    let first = pay(&gateway, Some("order-7"), None, 100);
    let effects = world.effects();
    assert_eq!(hit(&first), &json!(false));
    for (header, meta) in [(Some("order-7"), None), (None, Some("order-7")), (Some("\"order-7\""), Some("order-7"))] {
        let again = pay(&gateway, header, meta, 100);
        assert_eq!(again.success()["content"], first.success()["content"], "{header:?} {meta:?}");
        assert_eq!(hit(&again), &json!(true));
        assert_eq!(world.record(&again.call_id())["outcome"], "replayed");
        assert_eq!(world.record(&again.call_id())["effect_id"], world.record(&first.call_id())["effect_id"]);
    }
    assert_eq!(pay(&gateway, Some("order-7"), None, 200).refusal()["error_code"], "SIGNATURE_MISMATCH");
    let torn = pay(&gateway, Some("order-7"), Some("order-8"), 100).refusal();
    assert_eq!((&torn["error_code"], &torn["effect"]), (&json!("STRUCTURAL_VIOLATION"), &json!("none")));
    assert_eq!(world.effects(), effects, "the books know of one");
    pay(&gateway, Some("order-8"), None, 100).success();
    assert_eq!(world.effects(), effects + 1, "another key is another payment");
}

#[test]
fn a_model_names_its_operation_and_a_blind_retry_is_stopped() {
    let world = World::company([slow_change(), count_effects()]);
    let gateway = world.serve();
    let agent = gateway.modern();
    // The upstream is connected, so that a call that is cut off has been sent.
    agent.call("company__count_effects", json!({})).success();
    let slow = |operation: Option<&str>| {
        // Long enough that its late answer settles nothing during this test.
        let mut arguments = json!({ "milliseconds": 60_000 });
        if let Some(operation) = operation {
            arguments["servanda_operation_id"] = json!(operation);
        }
        let meta = json!({ "servanda/timeout-ms": 1500 });
        agent
            .ask("tools/call", json!({ "name": "company__misbehave_slow", "arguments": arguments, "_meta": meta }))
            .refusal()
    };
    let unknown = slow(None);
    assert_eq!(unknown["effect"], "unknown");
    let handle = unknown["handle"].as_str().unwrap();
    let blind = slow(None);
    assert_eq!((&blind["error_code"], &blind["handle"]), (&json!("IDEMPOTENCY_CONFLICT"), &json!(handle)));
    assert_eq!(blind["effect"], "none");
    assert_eq!(slow(Some("another"))["effect"], "unknown", "it says that it is a new one, so it was sent");
    let again = slow(Some("another"));
    assert_eq!((&again["effect"], &again["error_code"]), (&json!("unknown"), &json!("UNKNOWN_ERROR")));
    assert!(again["operator_hint"].as_str().unwrap().contains("servanda effects show"), "{again}");
}

/// A tool whose server answers only when the test writes the file `answer`, after its contract's time.
fn answering_late() -> World {
    let world = World::empty();
    let done = json!({ "content": [{ "type": "text", "text": "done after all" }] });
    world.configure(&json!({ "company": world.stub_until(&["change_it"], &done, "answer") }));
    let mut contract = changes("change_it");
    contract.0["runtime"]["timeout_ms"] = json!(300);
    world.add(&contract);
    world
}

#[test]
fn an_answer_after_the_deadline_settles_an_unknown_outcome() {
    let world = answering_late();
    let gateway = world.serve();
    let agent = gateway.modern();
    let change = || {
        let meta = json!({ "servanda/idempotency-key": "order-7" });
        agent.ask("tools/call", json!({ "name": "company__change_it", "arguments": {}, "_meta": meta }))
    };
    let unknown = change().refusal();
    assert_eq!((&unknown["effect"], &unknown["error_code"]), (&json!("unknown"), &json!("TIMEOUT")), "{unknown}");
    let handle = unknown["handle"].as_str().unwrap();
    assert_eq!(change().refusal()["effect"], "unknown", "the outcome is unknown, so it is not sent again");
    world.write("answer", "");
    let show = || world.run(&["effects", "show", handle]).ended(0).stdout;
    let shown = until("the answer to settle it", || Some(show()).filter(|shown| shown.contains("state     completed")));
    assert!(shown.contains("the upstream answered after the deadline of the call"), "{shown}");
    let again = change();
    assert_eq!(again.success()["content"][0]["text"], "done after all");
    assert_eq!(hit(&again), &json!(true), "it is replayed");
    assert_eq!(world.stub_heard("tools/call").matches("tools/call").count(), 1, "it was sent once");
    let first = unknown["call_id"].as_str().unwrap();
    let page = world.run(&["explain", first]).ended(0).stdout;
    assert!(page.contains("now       completed: it is done, since "), "{page}");
    assert_eq!(world.run(&["explain", first, "--json"]).ended(0).json()["effect_now"], "completed");
    let recent = world.run(&["explain", "--json"]).ended(0).json();
    let late = recent
        .as_array()
        .unwrap()
        .iter()
        .map(|call| call["call_id"].as_str().unwrap().to_owned())
        .find(|call| world.record(call)["continues"] == first);
    let page = world.run(&["explain", &late.expect("the answer is on record")]).ended(0).stdout;
    assert!(page.contains(&format!("settles   {first}: this is its answer, which came after its deadline")), "{page}");
    assert!(page.contains("completed") && page.contains(" ms after the call was sent"), "{page}");
    assert!(page.contains("answered after the deadline") && !page.contains("no answer is on record"), "{page}");
    let listed = world.run(&["calls"]).ended(0).stdout;
    assert!(listed.contains(&format!("the late answer of {}", &first[..17])), "{listed}");
}

/// Without a key an identical call is a new operation, except right after a call whose outcome was reported as unknown: then the caller is
/// told that the first call was done. A client that means a second operation uses another key.
#[test]
fn a_repetition_without_a_key_after_a_late_answer_is_not_sent() {
    let world = answering_late();
    let gateway = world.serve();
    let agent = gateway.modern();
    let change =
        |meta: Value| agent.ask("tools/call", json!({ "name": "company__change_it", "arguments": {}, "_meta": meta }));
    let unknown = change(json!({})).refusal();
    assert_eq!(unknown["effect"], "unknown", "{unknown}");
    let handle = unknown["handle"].as_str().unwrap();
    world.write("answer", "");
    let show = || world.run(&["effects", "show", handle]).ended(0).stdout;
    until("the answer to settle it", || Some(show()).filter(|shown| shown.contains("state     completed")));
    for _ in 0..2 {
        let refused = change(json!({})).refusal();
        assert_eq!((&refused["gate"], &refused["effect"]), (&json!("fence"), &json!("happened")), "{refused}");
        assert!(refused["hint"].as_str().unwrap().contains("servanda_operation_id"), "{refused}");
    }
    assert_eq!(world.stub_heard("tools/call").matches("tools/call").count(), 1, "it was sent once");
    change(json!({ "servanda/idempotency-key": "another" })).success();
    assert_eq!(world.stub_heard("tools/call").matches("tools/call").count(), 2, "a second operation that is named");
}

#[test]
fn a_tool_that_insists_on_a_key_says_how_to_give_one() {
    let mut insists = pay_invoice();
    insists.0["idempotency"] = json!({ "supported": true, "required": true, "key_header": "Idempotency-Key",
        "ttl_seconds": 60, "payload_hash_required": true, "operation_argument": true });
    let world = World::company([insists, count_effects()]);
    let gateway = world.serve();
    let refused = pay(&gateway, None, None, 100).refusal();
    assert_eq!(refused["error_code"], "STRUCTURAL_VIOLATION");
    assert!(refused["hint"].as_str().unwrap().contains("servanda_operation_id"), "{refused}");
    let listed = gateway.modern().ask("tools/list", json!({}));
    let tools = listed.message["result"]["tools"].as_array().unwrap();
    let pays = tools.iter().find(|tool| tool["name"] == "company__pay_invoice").unwrap();
    assert_eq!(pays["inputSchema"]["properties"]["servanda_operation_id"]["type"], "string");
    pay(&gateway, Some("order-7"), None, 100).success();
}
