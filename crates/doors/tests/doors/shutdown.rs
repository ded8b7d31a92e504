//! The end of the HTTP door: nobody new, listeners sent home, calls finished or given up.

use std::time::Duration;

use reqwest::Method;
use serde_json::json;
use tokio::net::TcpStream;

use crate::{
    fixture::{end_unknown, within},
    http_client::{Server, legacy, modern},
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
    assert!(TcpStream::connect(server.address).await.is_err(), "nobody new");
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
