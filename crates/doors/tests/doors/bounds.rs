//! Limits on the bytes that a client may make the door keep.

use serde_json::{Value, json};

use crate::{
    http_client::{Server, initialize, legacy, meta, modern, request},
    schema::Era,
    stdio_client::Pipe,
};

/// A JSON object of exactly that many bytes.
fn object_of(bytes: usize) -> Value {
    let empty = json!({"experimental": {"x": ""}}).to_string().len();
    json!({"experimental": {"x": "y".repeat(bytes - empty)}})
}

fn uri_of(bytes: usize) -> String {
    format!("a:{}", "b".repeat(bytes - 2))
}

const CAPABILITIES_BYTES_MAX: usize = 16 * 1024;
const URI_BYTES_MAX: usize = 8 * 1024;

#[tokio::test]
async fn a_session_is_not_begun_with_capabilities_without_bounds() {
    let server = Server::start().await;
    let mut hello = initialize("2025-11-25");
    hello["params"]["capabilities"] = object_of(CAPABILITIES_BYTES_MAX);
    assert!(server.send(&legacy(None, hello.clone())).await.session().is_some());
    hello["params"]["capabilities"] = object_of(CAPABILITIES_BYTES_MAX + 1);
    let answer = server.send(&legacy(None, hello)).await;
    assert_eq!((answer.code(), answer.session()), (-32602, None));
}

#[tokio::test]
async fn a_modern_request_does_not_bring_capabilities_without_bounds() {
    let server = Server::start().await;
    for (bytes, status) in [(CAPABILITIES_BYTES_MAX, 200), (CAPABILITIES_BYTES_MAX + 1, 400)] {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": object_of(bytes)});
        let answer = server.send(&modern(1, "tools/call", json!({"name": "echo", "_meta": meta}))).await;
        assert_eq!(answer.status.as_u16(), status);
        if status == 400 {
            assert_eq!(answer.code(), -32602);
        }
    }
}

/// A name of any length is accepted, and one line of it is kept.
#[tokio::test]
async fn one_line_of_a_clients_name_is_kept() {
    let server = Server::start().await;
    let mut hello = initialize("2025-11-25");
    hello["params"]["clientInfo"]["name"] = json!("n".repeat(100_000));
    let session = server.send(&legacy(None, hello)).await.session().unwrap();
    let call = legacy(Some(&session), request(1, "tools/call", json!({"name": "echo"})));
    let answer = server.send(&call).await.json();
    assert_eq!(answer["result"]["_meta"]["servanda/observation"]["client"], "n".repeat(128));
}

#[tokio::test]
async fn what_is_watched_is_named_within_bounds() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let subscribe =
        |bytes: usize| legacy(Some(&session), request(1, "resources/subscribe", json!({"uri": uri_of(bytes)})));
    assert_eq!(server.send(&subscribe(URI_BYTES_MAX)).await.json()["result"], json!({}));
    assert_eq!(server.send(&subscribe(URI_BYTES_MAX + 1)).await.code(), -32602);
    assert_eq!(server.fixture.events(), [format!("watch {}", uri_of(URI_BYTES_MAX))]);

    let tasks = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    for notifications in [
        json!({"resourceSubscriptions": ["a:1", uri_of(URI_BYTES_MAX + 1)]}),
        json!({"taskIds": ["t1", uri_of(URI_BYTES_MAX + 1)]}),
    ] {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": tasks});
        let listen = modern(1, "subscriptions/listen", json!({"notifications": notifications, "_meta": meta}));
        assert_eq!(server.send(&listen).await.code(), -32602);
    }
    assert_eq!(server.fixture.events().len(), 1, "nothing else is watched");
}

#[tokio::test]
async fn pipes_have_the_same_bounds() {
    let mut pipe = Pipe::open();
    let mut hello = initialize("2025-11-25");
    hello["params"]["capabilities"] = object_of(CAPABILITIES_BYTES_MAX + 1);
    assert_eq!(pipe.ask(Era::Legacy, &hello).await["error"]["code"], -32602);
    let meta = meta(json!({"io.modelcontextprotocol/clientCapabilities": object_of(CAPABILITIES_BYTES_MAX + 1)}));
    let call = request(1, "tools/call", json!({"name": "echo", "_meta": meta}));
    assert_eq!(pipe.ask(Era::Modern, &call).await["error"]["code"], -32602);
    pipe.ask(Era::Legacy, &initialize("2025-11-25")).await;
    let subscribe = request(1, "resources/subscribe", json!({"uri": uri_of(URI_BYTES_MAX + 1)}));
    assert_eq!(pipe.ask(Era::Legacy, &subscribe).await["error"]["code"], -32602);
    assert!(pipe.fixture.events().is_empty());
}
