//! Questions of servers to legacy clients over HTTP: how they travel, whose answers count, and when they are declined.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    fixture::{ask, elicitation, put_elicitation, within},
    http_client::{Call, Events, Server, legacy, request},
};

async fn begin(server: &Server) -> String {
    server.begin_session_with("2025-11-25", json!({"elicitation": {}, "roots": {}})).await
}

fn get(session: &str) -> Call {
    legacy(Some(session), json!({})).method(Method::GET).without("content-type")
}

fn asking(session: &str, id: i64) -> Call {
    legacy(Some(session), request(id, "tools/call", json!({"name": "ask"})))
}

fn slow(session: &str, id: i64) -> Call {
    legacy(Some(session), request(id, "tools/call", json!({"name": "slow"})))
}

fn answer(session: &str, id: &Value, result: &Value) -> Call {
    legacy(Some(session), json!({"jsonrpc": "2.0", "id": id, "result": result}))
}

/// The next question.
async fn question(events: &mut Events) -> Value {
    let message = events.next().await.unwrap();
    assert_eq!(message["method"], "elicitation/create", "{message}");
    assert_eq!(message["params"], put_elicitation());
    message["id"].clone()
}

#[tokio::test]
async fn a_question_on_the_way_is_answered_by_a_post() {
    let server = Server::start().await;
    let session = begin(&server).await;
    for (call, pointer) in [
        (asking(&session, 1), "/result/content/0/text"),
        (legacy(Some(&session), request(1, "resources/read", json!({"uri": "asking"}))), "/result/contents/0/text"),
        (legacy(Some(&session), request(1, "prompts/get", json!({"name": "asking"}))), "/result/text"),
    ] {
        let mut events = server.stream(&call).await;
        let id = question(&mut events).await;
        let reply = server.send(&answer(&session, &id, &json!({"action": "accept", "content": {"ok": true}}))).await;
        assert_eq!((reply.status.as_u16(), reply.body.as_str()), (202, ""));
        let message = events.next().await.unwrap();
        let text = message.pointer(pointer).and_then(Value::as_str).unwrap_or_else(|| panic!("{message}"));
        assert_eq!(text, r#"{"action":"accept","content":{"ok":true}}"#);
        assert_eq!(events.next().await, None);
        assert_eq!(server.send(&answer(&session, &id, &json!({"action": "accept"}))).await.status, 202, "forgotten");
    }
}

#[tokio::test]
async fn an_error_is_an_answer_too() {
    let server = Server::start().await;
    let session = begin(&server).await;
    let mut events = server.stream(&asking(&session, 1)).await;
    let id = question(&mut events).await;
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -1, "message": "no"}});
    assert_eq!(server.send(&legacy(Some(&session), error)).await.status, 202);
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "error -1");
}

#[tokio::test]
async fn only_the_session_that_was_asked_can_answer() {
    let server = Server::start().await;
    let (session, stranger) = (begin(&server).await, begin(&server).await);
    let mut events = server.stream(&asking(&session, 1)).await;
    let id = question(&mut events).await;
    let wrong = json!({"action": "accept", "content": {"ok": "stranger"}});
    assert_eq!(server.send(&answer(&stranger, &id, &wrong)).await.status, 202, "taken and forgotten");
    let foreign = answer(&session, &id, &wrong).with("x-test-principal", "somebody");
    assert_eq!(server.send(&foreign).await.status, 404, "not that principal's session");
    assert_eq!(server.send(&answer(&session, &id, &wrong).without("mcp-session-id")).await.status, 400);
    assert_eq!(server.send(&answer(&session, &json!(1), &json!({"action": "accept"}))).await.status, 202, "not asked");
    assert_eq!(server.send(&answer(&session, &id, &json!({"action": "decline"}))).await.status, 202);
    let message = events.next().await.unwrap();
    assert!(message["result"]["content"][0]["text"].as_str().unwrap().contains("decline"), "{message}");
}

#[tokio::test]
async fn a_modern_client_has_nothing_to_answer() {
    let server = Server::start().await;
    let session = begin(&server).await;
    let call = answer(&session, &json!(1), &json!({})).with("mcp-protocol-version", "2026-07-28");
    let refused = server.send(&call).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (400, -32600));
    assert_eq!(refused.json()["error"]["message"], "this message answers a question, but the gateway asked none");
}

#[tokio::test]
async fn what_a_client_did_not_say_it_can_do_is_not_asked() {
    let server = Server::start().await;
    let session = server.begin_session_with("2025-11-25", json!({"roots": {}})).await;
    let reply = server.send(&asking(&session, 1)).await;
    assert_eq!(reply.json()["result"]["content"][0]["text"], "declined");
}

#[tokio::test]
async fn questions_have_a_limit() {
    let server = Server::start_with(|options| options.questions_per_session_max = 1).await;
    let session = begin(&server).await;
    let mut events = server.stream(&asking(&session, 1)).await;
    let id = question(&mut events).await;
    assert_eq!(server.send(&asking(&session, 2)).await.json()["result"]["content"][0]["text"], "declined");
    let other = begin(&server).await;
    let mut elsewhere = server.stream(&asking(&other, 1)).await;
    question(&mut elsewhere).await;
    assert_eq!(server.send(&answer(&session, &id, &json!({"action": "cancel"}))).await.status, 202);
    assert!(events.next().await.unwrap().get("result").is_some());
    let mut again = server.stream(&asking(&session, 3)).await;
    question(&mut again).await;
}

#[tokio::test]
async fn a_session_that_ends_declines() {
    let mut server = Server::start().await;
    let session = begin(&server).await;
    let mut events = server.stream(&slow(&session, 1)).await;
    let started = server.started().await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    started.client_messages.as_ref().unwrap().send(client_message).await.unwrap();
    question(&mut events).await;
    assert_eq!(server.send(&get(&session).method(Method::DELETE)).await.status, 204);
    assert!(within(answered).await.is_err());
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_question_that_needs_no_answer_any_more_is_withdrawn() {
    let mut server = Server::start().await;
    let session = begin(&server).await;
    let mut events = server.stream(&slow(&session, 1)).await;
    let started = server.started().await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    started.client_messages.as_ref().unwrap().send(client_message).await.unwrap();
    let id = question(&mut events).await;
    started.release.send(()).unwrap();
    let message = events.next().await.unwrap();
    assert_eq!((&message["method"], &message["params"]["requestId"]), (&json!("notifications/cancelled"), &id));
    assert!(events.next().await.unwrap().get("result").is_some());
    assert!(within(answered).await.is_err());
}

#[tokio::test]
async fn a_question_of_no_request_takes_the_sessions_own_stream() {
    let mut server = Server::start().await;
    let session = begin(&server).await;
    let mut own = server.stream(&get(&session)).await;
    let mut other = server.stream(&slow(&session, 1)).await;
    let started = server.started().await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    server.fixture.client_message(&session, client_message).await;
    let id = question(&mut own).await;
    assert_eq!(server.send(&answer(&session, &id, &json!({"action": "accept"}))).await.status, 202);
    assert_eq!(within(answered).await.unwrap().unwrap().get(), r#"{"action":"accept"}"#);
    started.release.send(()).unwrap();
    assert!(other.next().await.unwrap().get("result").is_some(), "and no other");
}

/// The answer to the call is not a stream yet when the question comes, and nothing else would make it one.
#[tokio::test]
async fn a_question_of_no_request_makes_a_running_request_a_stream() {
    let mut server = Server::start_with(|options| options.stream_after_ms = 3_600_000).await;
    let session = begin(&server).await;
    let pending = server.stream_later(&slow(&session, 1));
    let started = server.started().await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    server.fixture.client_message(&session, client_message).await;
    let mut events = within(pending).await.unwrap();
    let id = question(&mut events).await;
    assert_eq!(server.send(&answer(&session, &id, &json!({"action": "accept"}))).await.status, 202);
    assert!(within(answered).await.is_ok());
    started.release.send(()).unwrap();
    assert_eq!(events.next().await.unwrap()["result"]["content"][0]["text"], "late");
}

#[tokio::test]
async fn a_question_waits_for_a_stream_and_is_declined_in_the_end() {
    let server = Server::start().await;
    let session = begin(&server).await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    server.fixture.client_message(&session, client_message).await;
    let mut own = server.stream(&get(&session)).await;
    let id = question(&mut own).await;
    assert_eq!(server.send(&answer(&session, &id, &json!({"action": "accept"}))).await.status, 202);
    assert!(within(answered).await.is_ok());

    let server = Server::start_with(|options| options.question_wait_ms_max = 1).await;
    let session = begin(&server).await;
    let (client_message, answered) = ask("elicitation/create", &elicitation());
    server.fixture.client_message(&session, client_message).await;
    assert!(within(answered).await.is_err(), "no stream was opened");
}
