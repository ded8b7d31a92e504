//! The stdio door in front of the whole gateway, for clients that start a command.

use serde_json::{Value, json};

use crate::{
    contract::{changes, count_effects, get_invoice, reads, slow_change},
    pipe::{legacy, modern},
    world::{World, until},
};

fn invoice() -> Value {
    json!({ "name": "company__get_invoice", "arguments": { "invoice_id": "inv_1001" } })
}

#[test]
fn a_legacy_conversation_with_typed_ids() {
    let world = World::company([get_invoice(), count_effects()]);
    let mut pipe = world.stdio();
    let early = pipe.ask(&legacy(1, "tools/list", json!({})));
    assert_eq!(early.message["error"]["code"], -32600, "there was no handshake: {}", early.raw);
    pipe.shake_hands();
    for id in [json!(0), json!("0"), json!(""), json!("a \"b\" \\ é"), json!(-7), json!(9_007_199_254_740_991_i64)] {
        let listed = pipe.ask(&legacy(id.clone(), "tools/list", json!({})));
        assert_eq!(listed.message["id"], id);
        assert_eq!(listed.result()["tools"].as_array().unwrap().len(), 2);
        let called = pipe.ask(&legacy(id, "tools/call", invoice()));
        assert_eq!(called.success()["structuredContent"]["invoice_id"], "inv_1001");
    }
    assert_eq!(pipe.ask(&legacy("p", "ping", json!({}))).result(), &json!({}));
}

/// The very first message may be a modern request: there is no handshake to wait for.
#[test]
fn a_modern_request_comes_first() {
    let world = World::company([get_invoice(), count_effects()]);
    let mut pipe = world.stdio();
    let called = pipe.ask(&modern(0, "tools/call", invoice()));
    assert_eq!(called.success()["resultType"], "complete");
    assert_eq!(pipe.ask(&modern("d", "server/discover", json!({}))).result()["supportedVersions"][0], "2026-07-28");
    assert_eq!(pipe.ask(&modern("l", "tools/list", json!({}))).result()["tools"].as_array().unwrap().len(), 2);
    // Both eras on one connection.
    pipe.shake_hands();
    pipe.ask(&legacy(1, "tools/call", invoice())).success();
    pipe.ask(&modern(2, "tools/call", invoice())).success();
}

#[test]
fn malformed_lines_do_not_end_the_connection() {
    let world = World::company([get_invoice()]);
    let mut pipe = world.stdio();
    pipe.shake_hands();
    let lines: [&[u8]; 9] = [
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"",
        b"not json at all",
        b"",
        b"[]",
        b"\xff\xfe\x00",
        b"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}",
        b"{\"id\":8}",
        b"null",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
    ];
    for (number, line) in lines.into_iter().enumerate() {
        pipe.write([line, b"\n"].concat());
        pipe.send(&legacy(format!("after {number}"), "ping", json!({})));
        // The invalid line may get an error as its own answer; then the answer to the ping comes.
        let answer = until("the answer after the malformed line", || {
            let reply = pipe.read();
            if reply.message["id"] == format!("after {number}") {
                return Some(reply);
            }
            assert!(reply.message["error"]["code"].as_i64().unwrap() <= -32600, "{}", reply.raw);
            None
        });
        assert_eq!(answer.result(), &json!({}));
    }
    pipe.ask(&legacy(1, "tools/call", invoice())).success();
}

#[test]
fn two_messages_in_one_write_and_one_message_in_two() {
    let world = World::company([get_invoice(), count_effects()]);
    let mut pipe = world.stdio();
    let one = modern("one", "tools/call", invoice());
    let two = modern("two", "tools/call", json!({ "name": "company__count_effects" }));
    pipe.write(format!("{one}\n{two}\n"));
    let mut ids = [pipe.read(), pipe.read()].map(|reply| reply.message["id"].as_str().unwrap().to_owned());
    ids.sort();
    assert_eq!(ids, ["one", "two"]);
    let text = format!("{one}\r\n");
    let (front, back) = text.split_at(text.len() / 2);
    pipe.write(front);
    pipe.write(back);
    assert_eq!(pipe.read().message["id"], "one");
}

/// The end of the input ends the connection, after running calls have finished.
#[test]
fn the_end_of_the_input_ends_everything() {
    let world = World::company([slow_change(), count_effects()]).unpinned();
    let mut pipe = world.stdio();
    pipe.ask(&modern(1, "tools/call", json!({ "name": "company__count_effects" }))).success();
    let params = json!({ "name": "company__misbehave_slow", "arguments": { "milliseconds": 500 } });
    pipe.send(&modern("last", "tools/call", params));
    world.record_of("company__misbehave_slow", "dispatching");
    pipe.close();
    let answer = pipe.read();
    assert_eq!(answer.message["id"], "last");
    answer.success();
    let (code, rest, stderr) = pipe.wait();
    assert_eq!((code, rest, stderr.as_str()), (Some(0), Vec::new(), ""), "nothing else is said");
    world.assert_nothing_left();
    assert_eq!(world.record(&answer.call_id())["outcome"], "completed");
}

#[test]
fn a_signal_ends_everything() {
    let world = World::company([count_effects()]);
    let mut pipe = world.stdio();
    pipe.ask(&modern(1, "tools/call", json!({ "name": "company__count_effects" }))).success();
    pipe.terminate();
    let (code, rest, _) = pipe.wait();
    assert_eq!((code, rest), (Some(0), Vec::new()));
    world.assert_nothing_left();
}

/// The client sends nothing at all.
#[test]
fn a_client_that_says_nothing() {
    let world = World::company([count_effects()]).unpinned();
    let mut pipe = world.stdio();
    pipe.close();
    let (code, rest, stderr) = pipe.wait();
    assert_eq!((code, rest, stderr.as_str()), (Some(0), Vec::new(), ""));
}

#[test]
fn progress_and_changes_come_over_pipes() {
    let report = reads("monthly_report").input(&["month"], &json!({ "month": { "type": "string" } }));
    let world = World::company([report, changes("admin_toggle_beta_tools"), reads("beta_outstanding_total")]);
    let mut pipe = world.stdio();
    until("the upstream to be asked", || {
        let listed = pipe.ask(&modern("l", "tools/list", json!({})));
        (listed.result()["tools"].as_array().unwrap().len() == 2).then_some(())
    });
    pipe.shake_hands();
    let meta = json!({ "progressToken": "mine" });
    let params = json!({ "name": "company__monthly_report", "arguments": { "month": "2026-10" }, "_meta": meta });
    pipe.send(&legacy("r", "tools/call", params));
    // The notification that tools are there for the first time may come late.
    let mut note = pipe.read();
    while note.message["method"] == "notifications/tools/list_changed" {
        note = pipe.read();
    }
    for step in 1..=5 {
        if step > 1 {
            note = pipe.read();
        }
        assert_eq!(note.message["method"], "notifications/progress", "{}", note.raw);
        assert_eq!(note.message["params"]["progressToken"], "mine");
        assert_eq!(note.message["params"]["progress"].as_f64(), Some(f64::from(step)));
        assert_eq!(note.raw.matches("progressToken").count(), 1, "{}", note.raw);
    }
    assert_eq!(pipe.read().message["id"], "r");
    pipe.send(&legacy("t", "tools/call", json!({ "name": "company__admin_toggle_beta_tools" })));
    let mut said =
        [pipe.read(), pipe.read()].map(|reply| reply.message["method"].as_str().unwrap_or("answer").to_owned());
    said.sort();
    assert_eq!(said, ["answer", "notifications/tools/list_changed"]);
}
