//! What servers send besides an answer, over HTTP in both eras: log lines from the wanted level on, and unchanged
//! notifications.

use std::time::Duration;

use serde_json::{Value, json};
use servanda_engine::ClientMessage;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    fixture::{log_line, raw, within},
    http_client::{Call, Events, Server, legacy, modern, request},
};

/// The levels of the log lines before the answer.
async fn levels(events: &mut Events) -> Vec<String> {
    let mut levels = Vec::new();
    loop {
        let message = events.next().await.unwrap();
        if message.get("result").is_some() {
            assert_eq!(message["result"]["content"][0]["text"], "logged");
            assert_eq!(events.next().await, None, "nothing comes after the answer");
            return levels;
        }
        assert_eq!(message["method"], "notifications/message");
        levels.push(message["params"]["level"].as_str().unwrap().to_owned());
    }
}

fn set_level(session: &str, level: &str) -> Call {
    legacy(Some(session), request("l", "logging/setLevel", json!({"level": level})))
}

#[tokio::test]
async fn a_legacy_session_hears_the_level_it_set() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let log = legacy(Some(&session), request(1, "tools/call", json!({"name": "log"})));
    assert_eq!(levels(&mut server.stream(&log).await).await.len(), 8, "everything, as long as it did not say");
    for (level, heard) in [("error", 4), ("debug", 8), ("emergency", 1)] {
        let answer = server.send(&set_level(&session, level)).await;
        assert_eq!((answer.status.as_u16(), &answer.json()["result"]), (200, &json!({})));
        assert!(server.fixture.events().contains(&format!("level {level} {session}")));
        assert_eq!(levels(&mut server.stream(&log).await).await.len(), heard, "{level}");
    }
    let other = server.begin_session().await;
    let log = legacy(Some(&other), request(1, "tools/call", json!({"name": "log"})));
    assert_eq!(levels(&mut server.stream(&log).await).await.len(), 8, "levels are a session's own");
}

#[tokio::test]
async fn a_modern_request_hears_the_level_it_asks_for_and_nothing_unasked() {
    let server = Server::start().await;
    let answer = server.send(&modern(1, "tools/call", json!({"name": "log"}))).await;
    assert_eq!((answer.status.as_u16(), answer.content_type()), (200, "application/json"));
    for (level, heard) in [("debug", 8), ("warning", 5), ("emergency", 1)] {
        let meta = json!({"io.modelcontextprotocol/logLevel": level});
        let call = modern(1, "tools/call", json!({"name": "log", "_meta": meta}));
        let mut events = server.stream(&call).await;
        assert_eq!(levels(&mut events).await.len(), heard, "{level}");
        assert!(events.last_id.is_none() && events.retry_ms.is_none());
    }
    let meta = json!({"progressToken": 1});
    let answer = server.send(&modern(1, "tools/call", json!({"name": "log", "_meta": meta}))).await;
    assert_eq!(answer.content_type(), "application/json", "progress was asked for, not the log");
}

#[tokio::test]
async fn other_notifications_pass_as_they_are() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let call = legacy(Some(&session), request(1, "tools/call", json!({"name": "notify"})));
    let meta = json!({"progressToken": "mine"});
    for call in [call, modern(1, "tools/call", json!({"name": "notify", "_meta": meta}))] {
        let mut events = server.stream(&call).await;
        let message = events.next().await.unwrap();
        assert_eq!(message["params"], json!({"progressToken": "other", "progress": 1}));
        assert!(events.next().await.unwrap().get("result").is_some());
    }
}

#[tokio::test]
async fn what_is_said_outside_any_request_comes_down_the_sessions_own_stream() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let get = legacy(Some(&session), json!({})).method(reqwest::Method::GET);
    let mut events = server.stream(&get).await;
    assert_eq!(server.send(&set_level(&session, "warning")).await.status, 200);
    server.fixture.client_message(&session, log_line("info")).await;
    server.fixture.client_message(&session, log_line("alert")).await;
    let method = "notifications/elicitation/complete".to_owned();
    let params = json!({"elicitationId": "e"});
    server.fixture.client_message(&session, ClientMessage::Notification { method, params: Some(raw(&params)) }).await;
    let heard: Vec<Value> = vec![events.next().await.unwrap(), events.next().await.unwrap()];
    assert_eq!(heard[0]["params"]["level"], "alert", "the other was not grave enough");
    assert_eq!(heard[1]["params"], params);
}

/// A client that does not read holds up its own messages, but not the call.
#[tokio::test]
async fn a_call_goes_on_while_the_client_does_not_read_its_messages() {
    let mut server = Server::start().await;
    let call = modern(1, "tools/call", json!({"name": "slow", "_meta": {"progressToken": 1}}));
    let headers: Vec<String> = call.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let headers = headers.concat();
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n", call.body.len());
    let mut deaf = TcpStream::connect(server.address).await.unwrap();
    deaf.write_all((head + &call.body).as_bytes()).await.unwrap();
    let started = server.started().await;
    let (client_messages, mut progress) = (started.client_messages.unwrap(), 0);
    // Until nothing more goes out.
    loop {
        progress += 1;
        let client_message =
            ClientMessage::Progress(raw(&json!({"progress": progress, "message": "x".repeat(256 << 10)})));
        if tokio::time::timeout(Duration::from_millis(500), client_messages.send(client_message)).await.is_err() {
            break;
        }
    }
    started.release.send(()).unwrap();
    within(started.ended).await.unwrap();
    drop(deaf);
}
