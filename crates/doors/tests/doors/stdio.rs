//! The stdio door: the same answers, on one line each.

use serde_json::{Value, json};

use crate::{
    fixture::{end_unknown, within},
    http_client::{initialize, meta, request},
    schema::Era,
    stdio_client::Pipe,
};

fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

fn cancelled(id: impl Into<Value>) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id.into()}})
}

fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    params["_meta"] = meta(params["_meta"].take());
    request(id, method, params)
}

async fn shake_hands(pipe: &mut Pipe) {
    let answer = pipe.ask(Era::Legacy, &initialize("2025-06-18")).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    pipe.send(&initialized()).await;
}

/// Pings: everything that was to be answered before has been.
async fn is_alive(pipe: &mut Pipe) {
    let answer = pipe.ask(Era::Legacy, &request("alive", "ping", json!({}))).await;
    assert_eq!(answer, json!({"jsonrpc": "2.0", "id": "alive", "result": {}}));
}

#[tokio::test]
async fn legacy_requests_wait_for_the_handshake_and_modern_ones_do_not() {
    let mut pipe = Pipe::open();
    is_alive(&mut pipe).await;
    for method in ["tools/list", "tools/call", "no/such"] {
        let answer = pipe.ask(Era::Legacy, &request(1, method, json!({}))).await;
        assert_eq!(answer["error"]["code"], -32600, "{method}");
        assert!(answer["error"]["data"]["hint"].as_str().unwrap().contains("initialize"));
    }
    let answer = pipe.ask(Era::Modern, &modern(1, "tools/list", json!({}))).await;
    assert_eq!(answer["result"]["resultType"], "complete");

    shake_hands(&mut pipe).await;
    let answer = pipe.ask(Era::Legacy, &request(1, "tools/list", json!({}))).await;
    assert_eq!(answer["result"]["tools"].as_array().unwrap().len(), 5);
    let answer = pipe.ask(Era::Legacy, &request(1, "no/such", json!({}))).await;
    assert_eq!(answer["error"]["code"], -32601);
    let answer = pipe.ask(Era::Legacy, &request(1, "tools/call", json!({"name": "echo"}))).await;
    assert_eq!(answer["result"]["_meta"]["servanda/observation"]["client"], "testclient 1.0");
    assert!(answer["result"].get("resultType").is_none());
    let answer = pipe.ask(Era::Modern, &modern(1, "tools/call", json!({"name": "echo"}))).await;
    assert_eq!(answer["result"]["_meta"]["servanda/observation"]["client"], "modern 2");
}

/// Columns: a modern request, and the code it is refused with.
#[tokio::test]
async fn modern_requests_are_refused_by_code() {
    let mut pipe = Pipe::open();
    let with_version = |version: Value| {
        modern(1, "tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": version}}))
    };
    for (message, code) in [
        (request(1, "server/discover", json!({})), -32602),
        (request(1, "subscriptions/listen", json!({})), -32602),
        (with_version(json!(5)), -32602),
        (with_version(json!("2025-11-25")), -32022),
        (with_version(json!("1900-01-01")), -32022),
        (modern(1, "ping", json!({})), -32601),
        (modern(1, "initialize", json!({})), -32601),
        (modern(1, "no/such", json!({})), -32601),
        (modern(1, "tools/call", json!({"name": "nope"})), -32602),
        (modern(1, "subscriptions/listen", json!({})), -32602),
    ] {
        let answer = pipe.ask(Era::Modern, &message).await;
        assert_eq!(answer["error"]["code"], code, "{message}");
        assert_eq!(answer["id"], 1);
    }
    let answer = pipe.ask(Era::Modern, &modern("d", "server/discover", json!({}))).await;
    assert_eq!(answer["result"]["supportedVersions"][0], "2026-07-28");
}

/// Columns: a line that is not a message, and the code of its answer, if it gets one.
#[tokio::test]
async fn lines_that_are_no_messages_never_end_it_and_start_no_storm() {
    let mut pipe = Pipe::open_with(|options| options.line_bytes_max = 500);
    let long_noise = "x".repeat(5000);
    let long_message = request(1, "ping", json!({"padding": "x".repeat(5000)})).to_string();
    for (line, code) in [
        ("", None),
        ("   ", None),
        ("hello", None),
        ("[INFO] starting", None),
        ("[]", None),
        ("[1, 2]", None),
        ("\"text\"", None),
        ("null", None),
        ("5", None),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#, None),
        (r#"{"jsonrpc":"2.0","error":{"code":1,"message":"no"}}"#, None),
        (r#"{"jsonrpc":"1.0","id":1,"result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","id":{},"error":5}"#, None),
        (r#"[{"jsonrpc":"2.0","id":1,"result":{}}]"#, None),
        (r#"{"jsonrpc":"2.0","method":"notifications/unheard-of"}"#, None),
        (r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":5}"#, None),
        (&long_noise, None),
        ("{", Some(-32700)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping""#, Some(-32700)),
        ("{}", Some(-32600)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, Some(-32600)),
        (r#"{"jsonrpc":"2.0","id":1,"id":1,"method":"ping"}"#, Some(-32600)),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, Some(-32600)),
        (&long_message, Some(-32600)),
    ] {
        pipe.write(line).await;
        if let Some(code) = code {
            let answer = pipe.read(Era::Legacy, "").await.unwrap();
            assert_eq!(answer["error"]["code"], code, "{line}");
            assert!(answer.get("id").is_none(), "{line}");
        }
        is_alive(&mut pipe).await;
    }
    let bytes = b"\xff\xfe{\x80\n".as_slice();
    within(tokio::io::AsyncWriteExt::write_all(pipe.input.as_mut().unwrap(), bytes)).await.unwrap();
    is_alive(&mut pipe).await;
}

#[tokio::test]
async fn progress_comes_before_the_answer_in_both_eras() {
    let mut pipe = Pipe::open();
    shake_hands(&mut pipe).await;
    let params = json!({"name": "progress", "_meta": {"progressToken": "t"}});
    for (era, message) in [
        (Era::Legacy, request(1, "tools/call", params.clone())),
        (Era::Modern, modern(1, "tools/call", params.clone())),
    ] {
        pipe.send(&message).await;
        for step in 1..=3 {
            let note = pipe.read(era, "").await.unwrap();
            assert_eq!(note["params"], json!({"progressToken": "t", "progress": step, "total": 3}));
        }
        assert_eq!(pipe.read(era, "tools/call").await.unwrap()["id"], 1);
    }
}

#[tokio::test]
async fn calls_run_beside_each_other_and_are_cancelled_by_id() {
    let mut pipe = Pipe::open();
    shake_hands(&mut pipe).await;
    let slow = |id: i64| request(id, "tools/call", json!({"name": "slow"}));
    pipe.send(&slow(1)).await;
    let first = pipe.started().await;
    pipe.send(&modern(2, "tools/call", json!({"name": "slow"}))).await;
    let second = pipe.started().await;
    pipe.send(&slow(3)).await;
    let third = pipe.started().await;
    for duplicate in [slow(1), request(1, "ping", json!({})), modern(2, "tools/list", json!({}))] {
        assert_eq!(pipe.ask(Era::Legacy, &duplicate).await["error"]["code"], -32600);
    }

    pipe.send(&cancelled(1)).await;
    pipe.send(&cancelled(2)).await;
    pipe.send(&cancelled("unknown")).await;
    within(first.cancel.cancelled()).await;
    within(second.cancel.cancelled()).await;
    assert!(!third.cancel.is_cancelled());
    for call in [first, second] {
        call.release.send(()).expect("the call goes on");
        within(call.ended).await.unwrap();
    }
    third.release.send(()).unwrap();
    let answer = pipe.read(Era::Legacy, "tools/call").await.unwrap();
    assert_eq!(answer["id"], 3, "nothing came for the cancelled ones");
    is_alive(&mut pipe).await;
}

#[tokio::test]
async fn calls_have_a_limit() {
    let mut pipe = Pipe::open_with(|options| options.calls_in_flight_max = 1);
    pipe.send(&modern(1, "tools/call", json!({"name": "slow"}))).await;
    let started = pipe.started().await;
    let answer = pipe.ask(Era::Modern, &modern(2, "tools/call", json!({"name": "slow"}))).await;
    assert_eq!((&answer["error"]["code"], &answer["error"]["data"]["retryAfterMs"]), (&json!(-32603), &json!(1000)));
    started.release.send(()).unwrap();
    assert_eq!(pipe.read(Era::Modern, "tools/call").await.unwrap()["id"], 1);
}

#[tokio::test]
async fn a_legacy_client_hears_of_changes_once_it_is_initialized() {
    let mut pipe = Pipe::open();
    pipe.ask(Era::Legacy, &initialize("2025-11-25")).await;
    pipe.fixture.offer(&["echo"]);
    is_alive(&mut pipe).await;
    pipe.send(&initialized()).await;
    is_alive(&mut pipe).await;
    pipe.fixture.offer(&["slow"]);
    let message = pipe.read(Era::Legacy, "").await.unwrap();
    assert_eq!(message, json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
}

#[tokio::test]
async fn subscriptions_share_the_line_and_end_by_cancellation() {
    let mut pipe = Pipe::open_with(|options| options.subscriptions_max = 2);
    let listen = |id: &str| modern(id, "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let tag = |id: &str| json!({"io.modelcontextprotocol/subscriptionId": id});
    for id in ["a", "b"] {
        let message = pipe.ask(Era::Modern, &listen(id)).await;
        assert_eq!(message["params"], json!({"_meta": tag(id), "notifications": {"toolsListChanged": true}}));
    }
    assert_eq!(pipe.ask(Era::Modern, &listen("c")).await["error"]["code"], -32603, "there is a limit");
    assert_eq!(pipe.ask(Era::Modern, &listen("a")).await["error"]["code"], -32600, "the id is taken");

    pipe.fixture.offer(&["echo"]);
    for id in ["a", "b"] {
        assert_eq!(pipe.read(Era::Modern, "").await.unwrap()["params"]["_meta"], tag(id));
    }
    pipe.send(&cancelled("a")).await;
    is_alive(&mut pipe).await;
    pipe.fixture.offer(&["slow"]);
    assert_eq!(pipe.read(Era::Modern, "").await.unwrap()["params"]["_meta"], tag("b"));

    pipe.shutdown.cancel();
    let farewell = pipe.read(Era::Modern, "subscriptions/listen").await.unwrap();
    assert_eq!(
        (&farewell["id"], &farewell["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"]),
        (&json!("b"), &json!("b"))
    );
    assert_eq!(pipe.read(Era::Modern, "").await, None);
    within(pipe.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn the_end_of_the_input_lets_calls_finish() {
    let mut pipe = Pipe::open();
    pipe.send(&modern(1, "tools/call", json!({"name": "slow"}))).await;
    // The last line needs no line break.
    let last = modern(2, "tools/list", json!({})).to_string();
    let input = pipe.input.as_mut().unwrap();
    within(tokio::io::AsyncWriteExt::write_all(input, last.as_bytes())).await.unwrap();
    pipe.input = None;
    let started = pipe.started().await;
    assert_eq!(pipe.read(Era::Modern, "tools/list").await.unwrap()["id"], 2);
    started.release.send(()).unwrap();
    assert_eq!(pipe.read(Era::Modern, "tools/call").await.unwrap()["id"], 1);
    assert_eq!(pipe.read(Era::Modern, "").await, None);
    within(pipe.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn what_does_not_finish_in_time_is_given_up_but_goes_on() {
    let mut pipe = Pipe::open_with(|options| options.drain_ms_max = 0);
    pipe.send(&modern(1, "tools/call", json!({"name": "slow"}))).await;
    let started = pipe.started().await;
    pipe.shutdown.cancel();
    let answer = pipe.read(Era::Modern, "tools/call").await.unwrap();
    assert_eq!((&answer["id"], &answer["error"]), (&json!(1), &end_unknown()));
    assert_eq!(pipe.read(Era::Modern, "").await, None);
    within(pipe.task).await.unwrap().unwrap();
    within(started.cancel.cancelled()).await;
    started.release.send(()).unwrap();
    within(started.ended).await.unwrap();
}

#[tokio::test]
async fn a_client_that_stops_reading_ends_it() {
    let mut pipe = Pipe::open();
    pipe.send(&modern(1, "tools/call", json!({"name": "slow"}))).await;
    let started = pipe.started().await;
    pipe.output = None;
    pipe.send(&modern(2, "tools/list", json!({}))).await;
    assert!(within(pipe.task).await.unwrap().is_err());
    within(started.cancel.cancelled()).await;
}

#[tokio::test]
async fn a_client_that_does_not_read_cannot_hold_up_shutdown() {
    let mut pipe = Pipe::open_with(|options| options.drain_ms_max = 0);
    // More than the pipe and the queue hold: the door is stuck with an answer when it is told to stop.
    for id in 0..260 {
        pipe.send(&modern(id, "tools/list", json!({}))).await;
    }
    pipe.shutdown.cancel();
    let outcome = within(pipe.task).await.unwrap();
    assert_eq!(outcome.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}
