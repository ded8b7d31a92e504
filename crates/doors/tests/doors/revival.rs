//! Legacy sessions that outlive the door that began them, because they are stored; and who may use them.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use reqwest::Method;
use serde_json::json;
use servanda_contract::{Timestamp, time::Clock};
use servanda_engine::ChangeEvent;

use crate::{
    fixture::log_line,
    http_client::{Call, Server, legacy, request},
};

/// A clock that the test sets.
#[derive(Debug, Default)]
struct TestClock(AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::Relaxed))
    }
}

fn ping(session: &str) -> Call {
    legacy(Some(session), request(1, "ping", json!({})))
}

fn subscribe(session: &str, uri: &str) -> Call {
    legacy(Some(session), request(1, "resources/subscribe", json!({"uri": uri})))
}

fn get(session: &str) -> Call {
    legacy(Some(session), json!({})).method(Method::GET).without("content-type")
}

#[tokio::test]
async fn a_session_is_restored_by_another_door_with_its_subscriptions() {
    let first = Server::start().await;
    let session = first.begin_session_with("2025-06-18", json!({"elicitation": {}})).await;
    let old = |call: Call| call.with("mcp-protocol-version", "2025-06-18");
    assert_eq!(first.send(&old(subscribe(&session, "a:1"))).await.status, 200);
    assert_eq!(first.send(&old(subscribe(&session, "a:2"))).await.status, 200);
    let unsubscribe = legacy(Some(&session), request(1, "resources/unsubscribe", json!({"uri": "a:2"})));
    assert_eq!(first.send(&old(unsubscribe)).await.status, 200);
    let level = legacy(Some(&session), request(1, "logging/setLevel", json!({"level": "error"})));
    assert_eq!(first.send(&old(level)).await.status, 200);
    assert_eq!(first.fixture.events(), ["watch a:1", "watch a:2", "unwatch a:2", &format!("level error {session}")]);

    let second = first.start_beside(|_| {}).await;
    let call = legacy(Some(&session), request(1, "tools/call", json!({"name": "echo"})));
    let answer = second.send(&old(call.clone())).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let facts = &answer.json()["result"]["_meta"]["servanda/observation"];
    assert_eq!((&facts["session"], &facts["client"]), (&json!(session), &json!("testclient 1.0")));
    assert_eq!(facts["requester"]["capabilities"], r#"{"elicitation":{}}"#);
    assert_eq!(second.send(&call).await.status, 400, "it still speaks 2025-06-18");

    second.fixture.happened("watch a:1", 2).await;
    second.fixture.happened(&format!("level error {session}"), 2).await;
    assert_eq!(second.fixture.events().iter().filter(|event| *event == "watch a:2").count(), 1);
    let mut events = second.stream(&old(get(&session))).await;
    second.fixture.client_message(&session, log_line("warning")).await;
    second.fixture.client_message(&session, log_line("alert")).await;
    assert_eq!(events.next().await.unwrap()["params"]["level"], "alert", "its level is the one it set");
    second.fixture.update("a:2");
    second.fixture.update("a:1");
    assert_eq!(events.next().await.unwrap()["params"]["uri"], "a:1");
}

/// The client goes away while the session is being stored.
#[tokio::test]
async fn a_session_hears_news_even_if_the_request_that_began_it_was_given_up() {
    let first = Server::start().await;
    let session = first.begin_session().await;
    assert_eq!(first.send(&subscribe(&session, "a:1")).await.status, 200);
    let second = first.start_beside(|_| {}).await;
    let notebook = &second.fixture.notebook;

    notebook.take_notes(false);
    let given_up = second.send_later(&ping(&session));
    notebook.is_waited_for().await;
    given_up.abort();
    notebook.was_abandoned().await;
    notebook.take_notes(true);

    second.fixture.happened("watch a:1", 2).await;
    assert_eq!(second.send(&ping(&session)).await.status, 200);
    let mut events = second.stream(&get(&session)).await;
    second.fixture.update("a:1");
    assert_eq!(events.next().await.unwrap()["params"]["uri"], "a:1");
    drop(events);
    assert_eq!(second.send(&get(&session).method(Method::DELETE)).await.status, 204);
    second.fixture.happened(&format!("leave {session}"), 1).await;
}

#[tokio::test]
async fn a_session_whose_beginning_was_given_up_is_left_in_time() {
    let server = Server::start_with(|options| options.session_idle_ms_max = 1).await;
    server.fixture.notebook.take_notes(false);
    let given_up = server.send_later(&legacy(None, crate::http_client::initialize("2025-11-25")));
    server.fixture.notebook.is_waited_for().await;
    let begun = server.fixture.attending();
    given_up.abort();
    server.fixture.notebook.was_abandoned().await;
    server.fixture.notebook.take_notes(true);
    assert_eq!(begun.len(), 1, "its task runs before it is stored");
    server.fixture.happened(&format!("leave {}", begun[0]), 1).await;
}

#[tokio::test]
async fn what_a_session_watches_is_taken_up_when_its_server_is_back() {
    let first = Server::start().await;
    let session = first.begin_session().await;
    for uri in ["b:1", "b:2"] {
        assert_eq!(first.send(&subscribe(&session, uri)).await.status, 200);
    }
    first.fixture.watchable.store(false, Ordering::SeqCst);
    let second = first.start_beside(|_| {}).await;
    assert_eq!(second.send(&ping(&session)).await.status, 200);
    second.fixture.happened("not yet b:1", 1).await;
    second.fixture.happened("not yet b:2", 1).await;
    let unsubscribe = legacy(Some(&session), request(1, "resources/unsubscribe", json!({"uri": "b:2"})));
    assert_eq!(second.send(&unsubscribe).await.status, 200);

    // Watches that are not possible yet are stored too: another door sets them up.
    let third = first.start_beside(|_| {}).await;
    assert_eq!(third.send(&ping(&session)).await.status, 200);
    first.fixture.happened("not yet b:1", 2).await;

    first.fixture.watchable.store(true, Ordering::SeqCst);
    first.fixture.announce(ChangeEvent::Resources);
    first.fixture.happened("watch b:1", 3).await;
    let events = first.fixture.events();
    assert_eq!(events.iter().filter(|event| *event == "watch b:2").count(), 1, "given up meanwhile");
}

#[tokio::test]
async fn events_of_a_former_life_are_not_taken_for_others() {
    let first = Server::start().await;
    let session = first.begin_session().await;
    let mut events = first.stream(&get(&session)).await;
    assert_eq!(events.event().await.unwrap(), "");
    let second = first.start_beside(|_| {}).await;
    let mut again = second.stream(&get(&session)).await;
    assert_eq!(again.event().await.unwrap(), "");
    let resumed = second.send(&get(&session).with("last-event-id", &events.last_id.unwrap())).await;
    assert_eq!((resumed.status.as_u16(), resumed.code()), (400, -32600));
}

#[tokio::test]
async fn a_session_is_its_principals_here_and_after_a_restart() {
    let first = Server::start().await;
    let begun = legacy(None, crate::http_client::initialize("2025-11-25")).with("x-test-principal", "ada");
    let session = first.send(&begun).await.session().unwrap();
    let second = first.start_beside(|_| {}).await;
    for server in [&first, &second] {
        for call in [ping(&session), get(&session), get(&session).method(Method::DELETE)] {
            for stranger in [call.clone(), call.clone().with("x-test-principal", "bob")] {
                let answer = server.send(&stranger).await;
                assert_eq!((answer.status.as_u16(), answer.code()), (404, -32600), "as if there were none");
            }
        }
        assert_eq!(server.send(&ping(&session).with("x-test-principal", "ada")).await.status, 200);
    }
    let call = legacy(Some(&session), request(1, "tools/call", json!({"name": "echo"})));
    let answer = second.send(&call.with("x-test-principal", "ada")).await;
    assert_eq!(answer.json()["result"]["_meta"]["servanda/observation"]["principal"], "ada");
}

#[tokio::test]
async fn a_session_that_ended_is_gone_for_good() {
    let first = Server::start().await;
    let session = first.begin_session().await;
    assert_eq!(first.send(&get(&session).method(Method::DELETE)).await.status, 204);
    let second = first.start_beside(|_| {}).await;
    for server in [&first, &second] {
        assert_eq!(server.send(&ping(&session)).await.status, 404);
    }
    first.fixture.happened(&format!("leave {session}"), 1).await;
    // Twice: by the session's task, and before the client is answered.
    first.fixture.happened(&format!("erase {session}"), 2).await;
}

#[tokio::test]
async fn a_session_that_made_room_is_gone_for_good() {
    let first = Server::start_with(|options| (options.sessions_max, options.session_room_idle_ms_min) = (1, 0)).await;
    let session = first.begin_session().await;
    first.begin_session().await;
    first.fixture.happened(&format!("leave {session}"), 1).await;
    let second = first.start_beside(|_| {}).await;
    assert_eq!(second.send(&ping(&session)).await.status, 404);
}

#[tokio::test]
async fn an_unused_session_is_not_restored() {
    let clock = Arc::new(TestClock::default());
    let first = Server::start_with(|options| options.clock = clock.clone()).await;
    let (session, idle) = (first.begin_session().await, 30 * 60 * 1000);
    let second = first.start_beside(|options| options.clock = clock.clone()).await;
    clock.0.store(idle, Ordering::Relaxed);
    assert_eq!(second.send(&ping(&session)).await.status, 200);
    let third = first.start_beside(|options| options.clock = clock.clone()).await;
    // The restored session was stored again; now that is too old as well.
    clock.0.store(2 * idle + 5 * 60 * 1000, Ordering::Relaxed);
    assert_eq!(third.send(&ping(&session)).await.status, 404);
}

#[tokio::test]
async fn an_idle_session_is_left_by_itself() {
    let server = Server::start_with(|options| options.session_idle_ms_max = 1).await;
    let answer = server.send(&legacy(None, crate::http_client::initialize("2025-11-25"))).await;
    let session = answer.session().unwrap();
    server.fixture.happened(&format!("leave {session}"), 1).await;
    assert_eq!(server.send(&ping(&session)).await.status, 404);
    let second = server.start_beside(|_| {}).await;
    assert_eq!(second.send(&ping(&session)).await.status, 404, "its note is gone too");
}

#[tokio::test]
async fn watches_have_a_limit_and_end_with_the_session() {
    let server = Server::start_with(|options| options.watches_per_session_max = 2).await;
    let session = server.begin_session().await;
    for uri in ["a:1", "a:1", "a:2"] {
        assert_eq!(server.send(&subscribe(&session, uri)).await.json()["result"], json!({}));
    }
    let answer = server.send(&subscribe(&session, "a:3")).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (503, -32603));
    assert_eq!(server.fixture.events(), ["watch a:1", "watch a:2"]);
    let unsubscribe = legacy(Some(&session), request(1, "resources/unsubscribe", json!({"uri": "a:2"})));
    assert_eq!(server.send(&unsubscribe).await.status, 200);
    assert_eq!(server.send(&subscribe(&session, "missing:1")).await.code(), -32002);
    assert_eq!(server.send(&subscribe(&session, "a:3")).await.status, 200, "what failed takes no room");
    assert_eq!(server.send(&get(&session).method(Method::DELETE)).await.status, 204);
    server.fixture.happened("unwatch a:1", 1).await;
    server.fixture.happened("unwatch a:3", 1).await;
}

#[tokio::test]
async fn changed_roots_are_passed_on() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let note = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
    assert_eq!(server.send(&legacy(Some(&session), note)).await.status, 202);
    assert_eq!(server.fixture.events(), [format!("roots {session}")]);
}
