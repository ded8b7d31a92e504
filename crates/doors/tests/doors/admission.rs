//! Tables of what the HTTP door accepts and refuses. A refused request never breaks the connection.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    fixture::within,
    http_client::{Call, Server, initialize, legacy, modern, request},
};

const BOTH: &str = "application/json, text/event-stream";

/// Columns: a header, its value, and the status of a request with it.
#[tokio::test]
async fn headers_decide_who_is_let_in() {
    let server = Server::start_with(|options| {
        options.allowed_hosts = vec!["Gateway.example".to_owned()];
        options.allowed_origins = vec!["https://app.example".to_owned()];
    })
    .await;
    for (header, value, status) in [
        ("accept", "text/event-stream;q=0.5 , Application/JSON", 200),
        ("accept", "*/*", 200),
        ("accept", "application/*, text/*", 200),
        ("accept", "application/json", 406),
        ("accept", "text/event-stream", 406),
        ("accept", "text/html", 406),
        ("content-type", "Application/Json; charset=utf-8", 200),
        ("content-type", "text/plain", 415),
        ("content-type", "application/jsonp", 415),
        ("host", "localhost", 200),
        ("host", "LOCALHOST:1234", 200),
        ("host", "127.0.0.1:1", 200),
        ("host", "[::1]:1", 200),
        ("host", "gateway.example:8443", 200),
        ("host", "evil.example", 403),
        ("host", "localhost.evil.example", 403),
        ("host", "evil.example:127", 403),
        ("host", "127.0.0.1@evil.example", 403),
        ("host", "127.0.0.2", 403),
        ("origin", "http://localhost:3000", 200),
        ("origin", "https://127.0.0.1", 200),
        ("origin", "http://[::1]:3000", 200),
        ("origin", "https://gateway.example", 200),
        ("origin", "https://app.example", 200),
        ("origin", "http://app.example", 403),
        ("origin", "http://evil.example", 403),
        ("origin", "http://localhost.evil.example", 403),
        ("origin", "null", 403),
        ("origin", "file://localhost", 403),
        ("origin", "http://localhost/path", 403),
    ] {
        let call = modern(1, "server/discover", json!({})).with(header, value);
        let answer = server.send(&call).await;
        assert_eq!(answer.status, status, "{header}: {value}: {}", answer.body);
        if status != 200 {
            assert_eq!(answer.code(), -32600, "{header}: {value}");
            assert!(answer.json().get("id").is_none(), "the id was not read");
        }
    }
    let answer = server.send(&modern(1, "server/discover", json!({})).without("content-type")).await;
    assert_eq!(answer.status, 415);
}

#[tokio::test]
async fn the_host_is_checked_for_every_method() {
    let server = Server::start().await;
    for method in [Method::GET, Method::DELETE, Method::POST, Method::PUT] {
        let call = legacy(None, initialize("2025-11-25")).with("host", "evil.example").method(method);
        assert_eq!(server.send(&call).await.status, 403);
    }
}

#[tokio::test]
async fn other_methods_are_not_allowed() {
    let server = Server::start().await;
    for method in [Method::PUT, Method::PATCH, Method::OPTIONS] {
        let answer = server.send(&legacy(None, initialize("2025-11-25")).method(method)).await;
        assert_eq!(answer.status, 405);
        assert_eq!(answer.headers["allow"], "GET, POST, DELETE");
    }
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let server = Server::start_with(|options| options.body_bytes_max = 1000).await;
    let fits = legacy(None, initialize("2025-11-25"));
    let padded = |bytes: usize| fits.clone().body(&format!("{:<bytes$}", fits.body));
    assert_eq!(server.send(&padded(1000)).await.status, 200);
    let answer = server.send(&padded(1001)).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (413, -32600));
    assert_eq!(server.send(&padded(1000)).await.status, 200);
}

/// Columns: a body, and the status, code and id of its answer.
fn malformed() -> Vec<(&'static str, u16, i64, Value)> {
    let none = Value::Null;
    vec![
        ("", 400, -32700, none.clone()),
        ("{", 400, -32700, none.clone()),
        ("hello", 400, -32700, none.clone()),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}}", 400, -32700, none.clone()),
        ("\u{0}", 400, -32700, none.clone()),
        ("[]", 400, -32600, none.clone()),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, 400, -32600, none.clone()),
        ("1", 400, -32600, none.clone()),
        ("null", 400, -32600, none.clone()),
        ("{}", 400, -32600, none.clone()),
        (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, 400, -32600, json!(7)),
        (r#"{"jsonrpc":"2.0","id":"seven"}"#, 400, -32600, json!("seven")),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, 400, -32600, none.clone()),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, 400, -32600, none.clone()),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, 400, -32600, none.clone()),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}"#, 400, -32600, none.clone()),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, 400, -32600, none),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#, 200, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":5}}"#, 200, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#, 200, -32602, json!(1)),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"_meta":{},"_meta":{}}}"#, 200, -32602, json!(1)),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"arguments":{}}}"#,
            200,
            -32602,
            json!(1),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1,"progressToken":2}}}"#,
            200,
            -32602,
            json!(1),
        ),
    ]
}

#[tokio::test]
async fn malformed_messages_are_answered_and_the_connection_lives() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    for (body, status, code, id) in malformed() {
        let call = legacy(Some(&session), json!({})).body(body);
        let (answered, message) = exchange(&mut connection, &call).await;
        let message: Value = serde_json::from_str(&message).unwrap();
        assert_eq!((answered, message["error"]["code"].as_i64().unwrap()), (status, code), "{body}: {message}");
        assert_eq!(message["id"], id, "{body}");
        assert_eq!(message.get("id").is_some(), !id.is_null(), "MCP has no null id");

        let ping = legacy(Some(&session), request(1, "ping", json!({})));
        let (status, message) = exchange(&mut connection, &ping).await;
        assert_eq!((status, message.as_str()), (200, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), "after {body}");
    }
}

/// One request and its answer over a kept-alive connection.
async fn exchange(connection: &mut TcpStream, call: &Call) -> (u16, String) {
    let mut headers = String::new();
    for (name, value) in &call.headers {
        headers.extend([
            name, ": ", value, "
",
        ]);
    }
    let length = call.body.len();
    let text =
        format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n{}", call.body);
    connection.write_all(text.as_bytes()).await.unwrap();
    let mut read = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&read).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            if body.len() == length.parse::<usize>().unwrap() {
                return (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned());
            }
        }
        assert_ne!(within(connection.read_buf(&mut read)).await.unwrap(), 0, "the connection was closed: {text}");
    }
}

#[tokio::test]
async fn an_accept_header_that_is_missing_is_not_acceptable() {
    let server = Server::start().await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let call = modern(1, "server/discover", json!({})).without("accept");
    assert_eq!(exchange(&mut connection, &call).await.0, 406);
    assert_eq!(exchange(&mut connection, &call.with("accept", BOTH)).await.0, 200);
}

#[tokio::test]
async fn responses_and_notifications_are_accepted() {
    let server = Server::start().await;
    let session = server.begin_session().await;
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/nobody-knows"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
    ] {
        let answer = server.send(&legacy(Some(&session), json!({})).body(body)).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (202, ""), "{body}");
    }
    let modern_note = modern(1, "notifications/cancelled", json!({}))
        .body(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#);
    assert_eq!(server.send(&modern_note).await.status, 202);
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_not_waited_for() {
    let server = Server::start_with(|options| options.body_read_ms_max = 1).await;
    let mut connection = TcpStream::connect(server.address).await.unwrap();
    let head = format!("POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: {BOTH}\r\ncontent-type: application/json\r\n");
    connection.write_all(format!("{head}content-length: 10\r\n\r\n{{").as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    within(connection.read_exact(&mut answer)).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 408");
}

#[tokio::test]
async fn http_2_has_its_host_elsewhere() {
    let server = Server::start().await;
    let call = modern(1, "server/discover", json!({}));
    for (host, status) in [("127.0.0.1", 200), ("localhost", 200), ("evil.example", 403)] {
        let url = format!("http://{host}:{}/mcp", server.address.port());
        let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().resolve(host, server.address);
        let mut request = client.build().unwrap().post(url).body(call.body.clone());
        for (name, value) in &call.headers {
            request = request.header(name, value);
        }
        let answer = within(request.send()).await.unwrap();
        assert_eq!((answer.version(), answer.status().as_u16()), (reqwest::Version::HTTP_2, status), "{host}");
    }
}
