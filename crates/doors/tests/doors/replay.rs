//! Streams of legacy sessions that break and are resumed, with everything that came while the client was away.

use reqwest::Method;
use serde_json::{Value, json};
use servanda_engine::ClientMessage;

use crate::{
    fixture::{Started, log_line, raw, within},
    http_client::{Call, Events, Server, legacy, request},
};

/// A door whose answers are streams at once.
async fn start() -> Server {
    Server::start_with(|options| options.stream_after_ms = 0).await
}

fn get(session: &str) -> Call {
    legacy(Some(session), json!({})).method(Method::GET).without("content-type")
}

/// Resumes the stream of a call.
fn resume(session: &str, event_id: &str) -> Call {
    Call { rpc_method: "tools/call".to_owned(), ..get(session).with("last-event-id", event_id) }
}

fn slow(session: &str, id: impl Into<Value>) -> Call {
    let params = json!({"name": "slow", "_meta": {"progressToken": "t"}});
    legacy(Some(session), request(id, "tools/call", params))
}

async fn progress(started: &Started, step: u64) {
    let client_message = ClientMessage::Progress(raw(&json!({"progress": step})));
    started.client_messages.as_ref().unwrap().send(client_message).await.unwrap();
}

/// Opens a stream and reads its first event.
async fn opened(server: &Server, call: &Call) -> Events {
    let mut events = server.stream(call).await;
    assert_eq!(events.event().await.unwrap(), "");
    assert_eq!(events.retry_ms, Some(1000));
    events
}

#[tokio::test]
async fn an_answer_that_came_while_the_client_was_away_is_replayed() {
    let mut server = start().await;
    let session = server.begin_session().await;
    let mut events = opened(&server, &slow(&session, "s")).await;
    let started = server.started().await;
    progress(&started, 1).await;
    assert_eq!(events.next().await.unwrap()["params"]["progress"], 1);
    let seen = events.last_id.clone().unwrap();
    drop(events);

    progress(&started, 2).await;
    started.release.send(()).unwrap();
    within(started.ended).await.unwrap();
    assert!(!started.cancel.is_cancelled(), "going away means nothing");
    let mut events = server.stream(&resume(&session, &seen)).await;
    assert_eq!(events.next().await.unwrap()["params"]["progress"], 2);
    let message = events.next().await.unwrap();
    assert_eq!((&message["id"], &message["result"]["content"][0]["text"]), (&json!("s"), &json!("late")));
    assert_eq!(events.next().await, None);

    let mut again = server.stream(&resume(&session, &seen)).await;
    assert_eq!(again.next().await.unwrap()["params"]["progress"], 2, "it is kept for a while");
}

#[tokio::test]
async fn a_stream_goes_on_while_the_request_runs_and_its_old_connection_gives_way() {
    let mut server = start().await;
    let session = server.begin_session().await;
    let mut first = opened(&server, &slow(&session, 1)).await;
    let started = server.started().await;
    let beginning = first.last_id.clone().unwrap();
    let mut second = server.stream(&resume(&session, &beginning)).await;
    assert_eq!(first.next().await, None, "its client says that it broke");
    progress(&started, 1).await;
    assert_eq!(second.next().await.unwrap()["params"]["progress"], 1);
    started.release.send(()).unwrap();
    assert!(second.next().await.unwrap().get("result").is_some());
    assert_eq!(second.next().await, None);
}

#[tokio::test]
async fn nothing_of_another_stream_is_replayed() {
    let mut server = start().await;
    let session = server.begin_session().await;
    let one = opened(&server, &slow(&session, 1)).await;
    let first = server.started().await;
    let two = opened(&server, &slow(&session, 2)).await;
    let second = server.started().await;
    let (one_id, two_id) = (one.last_id.clone().unwrap(), two.last_id.clone().unwrap());
    assert_ne!(one_id, two_id);
    drop((one, two));
    second.release.send(()).unwrap();
    first.release.send(()).unwrap();
    for (id, number) in [(one_id, 1), (two_id, 2)] {
        let mut events = server.stream(&resume(&session, &id)).await;
        assert_eq!(events.next().await.unwrap()["id"], number);
        assert_eq!(events.next().await, None);
    }
}

#[tokio::test]
async fn the_sessions_own_stream_can_be_resumed() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let mut events = opened(&server, &get(&session)).await;
    server.fixture.offer(&["echo"]);
    assert_eq!(events.next().await.unwrap()["method"], "notifications/tools/list_changed");
    let seen = events.last_id.clone().unwrap();
    server.fixture.client_message(&session, log_line("info")).await;
    assert_eq!(events.next().await.unwrap()["params"]["level"], "info");
    drop(events);
    let mut events = server.stream(&resume(&session, &seen)).await;
    assert_eq!(
        events.next().await.unwrap()["params"]["level"],
        "info",
        "the connection had received it, the client had not read it"
    );
    server.fixture.offer(&["slow"]);
    assert_eq!(events.next().await.unwrap()["method"], "notifications/tools/list_changed");
}

#[tokio::test]
async fn a_stream_that_cannot_be_resumed_is_refused() {
    let mut server = Server::start_with(|options| {
        options.stream_after_ms = 0;
        options.replay_events_max = 2;
    })
    .await;
    let (session, other) = (server.begin_session().await, server.begin_session().await);
    let mut events = opened(&server, &slow(&session, 1)).await;
    let started = server.started().await;
    let beginning = events.last_id.clone().unwrap();
    for step in 1..=3 {
        progress(&started, step).await;
        assert!(events.next().await.is_some());
    }
    let never = beginning.replace("-1-0", "-1-99");
    for (session, id) in [
        (&session, beginning.as_str()),
        (&session, &never),
        (&session, "nonsense"),
        (&session, ""),
        (&other, &beginning),
    ] {
        let answer = server.send(&resume(session, id)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, -32600), "{id}");
        assert!(answer.json()["error"]["data"]["hint"].as_str().unwrap().contains("Last-Event-ID"));
    }
    let kept = beginning.replace("-1-0", "-1-1");
    let mut resumed = server.stream(&resume(&session, &kept)).await;
    assert_eq!(resumed.next().await.unwrap()["params"]["progress"], 2);
}

#[tokio::test]
async fn an_answer_is_not_kept_for_ever() {
    let mut server = Server::start_with(|options| {
        options.stream_after_ms = 0;
        options.replay_ms_max = 1;
    })
    .await;
    let session = server.begin_session().await;
    let mut events = opened(&server, &slow(&session, 1)).await;
    let beginning = events.last_id.clone().unwrap();
    server.started().await.release.send(()).unwrap();
    assert!(events.next().await.is_some());
    let forgotten = async { while server.send(&resume(&session, &beginning)).await.status != 400 {} };
    within(forgotten).await;
}

/// Revisions before 2025-11-25 had no events without data, and their clients fail on one.
#[tokio::test]
async fn an_old_client_gets_no_event_without_data_and_can_still_go_on() {
    let mut server = start().await;
    let session = server.begin_session_with("2025-06-18", json!({})).await;
    let old = |call: Call| call.with("mcp-protocol-version", "2025-06-18");
    let mut events = server.stream(&old(slow(&session, 1))).await;
    let started = server.started().await;
    progress(&started, 1).await;
    assert!(events.event().await.unwrap().contains("progress"), "the first event is a message");
    let seen = events.last_id.clone().unwrap();
    drop(events);
    started.release.send(()).unwrap();
    let mut events = server.stream(&old(resume(&session, &seen))).await;
    assert!(events.next().await.unwrap().get("result").is_some());
}

#[tokio::test]
async fn a_cancelled_request_ends_its_stream_without_an_answer() {
    let mut server = start().await;
    let session = server.begin_session().await;
    let mut events = opened(&server, &slow(&session, 1)).await;
    let started = server.started().await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(server.send(&legacy(Some(&session), cancel)).await.status, 202);
    assert_eq!(events.next().await, None);
    assert!(started.cancel.is_cancelled());
}

#[tokio::test]
async fn a_session_that_ends_ends_the_requests_whose_client_is_gone() {
    let mut server = start().await;
    let session = server.begin_session().await;
    let events = opened(&server, &slow(&session, 1)).await;
    let started = server.started().await;
    let seen = events.last_id.clone().unwrap();
    drop(events);
    assert_eq!(server.send(&get(&session).method(Method::DELETE)).await.status, 204);
    within(started.cancel.cancelled()).await;
    server.fixture.happened(&format!("leave {session}"), 1).await;
    assert_eq!(server.send(&resume(&session, &seen)).await.status, 404);
}

#[tokio::test]
async fn a_quick_answer_with_nothing_before_it_is_json() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let params = json!({"name": "echo", "_meta": {"progressToken": 1}});
    let answer = server.send(&legacy(Some(&session), request(1, "tools/call", params))).await;
    assert_eq!((answer.status.as_u16(), answer.content_type()), (200, "application/json"));
}

/// More than fits between the door and a client that does not read: the producer waits for the reader.
#[tokio::test]
async fn a_burst_does_not_break_the_stream() {
    const BURST: usize = 300;
    let mut server = start().await;
    let session = server.begin_session().await;
    let mut events = opened(&server, &slow(&session, 1)).await;
    let mut started = server.started().await;
    let sink = started.client_messages.take().unwrap();
    let line = json!({"level": "info", "data": "x".repeat(100_000)});
    let produced = std::cell::Cell::new(false);
    let producing = async {
        for _ in 0..BURST {
            sink.send(ClientMessage::LogMessage(raw(&line))).await.unwrap();
        }
        produced.set(true);
    };
    let reading = async {
        // Until nothing has gone in for a while, or everything has.
        let mut full = 0;
        while full < 1000 && !produced.get() {
            full = if sink.capacity() == 0 { full + 1 } else { 0 };
            tokio::task::yield_now().await;
        }
        for _ in 0..BURST {
            assert_eq!(events.next().await.unwrap()["method"], "notifications/message");
        }
    };
    within(async { tokio::join!(producing, reading) }).await;
    started.release.send(()).unwrap();
    assert!(events.next().await.unwrap().get("result").is_some());
}
