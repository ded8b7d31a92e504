//! Messages before and beside answers: progress, list changes, cancellation, and the end of the gateway.

use std::{net::Shutdown, thread};

use serde_json::{Value, json};

use crate::{
    agent::{Agent, Reply},
    contract::{changes, count_effects, reads, slow_change, slow_read},
    http::Exchange,
    world::{World, until},
};

#[test]
fn progress_comes_with_the_clients_own_token() {
    let report = reads("monthly_report").input(&["month"], &json!({ "month": { "type": "string" } }));
    let world = World::company([report]);
    let gateway = world.serve();
    for (agent, token) in [(gateway.legacy(), json!("my \"own\" token")), (gateway.modern(), json!(77))] {
        let params = json!({
            "name": "company__monthly_report",
            "arguments": { "month": "2026-10" },
            "_meta": { "progressToken": token },
        });
        let mut stream = agent.begin("report", "tools/call", params);
        assert_eq!(stream.headers["content-type"], "text/event-stream");
        let mut steps = Vec::new();
        let answer = loop {
            let raw = stream.next_event().expect("an answer");
            let reply = Reply::of(raw);
            if reply.message.get("id").is_some() {
                break reply;
            }
            assert_eq!(reply.message["method"], "notifications/progress");
            assert_eq!(reply.message["params"]["progressToken"], token);
            assert_eq!(reply.raw.matches("progressToken").count(), 1, "{}", reply.raw);
            steps.push(reply.message["params"]["progress"].as_f64().unwrap());
        };
        assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0], "each once, in order");
        assert_eq!(answer.message["id"], "report");
        assert_eq!(answer.success()["structuredContent"]["month"], "2026-10");
        assert_eq!(stream.next_event(), None);
    }
}

#[test]
fn changes_of_the_list_are_heard() {
    let world = World::company([changes("admin_toggle_beta_tools"), reads("beta_outstanding_total"), count_effects()]);
    let gateway = world.serve();
    let beta = "company__beta_outstanding_total".to_owned();
    let modern = gateway.modern();
    until("the upstream to be asked", || (!modern.tools().contains(&beta)).then_some(()));
    let withdrawn = modern.call(&beta, json!({})).refusal();
    assert_eq!((&withdrawn["gate"], &withdrawn["error_code"]), (&json!("resolve"), &json!("DEPENDENCY_UNAVAILABLE")));

    let legacy = gateway.legacy();
    let mut session_stream = legacy.listen();
    let mut subscription =
        modern.begin("listening", "subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    assert_eq!(heard(&mut subscription), "notifications/subscriptions/acknowledged");
    for shown in [true, false] {
        modern.call("company__admin_toggle_beta_tools", json!({})).success();
        assert_eq!(heard(&mut session_stream), "notifications/tools/list_changed");
        assert_eq!(heard(&mut subscription), "notifications/tools/list_changed");
        assert_eq!(legacy.tools().contains(&beta), shown);
        if shown {
            legacy.call(&beta, json!({})).success();
        }
    }
    drop(gateway);
    assert_eq!(session_stream.next_event(), None, "the stream ends with the gateway");
}

fn heard(stream: &mut Exchange) -> String {
    let message: Value = serde_json::from_str(&stream.next_event().expect("a message")).unwrap();
    message["method"].as_str().unwrap().to_owned()
}

/// An upstream that never answers: calls wait for it, and can still be cancelled without a trace.
#[test]
fn a_call_cancelled_before_it_is_sent_was_not_executed() {
    let world = World::empty();
    let mute = world.path("mute").display().to_string();
    world.configure(&json!({ "company": { "command": "sh", "args": ["-c", "cat > \"$0\"", mute] } }));
    world.add(&changes("pay_invoice"));
    let gateway = world.serve();
    until("the upstream to be started", || world.has("mute").then_some(()));
    let agent = gateway.legacy();
    let waiting = call_aside(&agent, "taken-back", "company__pay_invoice", json!({}));
    // Its record says that it is about to be sent; the upstream does not read it.
    world.record_of("company__pay_invoice", "dispatching");
    agent.notify("notifications/cancelled", &json!({ "requestId": "taken-back", "reason": "changed my mind" }));
    let (_, body) = waiting.join().unwrap();
    assert_eq!(body, "", "a cancelled request gets no answer");
    let record = world.record_of("company__pay_invoice", "not_executed");
    assert_eq!(record["refusal"]["effect"], "none");
    assert!(record["refusal"]["message"].as_str().unwrap().contains("before anything was sent"), "{record:#}");
    assert!(!world.read("mute").contains("tools/call"), "it was not sent");
}

/// After a change was sent, the gateway waits for its answer, whether or not the caller still listens. A record with `dispatching` does not
/// mean that it was sent: a call cancelled between the two is `not_executed`. So the test waits until the server has it, and the server
/// does not answer before the call was cancelled.
#[test]
fn a_change_cancelled_after_it_was_sent_is_recorded_as_it_ended() {
    let world = World::empty();
    let done = json!({ "content": [{ "type": "text", "text": "done" }] });
    world.configure(&json!({ "company": world.stub_until(&["change_it"], &done, "answer") }));
    world.add(&changes("change_it"));
    let gateway = world.serve();
    let agent = gateway.legacy();
    let change = call_aside(&agent, "change", "company__change_it", json!({}));
    world.stub_heard("tools/call");
    agent.notify("notifications/cancelled", &json!({ "requestId": "change" }));
    assert_eq!(change.join().unwrap().0, 202);
    world.write("answer", "");
    let record = world.ended_record_of("company__change_it");
    assert_eq!((&record["outcome"], &record["class"]), (&json!("completed"), &json!("SUCCESS")), "{record:#}");
}

/// A read whose caller has left is dropped, and the server is told. A modern client cancels by closing the connection.
#[test]
fn a_read_cancelled_after_it_was_sent_is_let_go() {
    let world = World::empty();
    world.configure(&json!({ "company": world.stub(&["get_invoice", "count_effects"], None) }));
    world.add(&reads("get_invoice"));
    world.add(&reads("count_effects"));
    let gateway = world.serve();
    let question = gateway.modern().question("read", "tools/call", json!({ "name": "company__get_invoice" }));
    let connection = question.send(gateway.address);
    world.stub_heard("tools/call");
    connection.shutdown(Shutdown::Both).unwrap();
    let record = world.record_of("company__get_invoice", "tool_error");
    assert_eq!(record["refusal"]["effect"], "none");
    assert!(record["refusal"]["message"].as_str().unwrap().contains("cancelled after it was sent"), "{record:#}");

    let agent = gateway.legacy();
    let waiting = call_aside(&agent, "read", "company__count_effects", json!({}));
    world.stub_heard("count_effects");
    agent.notify("notifications/cancelled", &json!({ "requestId": "read" }));
    assert_eq!(waiting.join().unwrap().0, 202);
    world.record_of("company__count_effects", "tool_error");
    world.stub_heard("notifications/cancelled");
}

/// SIGTERM: running calls are finished, answered and recorded; then everything ends, upstreams included.
#[test]
fn a_call_in_flight_survives_a_polite_end() {
    let world = World::company([slow_change(), count_effects()]);
    let mut gateway = world.serve();
    let agent = gateway.legacy();
    agent.call("company__count_effects", json!({})).success();
    let waiting = call_aside(&agent, 1, "company__misbehave_slow", json!({ "milliseconds": 1000 }));
    world.record_of("company__misbehave_slow", "dispatching");
    gateway.terminate();
    let (status, body) = waiting.join().unwrap();
    assert_eq!(status, 200);
    let reply = Reply::of(body);
    reply.success();
    assert_eq!(gateway.wait(), Some(0), "{}", gateway.said());
    world.assert_nothing_left();
    let record = world.record(&reply.call_id());
    assert_eq!((&record["outcome"], &record["class"]), (&json!("completed"), &json!("SUCCESS")));
}

/// A call that does not finish in time is given up: the record of a change says that its outcome is unknown.
#[test]
fn a_call_that_outlasts_the_end_is_recorded_as_unknown() {
    let world = World::company([changes("misbehave_hang"), slow_read(), count_effects()]);
    let mut gateway = world.serve();
    let agent = gateway.legacy();
    agent.call("company__count_effects", json!({})).success();
    let change = call_aside(&agent, 1, "company__misbehave_hang", json!({}));
    let read = call_aside(&agent, 2, "company__misbehave_slow", json!({ "milliseconds": 30_000 }));
    world.record_of("company__misbehave_hang", "dispatching");
    gateway.terminate();
    for (waiting, says) in
        [(change, "it may have happened: do not send it again"), (read, "the upstream was lost before it answered")]
    {
        let (status, body) = waiting.join().unwrap();
        assert!(status == 200 && body.contains(says) && body.contains("call_id"), "{status}: {body}");
    }
    assert_eq!(gateway.wait(), Some(0), "{}", gateway.said());
    world.assert_nothing_left();
    world.record_of("company__misbehave_hang", "unknown");
    world.record_of("company__misbehave_slow", "tool_error");
}

pub(crate) fn call_aside(
    agent: &Agent,
    id: impl Into<Value>,
    tool: &str,
    arguments: impl Into<Value>,
) -> thread::JoinHandle<(u16, String)> {
    let question = agent.question(id, "tools/call", json!({ "name": tool, "arguments": arguments.into() }));
    let agent = agent.clone();
    thread::spawn(move || {
        let exchange = agent.exchange(&question);
        (exchange.status, exchange.answer())
    })
}
