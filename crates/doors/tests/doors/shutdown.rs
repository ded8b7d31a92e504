//! The shutdown of the HTTP door: new connections are refused, listening streams closed, calls finished or given up.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    fixture::{end_unknown, within},
    http_client::{Call, Server, legacy, modern, request},
};

#[tokio::test]
async fn a_call_finishes_and_a_listener_is_sent_home() {
    let mut server = Server::start().await;
    let session = server.begin_session().await;
    let get = legacy(Some(&session), json!({})).method(Method::GET);
    let mut events = server.stream(&get).await;
    let pending = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let started = server.started().await;
    let mut streaming = server.stream(&modern(2, "tools/call", params)).await;
    let streamed = server.started().await;

    server.shutdown.cancel();
    assert_eq!(events.next().await, None);
    assert!(!server.task.is_finished(), "calls are still running");
    started.release.send(()).unwrap();
    assert_eq!(pending.await.unwrap().json()["result"]["resultType"], "complete");
    streamed.release.send(()).unwrap();
    assert_eq!(streaming.next().await.unwrap()["result"]["resultType"], "complete");
    within(server.task).await.unwrap().unwrap();
    assert!(TcpStream::connect(server.address).await.is_err(), "no new connections");
}

/// A stream for an answer is not one that only listens, however it was opened.
#[tokio::test]
async fn a_legacy_stream_is_closed_by_its_answer() {
    let mut server = Server::start_with(|options| options.stream_after_ms = 0).await;
    let session = server.begin_session().await;
    let call = |id: i64| request(id, "tools/call", json!({"name": "slow"}));
    let mut answered = server.stream(&legacy(Some(&session), call(1))).await;
    let first = server.started().await;
    let mut broken = server.stream(&legacy(Some(&session), call(2))).await;
    let second = server.started().await;
    assert_eq!(broken.event().await.unwrap(), "");
    let get = legacy(Some(&session), json!({})).method(Method::GET).with("last-event-id", &broken.last_id.unwrap());
    let mut resumed = server.stream(&Call { rpc_method: "tools/call".to_owned(), ..get }).await;

    server.shutdown.cancel();
    let probe = TcpStream::connect(server.address).await;
    first.release.send(()).unwrap();
    assert_eq!(answered.next().await.unwrap()["result"]["content"][0]["text"], "late");
    second.release.send(()).unwrap();
    assert_eq!(resumed.next().await.unwrap()["result"]["content"][0]["text"], "late");
    drop(probe);
    within(server.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_call_that_does_not_finish_is_given_up_but_goes_on() {
    let mut server = Server::start_draining(|_| {}, Duration::ZERO).await;
    let pending = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let started = server.started().await;
    let params = json!({"name": "slow", "_meta": {"progressToken": 1}});
    let mut streaming = server.stream(&modern(2, "tools/call", params)).await;
    let streamed = server.started().await;

    server.shutdown.cancel();
    let answer = pending.await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.json()["error"]), (200, &end_unknown()));
    assert!(!answer.headers.contains_key("retry-after"), "it may have been dispatched");
    assert_eq!(streaming.next().await.unwrap()["error"], end_unknown());
    assert_eq!(streaming.next().await, None);
    within(server.task).await.unwrap().unwrap();
    for call in [started, streamed] {
        assert!(call.cancel.is_cancelled());
        call.release.send(()).unwrap();
        within(call.ended).await.unwrap();
    }
}

/// Its thread may not have read it yet.
#[tokio::test]
async fn a_request_that_was_sent_before_the_door_closed_is_answered() {
    let server = Server::start().await;
    let mut connections = Vec::new();
    for _ in 0..32 {
        let mut connection = TcpStream::connect(server.address).await.unwrap();
        let request = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        connection.write_all(request).await.unwrap();
        connections.push(connection);
    }
    server.shutdown.cancel();
    for mut connection in connections {
        let mut answer = [0; 12];
        within(connection.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    within(server.task).await.unwrap().unwrap();
}
