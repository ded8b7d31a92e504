//! Legacy sessions over HTTP: who has one, who loses it, and what its stream carries.

use reqwest::Method;
use serde_json::json;

use crate::{
    fixture::within,
    http_client::{Call, Server, initialize, legacy, request},
};

fn ping(session: &str) -> Call {
    legacy(Some(session), request(1, "ping", json!({})))
}

fn get(session: &str) -> Call {
    legacy(Some(session), json!({})).method(Method::GET).without("content-type").with("accept", "text/event-stream")
}

#[tokio::test]
async fn every_message_but_initialize_needs_its_session() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    assert_eq!(server.send(&ping(&session)).await.status, 200);
    let missing = |call: Call| call.without("mcp-session-id");
    let note = legacy(Some(&session), json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let delete = legacy(Some(&session), json!({})).method(Method::DELETE);
    for call in [ping(&session), note, get(&session), delete] {
        let answer = server.send(&missing(call.clone())).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, -32600), "{call:?}");
        assert!(answer.json()["error"]["data"]["hint"].as_str().unwrap().contains("initialize"));
        let answer = server.send(&call.clone().with("mcp-session-id", "5f0c5f6e-0000-4000-8000-000000000000")).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (404, -32600), "{call:?}");
    }
}

#[tokio::test]
async fn another_version_than_the_sessions_is_a_bad_request() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    assert_eq!(server.send(&ping(&session).without("mcp-protocol-version")).await.status, 200);
    for other in ["2025-03-26", "2025-06-18"] {
        let answer = server.send(&ping(&session).with("mcp-protocol-version", other)).await;
        assert_eq!(
            (answer.status.as_u16(), answer.code()),
            (400, -32600),
            "the session speaks 2025-11-25, not {other}"
        );
    }
    let old = server.begin_session_with("2025-06-18", json!({})).await;
    assert_eq!(server.send(&ping(&old).with("mcp-protocol-version", "2025-06-18")).await.status, 200);
    assert_eq!(server.send(&ping(&old)).await.status, 400);
    let stray = |call: Call| call.with("mcp-protocol-version", "1999-01-01");
    for call in [ping(&session), get(&session), legacy(None, initialize("2025-11-25"))] {
        let answer = server.send(&stray(call)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, -32022));
    }
}

#[tokio::test]
async fn delete_ends_a_session_its_calls_and_its_streams() {
    let mut server = Server::start().await;
    let session = server.begin_session().await;
    let mut events = server.stream(&get(&session)).await;
    let pending = server.send_later(&legacy(Some(&session), request(2, "tools/call", json!({"name": "slow"}))));
    let started = server.started().await;

    let answer = server.send(&ping(&session).method(Method::DELETE)).await;
    assert_eq!(answer.status, 204);
    assert!(started.cancel.is_cancelled());
    assert_eq!(pending.await.unwrap().status, 202);
    assert_eq!(events.next().await, None);
    assert_eq!(server.send(&ping(&session)).await.status, 404);
    assert_eq!(server.send(&ping(&session).method(Method::DELETE)).await.status, 404);
}

#[tokio::test]
async fn a_session_idle_for_too_long_is_gone() {
    let server = Server::start_with(|options| options.session_idle_ms_max = 0).await;
    let answer = server.send(&legacy(None, initialize("2025-11-25"))).await;
    assert_eq!(server.send(&ping(&answer.session().unwrap())).await.status, 404);
}

#[tokio::test]
async fn a_full_house_evicts_the_idle_and_keeps_the_busy() {
    let mut server =
        Server::start_with(|options| (options.sessions_max, options.session_room_idle_ms_min) = (2, 0)).await;
    let busy = server.begin_session().await;
    let pending = server.send_later(&legacy(Some(&busy), request(2, "tools/call", json!({"name": "slow"}))));
    let started = server.started().await;
    let idle = server.begin_session().await;
    let newcomer = server.begin_session().await;
    assert_eq!(server.send(&ping(&idle)).await.status, 404);
    assert_eq!(server.send(&ping(&busy)).await.status, 200);

    let stream = server.stream(&get(&newcomer)).await;
    let answer = server.send(&legacy(None, initialize("2025-11-25"))).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, -32603));
    assert_eq!(answer.json()["error"]["message"], "every session is in use");
    assert!(answer.session().is_none());

    started.release.send(()).unwrap();
    assert_eq!(pending.await.unwrap().status, 200);
    server.begin_session().await;
    assert_eq!(server.send(&ping(&busy)).await.status, 404, "it was the idle one now");
    drop(stream);
}

#[tokio::test]
async fn the_stream_of_a_session_tells_of_changed_tools() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let refused = server.send(&get(&session).with("accept", "application/json")).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (406, -32600));

    server.fixture.offer(&["echo"]);
    let mut events = server.stream(&get(&session)).await;
    let changed = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    assert_eq!(events.next().await.unwrap(), changed, "a change before the stream was open is not lost");
    server.fixture.offer(&["echo", "slow"]);
    assert_eq!(events.next().await.unwrap(), changed);
}

#[tokio::test]
async fn a_message_goes_out_on_one_stream_only() {
    let server = Server::start_with(|options| options.streams_per_session_max = 2).await;
    let session = server.begin_session().await;
    let mut one = server.stream(&get(&session)).await;
    let mut two = server.stream(&get(&session)).await;
    let answer = server.send(&get(&session)).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (429, -32600));

    for tools in [["echo"], ["slow"]] {
        server.fixture.offer(&tools);
        let heard = tokio::select! {
            message = one.next() => message,
            message = two.next() => message,
        };
        assert!(heard.is_some());
    }
    server.shutdown.cancel();
    assert_eq!((one.next().await, two.next().await), (None, None), "two changes, two messages");
    within(server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_takes_over_from_one_that_was_closed() {
    let server = Server::start_with(|options| options.streams_per_session_max = 1).await;
    let session = server.begin_session().await;
    let mut closed = server.stream(&get(&session)).await;
    server.fixture.offer(&["echo"]);
    assert!(closed.next().await.is_some());
    drop(closed);
    // A place is free again once the server has noticed.
    let mut next = loop {
        if let Some(events) = server.try_stream(&get(&session)).await {
            break events;
        }
    };
    server.fixture.offer(&["slow"]);
    assert!(next.next().await.is_some());
}

/// A session may be used with several credentials of the same party. Each request is judged by its own credential.
#[tokio::test]
async fn what_a_session_watches_goes_by_the_credential_of_each_request() {
    let server = Server::start().await;
    let wide = |call: Call| call.with("x-test-principal", "ada");
    let narrow = |call: Call| wide(call).with("x-test-resource", "a:1");
    let begun = server.send(&wide(legacy(None, initialize("2025-11-25")))).await;
    let session = begun.session().unwrap();
    let subscribe = |uri: &str| legacy(Some(&session), request(2, "resources/subscribe", json!({"uri": uri})));
    for (call, watched) in
        [(narrow(subscribe("a:1")), true), (narrow(subscribe("a:2")), false), (wide(subscribe("a:2")), true)]
    {
        let answer = server.send(&call).await;
        assert_eq!(answer.json().get("result").is_some(), watched, "{}", answer.body);
    }
    assert_eq!(server.fixture.events(), ["watch a:1", "watch a:2"]);
}
