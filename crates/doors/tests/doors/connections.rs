//! Connections that send no requests: they are closed, and their number is limited.

use std::time::Duration;

use serde_json::json;
use servanda_doors::{HttpOptions, ServingOptions, http};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_util::sync::CancellationToken;

use crate::{
    fixture::{fixture, identity, within},
    http_client::{Server, modern},
};

/// Long enough for a door with a free place to answer.
const IMPATIENCE: Duration = Duration::from_millis(300);

async fn begin(server: &Server, bytes: &[u8]) -> TcpStream {
    let mut connection = within(TcpStream::connect(server.address)).await.unwrap();
    within(connection.write_all(bytes)).await.unwrap();
    connection
}

/// Reads until the door closes the connection.
async fn is_let_go(mut connection: TcpStream) {
    // An end and a reset count the same.
    let _ = within(connection.read_to_end(&mut Vec::new())).await;
}

#[tokio::test]
async fn a_connection_that_asks_nothing_is_let_go() {
    let server =
        Server::start_serving(|_| {}, ServingOptions { head_read_ms_max: 50, ..ServingOptions::default() }).await;
    let beginnings: [&[u8]; 6] = [
        b"",
        b"P",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n",
        b"PRI * HTTP/2.0\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        // A connection that has sent a request, and then nothing more.
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET",
    ];
    for beginning in beginnings {
        is_let_go(begin(&server, beginning).await).await;
    }
    assert_eq!(server.send(&modern(1, "tools/list", json!({}))).await.status, 200);
}

#[tokio::test]
async fn a_request_that_takes_longer_than_its_head_may_is_answered() {
    let mut server =
        Server::start_serving(|_| {}, ServingOptions { head_read_ms_max: 50, ..ServingOptions::default() }).await;
    let pending = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let started = server.started().await;
    tokio::time::sleep(IMPATIENCE).await;
    started.release.send(()).unwrap();
    assert_eq!(pending.await.unwrap().json()["result"]["resultType"], "complete");
}

const HEALTH: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn beyond_the_limit_a_connection_waits_for_one_that_asks_something() {
    let mut server =
        Server::start_serving(|_| {}, ServingOptions { connections_max: 1, ..ServingOptions::default() }).await;
    let pending = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let started = server.started().await;
    let mut second = begin(&server, HEALTH).await;
    let mut answer = [0; 12];
    assert!(tokio::time::timeout(IMPATIENCE, second.read_exact(&mut answer)).await.is_err(), "there is no room");
    started.release.send(()).unwrap();
    assert_eq!(pending.await.unwrap().json()["result"]["resultType"], "complete", "a connection with a request stays");
    within(second.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_connection_need_not_be_a_socket() {
    let router = http::router(fixture().0, HttpOptions::new(identity()));
    let (mut client, door) = tokio::io::duplex(1024);
    let served = tokio::spawn(http::serve_stream(door, router, CancellationToken::new(), ServingOptions::default()));
    client.write_all(HEALTH).await.unwrap();
    let mut answer = String::new();
    within(client.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    within(served).await.unwrap();
}

#[tokio::test]
async fn connections_that_ask_nothing_make_room() {
    let server =
        Server::start_serving(|_| {}, ServingOptions { connections_max: 8, ..ServingOptions::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(begin(&server, b"POST").await);
    }
    let mut asks = begin(&server, HEALTH).await;
    let mut answer = [0; 12];
    within(asks.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
    is_let_go(silent.swap_remove(0)).await;
}

/// An HTTP/2 client that grants no window, so that no byte of a body may be sent to it, and asks for the gateway's health.
fn without_a_window() -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    let mut head = vec![0x82, 0x86, 0x04, 8];
    head.extend(b"/healthz");
    head.extend([0x01, 9]);
    head.extend(b"localhost");
    bytes.extend([0, 0, u8::try_from(head.len()).unwrap(), 1, 5, 0, 0, 0, 1]);
    bytes.extend(head);
    bytes
}

/// Waits for the head of the answer.
async fn is_answered(connection: &mut TcpStream) {
    loop {
        let mut frame = [0; 9];
        within(connection.read_exact(&mut frame)).await.unwrap();
        let mut payload = vec![0; usize::from(frame[1]) * 256 + usize::from(frame[2])];
        within(connection.read_exact(&mut payload)).await.unwrap();
        if frame[3] == 1 {
            return;
        }
    }
}

#[tokio::test]
async fn a_client_that_takes_no_answer_makes_room() {
    let serving = ServingOptions { connections_max: 4, head_read_ms_max: 3_600_000, ..ServingOptions::default() };
    let server = Server::start_serving(|_| {}, serving).await;
    let mut kept = Vec::new();
    for _ in 0..4 {
        let mut connection = begin(&server, &without_a_window()).await;
        is_answered(&mut connection).await;
        kept.push(connection);
    }
    let mut asks = begin(&server, HEALTH).await;
    let mut answer = [0; 12];
    within(asks.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[tokio::test]
async fn a_client_that_takes_no_answer_for_too_long_is_let_go() {
    let serving = ServingOptions { stall_ms_max: 100, head_read_ms_max: 3_600_000, ..ServingOptions::default() };
    let mut server = Server::start_serving(|_| {}, serving).await;
    // An answer that takes longer to produce is not a stall.
    let pending = server.send_later(&modern(1, "tools/call", json!({"name": "slow"})));
    let started = server.started().await;
    is_let_go(begin(&server, &without_a_window()).await).await;
    started.release.send(()).unwrap();
    assert_eq!(pending.await.unwrap().json()["result"]["resultType"], "complete");
}

#[tokio::test]
async fn a_half_sent_request_does_not_hold_up_shutdown() {
    // Longer than a test may take.
    let serving = ServingOptions { drain_ms_max: 3_600_000, head_read_ms_max: 3_600_000, ..ServingOptions::default() };
    let server = Server::start_serving(|_| {}, serving).await;
    let half = begin(&server, b"POST /mcp HTTP/1.1\r\n").await;
    assert_eq!(server.send(&modern(1, "tools/list", json!({}))).await.status, 200);
    server.shutdown.cancel();
    within(server.task).await.unwrap().unwrap();
    drop(half);
}
