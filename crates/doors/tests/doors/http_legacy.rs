//! The legacy era over HTTP: the handshake, lists, calls, progress and cancellation.

use serde_json::{Value, json};

use crate::{
    fixture::within,
    http_client::{Server, initialize, legacy, request},
};

#[tokio::test]
async fn initialize_negotiates() {
    let server = Server::start().await;
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1900-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let answer = server.send(&legacy(None, initialize(asked))).await;
        let result = &answer.json()["result"];
        assert_eq!(answer.status, 200);
        assert_eq!(result["protocolVersion"], answered, "{asked}");
        let mut capabilities = json!({
            "tools": {"listChanged": true},
            "prompts": {"listChanged": true},
            "resources": {"subscribe": true, "listChanged": true},
            "completions": {},
            "logging": {},
        });
        if answered == "2025-11-25" {
            capabilities["tasks"] = json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}});
        }
        assert_eq!(result["capabilities"], capabilities, "{asked}");
        assert_eq!(result["serverInfo"], json!({"name": "servanda", "version": "0.1.0"}));
        assert_eq!(result["instructions"], "use \"echo\" first");
        assert!(answer.session().is_some());
    }
    for params in [json!({}), json!({"protocolVersion": 5})] {
        let answer = server.send(&legacy(None, request(1, "initialize", params))).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (200, -32602));
        assert!(answer.session().is_none());
    }
}

/// Columns: a method, its parameters, and the code it is refused with.
#[tokio::test]
async fn requests_are_refused_by_code() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    for (method, params, code) in [
        ("no/such", json!({}), -32601),
        ("server/discovery", json!({}), -32601),
        ("tasks/update", json!({"taskId": "t1"}), -32601),
        ("resources/read", json!({}), -32602),
        ("resources/read", json!({"uri": 5}), -32602),
        ("resources/read", json!({"uri": "missing"}), -32002),
        ("resources/subscribe", json!({}), -32602),
        ("resources/subscribe", json!({"uri": "missing:1"}), -32002),
        ("resources/unsubscribe", json!({"uri": null}), -32602),
        ("prompts/get", json!({}), -32602),
        ("tasks/get", json!({}), -32602),
        ("tasks/result", json!({"taskId": 1}), -32602),
        ("logging/setLevel", json!({}), -32602),
        ("logging/setLevel", json!({"level": "loud"}), -32602),
        ("logging/setLevel", json!({"level": 3}), -32602),
        ("tools/list", json!({"cursor": "zz"}), -32602),
        ("tools/list", json!({"cursor": "6"}), -32602),
        ("tools/list", json!({"cursor": "ff"}), -32602),
        ("tools/list", json!({"cursor": 5}), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({"name": 5}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": {"progressToken": 1.5}}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": {"progressToken": null}}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": {"servanda/timeout-ms": "1"}}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": {"servanda/timeout-ms": -1}}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": {"servanda/chain": 1}}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": {"servanda/step-id": null}}), -32602),
        ("tools/call", json!({"name": "echo", "_meta": {"servanda/chain": "c".repeat(257)}}), -32602),
        ("tools/call", json!({"name": "panic"}), -32603),
    ] {
        let answer = server.send(&legacy(Some(&session), request("r", method, params.clone()))).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (200, code), "{method} {params}: {}", answer.body);
        assert_eq!(answer.json()["id"], "r");
    }
}

#[tokio::test]
async fn an_unknown_tool_is_an_error_with_the_refusal() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let answer = server.send(&legacy(Some(&session), request(1, "tools/call", json!({"name": "nope"})))).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (200, -32602));
    let error = &answer.json()["error"];
    assert_eq!(error["message"], "no tool is called `nope`");
    assert_eq!(error["data"]["hint"], "list the tools");
    assert_eq!(error["data"]["gate"], "resolve");
}

#[tokio::test]
async fn tools_are_listed_in_pages() {
    let server = Server::start_with(|options| options.page_size = 2).await;
    let session = server.begin_session().await;
    let list = async |cursor: Option<&str>| {
        let params = cursor.map_or_else(|| json!({}), |cursor| json!({"cursor": cursor}));
        let answer = server.send(&legacy(Some(&session), request(1, "tools/list", params))).await;
        let result = answer.json()["result"].clone();
        let names: Vec<String> =
            result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        (names, result["nextCursor"].as_str().map(str::to_owned), answer.body)
    };
    let (names, second, body) = list(None).await;
    assert_eq!(names, ["echo", "panic"]);
    assert!(body.contains("\"x-order\": [\n"), "definitions go out as they are: {body}");
    assert_eq!(list(Some("")).await.0, names, "an empty cursor is the beginning");
    let (names, third, _) = list(second.as_deref()).await;
    assert_eq!(names, ["progress", "refuse"]);
    assert_eq!(list(second.as_deref()).await.0, names, "the same cursor gives the same page");

    // Tools were added and removed before and after the tool that the cursor names; none after it is repeated or
    // missed.
    server.fixture.offer(&["aardvark", "echo", "refuse", "rest", "slow", "zebra"]);
    let (names, fourth, _) = list(third.as_deref()).await;
    assert_eq!(names, ["rest", "slow"]);
    // That tool itself is gone: the page continues at its former position.
    server.fixture.offer(&["aardvark", "echo", "rest", "slow", "zebra"]);
    assert_eq!(list(third.as_deref()).await.0, ["slow", "zebra"]);
    let (names, end, _) = list(fourth.as_deref()).await;
    assert_eq!((names, end), (vec!["zebra".to_owned()], None));
}

#[tokio::test]
async fn a_call_hands_on_what_the_client_said() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let meta = json!({
        "acme/x": [1],
        "servanda/timeout-ms": 1500,
        "servanda/chain": "order 7",
        "servanda/idempotency-key": "k",
        "servanda/operation-id": "o",
        "servanda/step-id": "s",
        "servanda/workflow-id": "w",
        "servanda/run-id": "r",
        "traceparent": "00-ab-cd-01",
        "tracestate": "s",
    });
    let params = json!({
        "name": "echo", "arguments": {"n": 1}, "task": {"ttl": 5}, "_meta": meta,
        "inputResponses": {}, "requestState": "not of this era",
    });
    let call = legacy(Some(&session), request(1, "tools/call", params)).with("traceparent", "00-header");
    let call = call.with("idempotency-key", "k");
    let answer = server.send(&call).await;
    let result = &answer.json()["result"];
    assert_eq!(
        result["_meta"]["servanda/observation"],
        json!({
            "client": "testclient 1.0",
            "session": session,
            "principal": "local",
            "callerWaitMs": 1500,
            "traceParent": "00-ab-cd-01",
            "chain": "order 7",
            "keys": ["k", "k", "o", "s", "w", "r"],
            "task": {"ttl": 5},
            "requester": {"era": "Legacy", "capabilities": "{}", "affinity": session, "principal": "local"},
            "terms": {
                "meta": [["acme/x", "[1]"], ["tracestate", "\"s\""]],
                "wantsProgress": false,
                "logLevel": null,
                "hears": true,
                "inputResponses": null,
                "requestState": null,
            },
        })
    );
    assert!(result.get("resultType").is_none(), "the legacy era has none");

    let plain = legacy(Some(&session), request(1, "tools/call", json!({"name": "echo"})));
    let answer = server.send(&plain.clone().with("traceparent", "00-header")).await;
    assert_eq!(answer.json()["result"]["_meta"]["servanda/observation"]["traceParent"], "00-header");
    let answer = server.send(&plain.with("traceparent", &"t".repeat(200))).await;
    assert_eq!(answer.json()["result"]["_meta"]["servanda/observation"]["traceParent"], Value::Null);
}

/// Columns: arguments as written, and as the gateway gets them.
#[tokio::test]
async fn arguments_arrive_byte_for_byte() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    for arguments in
        [r#"{ "b" : 1.0,  "a":12345678901234567890123, "a":"\u00e9" }"#, "[1, 2]", "null", "\"text\"", "7", "{\n}"]
    {
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments": {arguments} ,"name":"\u0065cho"}}}}"#
        );
        let answer = server.send(&legacy(Some(&session), request(1, "tools/call", json!({}))).body(&body)).await;
        assert_eq!(answer.json()["result"]["content"][0]["text"], arguments);
    }
    let answer = server.send(&legacy(Some(&session), request(1, "tools/call", json!({"name": "echo"})))).await;
    assert_eq!(answer.json()["result"]["content"][0]["text"], "", "none given, none handed on");
}

#[tokio::test]
async fn a_refusal_is_a_result() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let answer = server.send(&legacy(Some(&session), request(1, "tools/call", json!({"name": "refuse"})))).await;
    assert_eq!(answer.json()["result"]["isError"], true);
    assert_eq!(answer.content_type(), "application/json");
}

#[tokio::test]
async fn progress_comes_before_the_answer() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    for token in [json!("a \"token\""), json!(7)] {
        let params = json!({"name": "progress", "_meta": {"progressToken": token}});
        let mut events = server.stream(&legacy(Some(&session), request("p", "tools/call", params))).await;
        for step in 1..=3 {
            let message = events.next().await.unwrap();
            assert_eq!(message["method"], "notifications/progress");
            assert_eq!(message["params"], json!({"progressToken": token, "progress": step, "total": 3}));
        }
        let message = events.next().await.unwrap();
        assert_eq!(message["id"], "p");
        assert_eq!(message["result"]["content"][0]["text"], "done");
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn a_silent_stream_is_kept_alive() {
    let mut server = Server::start_with(|options| {
        options.keep_alive_ms = 1;
        options.stream_after_ms = 0;
    })
    .await;
    let session = server.begin_session().await;
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let mut events = server.stream(&legacy(Some(&session), request(1, "tools/call", params))).await;
    let started = server.started().await;
    assert_eq!(events.event().await.unwrap(), "", "the event that opens a stream");
    assert_eq!(events.frame().await.unwrap(), ": still here");
    started.release.send(()).unwrap();
    let message = events.next().await.unwrap();
    assert_eq!(message["result"]["content"][0]["text"], "late");
}

#[tokio::test]
async fn a_cancelled_request_gets_no_response_but_its_exchange_ends() {
    let mut server = Server::start().await;
    let session = server.begin_session().await;
    let call = legacy(Some(&session), request("c", "tools/call", json!({"name": "slow"})));
    let cancel = legacy(
        Some(&session),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c"}}),
    );

    let (answer, started) = {
        let server = &mut server;
        let pending = server.send_later(&call);
        let started = server.started().await;
        assert_eq!(server.send(&cancel).await.status, 202);
        (pending.await.unwrap(), started)
    };
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (202, ""));
    assert!(started.cancel.is_cancelled());
    started.release.send(()).unwrap();
    within(started.ended).await.unwrap();

    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let mut events = server.stream(&legacy(Some(&session), request("c", "tools/call", params))).await;
    let started = server.started().await;
    assert_eq!(server.send(&cancel).await.status, 202);
    assert_eq!(events.next().await, None, "the stream ends");
    assert!(started.cancel.is_cancelled());
}

#[tokio::test]
async fn an_id_is_used_once_at_a_time_in_a_session_and_freely_across_sessions() {
    let mut server = Server::start().await;
    let (one, two) = (server.begin_session().await, server.begin_session().await);
    let slow = |session: &str| legacy(Some(session), request(1, "tools/call", json!({"name": "slow"})));

    let first = server.send_later(&slow(&one));
    let first_started = server.started().await;
    let second = server.send_later(&slow(&two));
    let second_started = server.started().await;
    assert_eq!(second_started.session.as_deref(), Some(two.as_str()));

    for duplicate in [slow(&one), legacy(Some(&one), request(1, "ping", json!({})))] {
        let answer = server.send(&duplicate).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, -32600));
    }

    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(server.send(&legacy(Some(&one), cancel)).await.status, 202);
    assert_eq!(first.await.unwrap().status, 202);
    assert!(first_started.cancel.is_cancelled());
    assert!(!second_started.cancel.is_cancelled(), "the other session's request of that id goes on");
    second_started.release.send(()).unwrap();
    assert_eq!(second.await.unwrap().json()["result"]["content"][0]["text"], "late");

    let again = server.send(&legacy(Some(&one), request(1, "ping", json!({})))).await;
    assert_eq!(again.status, 200, "the id is free again");
}

#[tokio::test]
async fn calls_have_a_limit_and_the_client_is_told_to_come_back() {
    let mut server = Server::start_with(|options| options.calls_in_flight_max = 1).await;
    let session = server.begin_session().await;
    let slow = |id: i64| legacy(Some(&session), request(id, "tools/call", json!({"name": "slow"})));
    let first = server.send_later(&slow(1));
    let started = server.started().await;
    let answer = server.send(&slow(2)).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, -32603));
    assert_eq!(answer.headers["retry-after"], "1");
    assert_eq!(answer.json()["error"]["data"]["retryAfterMs"], 1000);
    assert_eq!(server.send(&legacy(Some(&session), request(3, "ping", json!({})))).await.status, 200);
    started.release.send(()).unwrap();
    assert_eq!(first.await.unwrap().status, 200);
}

/// Before there is a stream there is nothing to come back for, and still the client's disconnect cancels nothing.
#[tokio::test]
async fn a_client_that_goes_away_does_not_cancel() {
    let mut server = Server::start().await;
    let session = server.begin_session().await;
    let slow = legacy(Some(&session), request(1, "tools/call", json!({"name": "slow"})));
    let pending = server.send_later(&slow);
    let started = server.started().await;
    pending.abort();
    assert!(pending.await.unwrap_err().is_cancelled());
    let taken = server.send(&legacy(Some(&session), request(1, "ping", json!({})))).await;
    assert_eq!((taken.status.as_u16(), taken.code()), (400, -32600), "the request is still under way");
    assert!(!started.cancel.is_cancelled());

    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(server.send(&legacy(Some(&session), cancel)).await.status, 202);
    assert!(started.cancel.is_cancelled(), "a client that comes back can cancel it");
    started.release.send(()).expect("the call still runs");
    within(started.ended).await.expect("and comes to its end");
    assert_eq!(server.send(&legacy(Some(&session), request(1, "ping", json!({})))).await.status, 200);
}
