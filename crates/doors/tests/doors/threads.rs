//! Connections on several threads: limits hold over all threads together, the threads end together, and work that keeps
//! a thread busy holds up none of its other connections.

use serde_json::json;
use servanda_doors::{ServingOptions, http::DoorThreads};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    fixture::within,
    http_client::{Server, modern},
};

const HEALTH: &[u8] = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
/// More bytes than a call may have to run on its connection's thread.
const LARGE: usize = 17 * 1024;

fn on_threads(count: usize) -> ServingOptions {
    ServingOptions { threads: DoorThreads::start(count).unwrap(), ..ServingOptions::default() }
}

/// The text of a call's answer.
async fn text_of(server: &Server, tool: &str, padding: usize) -> String {
    let params = json!({"name": tool, "arguments": {"padding": "x".repeat(padding)}});
    let answer = server.send(&modern(1, "tools/call", params)).await;
    answer.json()["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_made_on_the_thread_of_its_connection_unless_it_is_large() {
    let server = Server::start_serving(|_| {}, on_threads(1)).await;
    assert_eq!(text_of(&server, "thread", 0).await, "door-0");
    assert_ne!(text_of(&server, "thread", LARGE).await, "door-0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_made_on_no_thread_of_connections() {
    let server = Server::start_serving(|_| {}, on_threads(1)).await;
    assert_eq!(server.send(&modern(1, "tools/list", json!({}))).await.status, 200);
    let listed_on = server.fixture.listed_on.lock().unwrap().clone();
    assert!(listed_on.is_some_and(|thread| thread != "door-0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_arguments_hold_up_no_other_connection_of_the_thread() {
    let server = Server::start_serving(|_| {}, on_threads(1)).await;
    let params = json!({"name": "compute", "arguments": {"padding": "x".repeat(LARGE)}});
    let computing = server.send_later(&modern(1, "tools/call", params));
    let release = within(server.fixture.computing()).await;
    let mut other = TcpStream::connect(server.address).await.unwrap();
    other.write_all(HEALTH).await.unwrap();
    let mut answer = [0; 12];
    within(other.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    release.send(()).unwrap();
    assert_eq!(computing.await.unwrap().json()["result"]["content"][0]["text"], "computed");
}

#[tokio::test]
async fn connections_are_limited_over_all_threads_together() {
    let mut server = Server::start_serving(|_| {}, ServingOptions { connections_max: 2, ..on_threads(2) }).await;
    let first = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let one = server.started().await;
    let second = server.send_later(&modern(2, "tools/call", json!({"name": "slow"})));
    let other = server.started().await;
    let mut third = TcpStream::connect(server.address).await.unwrap();
    third.write_all(HEALTH).await.unwrap();
    let mut answer = [0; 12];
    let impatience = std::time::Duration::from_millis(300);
    let early = tokio::time::timeout(impatience, third.read_exact(&mut answer)).await;
    assert!(early.is_err(), "each thread has one connection, and there may be two");
    for (started, call) in [(one, first), (other, second)] {
        started.release.send(()).unwrap();
        assert_eq!(call.await.unwrap().status, 200);
    }
    within(third.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn the_door_closes_when_the_last_thread_has_answered() {
    let threads = DoorThreads::start(2).unwrap();
    let mut server =
        Server::start_serving(|_| {}, ServingOptions { threads: threads.clone(), ..ServingOptions::default() }).await;
    let first = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let one = server.started().await;
    let second = server.send_later(&modern(2, "tools/call", json!({"name": "slow"})));
    let other = server.started().await;
    server.shutdown.cancel();
    one.release.send(()).unwrap();
    assert_eq!(first.await.unwrap().status, 200);
    assert!(!server.task.is_finished(), "a call of the other thread is not answered");
    other.release.send(()).unwrap();
    assert_eq!(second.await.unwrap().status, 200);
    within(server.task).await.unwrap().unwrap();
}
