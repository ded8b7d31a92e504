//! Several messages in one: only revision 2025-03-26 allows that.

use serde_json::{Value, json};

use crate::{
    fixture::within,
    http_client::{Call, Server, initialize, legacy, request},
    schema::Era,
    stdio_client::Pipe,
};

const VERSION: &str = "2025-03-26";

fn batch(session: &str, messages: Value) -> Call {
    legacy(Some(session), messages).with("mcp-protocol-version", VERSION)
}

fn note() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/nobody-knows"})
}

#[tokio::test]
async fn what_can_be_answered_at_once_is_answered_as_one_array() {
    let server = Server::start().await;
    let session = server.begin_session_with(VERSION, json!({})).await;
    let messages = json!([
        request(1, "ping", json!({})),
        note(),
        request("l", "tools/list", json!({})),
        request(2, "no/such", json!({})),
        request(3, "initialize", json!({"protocolVersion": VERSION})),
        {"jsonrpc": "1.0", "id": 4, "method": "ping"},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
    ]);
    let answer = server.send(&batch(&session, messages)).await;
    assert_eq!((answer.status.as_u16(), answer.content_type()), (200, "application/json"));
    let answers = answer.json();
    let summary: Vec<Value> =
        answers.as_array().unwrap().iter().map(|answer| json!([answer["id"], answer["error"]["code"]])).collect();
    assert_eq!(
        summary,
        [json!([1, null]), json!(["l", null]), json!([2, -32601]), json!([3, -32600]), json!([4, -32600])]
    );
}

#[tokio::test]
async fn what_has_to_be_waited_for_comes_as_a_stream_that_ends_with_the_last_answer() {
    let mut server = Server::start().await;
    let session = server.begin_session_with(VERSION, json!({})).await;
    let slow = |id: i64| request(id, "tools/call", json!({"name": "slow"}));
    let messages = json!([slow(1), request(2, "ping", json!({})), slow(3)]);
    let call = Call { rpc_method: "ping".to_owned(), ..batch(&session, messages) };
    let mut events = server.stream(&call).await;
    let (first, second) = (server.started().await, server.started().await);
    assert_eq!(events.next().await.unwrap()["id"], 2);
    second.release.send(()).unwrap();
    within(second.ended).await.unwrap();
    first.release.send(()).unwrap();
    let mut ids = vec![events.next().await.unwrap()["id"].clone(), events.next().await.unwrap()["id"].clone()];
    ids.sort_by_key(Value::as_i64);
    assert_eq!(ids, [json!(1), json!(3)]);
    assert_eq!(events.next().await, None);
}

#[tokio::test]
async fn a_batch_that_asks_nothing_is_accepted() {
    let server = Server::start().await;
    let session = server.begin_session_with(VERSION, json!({})).await;
    let answer = server.send(&batch(&session, json!([note(), note()]))).await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (202, ""));
}

#[tokio::test]
async fn a_batch_is_neither_empty_nor_too_long() {
    let server = Server::start_with(|options| options.batch_messages_max = 2).await;
    let session = server.begin_session_with(VERSION, json!({})).await;
    for (messages, status) in [(json!([]), 400), (json!([note(), note()]), 202), (json!([note(), note(), note()]), 400)]
    {
        assert_eq!(server.send(&batch(&session, messages)).await.status, status);
    }
    let answer = server.send(&batch(&session, json!([])).body("[{]")).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (400, -32600));
}

#[tokio::test]
async fn sessions_of_other_revisions_may_not_send_one() {
    let server = Server::start().await;
    let messages = json!([request(1, "ping", json!({}))]);
    for version in ["2024-11-05", "2025-06-18", "2025-11-25"] {
        let session = server.begin_session_with(version, json!({})).await;
        let call = legacy(Some(&session), messages.clone()).with("mcp-protocol-version", version);
        let answer = server.send(&call).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, -32600), "{version}");
    }
    for call in [legacy(None, messages.clone()), batch("5f0c5f6e-0000-4000-8000-000000000000", messages)] {
        let answer = server.send(&call).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (400, -32600));
    }
}

#[tokio::test]
async fn on_one_line_and_answered_on_one_line() {
    let mut pipe = Pipe::open_with(|options| options.batch_messages_max = 4);
    let line = json!([request(1, "ping", json!({})), note(), request(2, "tools/call", json!({"name": "slow"}))]);
    pipe.send(&line).await;
    let refused = pipe.read(Era::Legacy, "").await.unwrap();
    assert_eq!(refused["error"]["code"], -32600, "no handshake, no batch");

    pipe.ask(Era::Legacy, &initialize(VERSION)).await;
    pipe.send(&line).await;
    let started = pipe.started().await;
    let pong = pipe.ask(Era::Legacy, &request(3, "ping", json!({}))).await;
    assert_eq!(pong["id"], 3, "the batch is not complete, and nothing else waits for it");
    started.release.send(()).unwrap();
    let answers = pipe.read(Era::Legacy, "").await.unwrap();
    let ids: Vec<&Value> = answers.as_array().unwrap().iter().map(|answer| &answer["id"]).collect();
    assert_eq!(ids, [&json!(1), &json!(2)]);

    pipe.send(&json!([note(), note()])).await;
    pipe.send(&json!([note(), note(), note(), note(), note()])).await;
    assert_eq!(pipe.read(Era::Legacy, "").await.unwrap()["error"]["code"], -32600, "there is a limit");
    let pong = pipe.ask(Era::Legacy, &request(3, "ping", json!({}))).await;
    assert_eq!(pong["id"], 3);
}

#[tokio::test]
async fn on_one_line_and_not_of_that_revision() {
    let mut pipe = Pipe::open();
    pipe.ask(Era::Legacy, &initialize("2025-06-18")).await;
    pipe.send(&json!([request(1, "ping", json!({}))])).await;
    let refused = pipe.read(Era::Legacy, "").await.unwrap();
    assert_eq!(refused["error"]["code"], -32600);
}

#[tokio::test]
async fn one_key_is_not_for_several_calls() {
    let server = Server::start().await;
    let session = server.begin_session_with(VERSION, json!({})).await;
    let call = batch(&session, json!([request(1, "tools/call", json!({"name": "echo"}))]));
    assert_eq!(server.send(&call.with("idempotency-key", "k")).await.status.as_u16(), 400);
}
