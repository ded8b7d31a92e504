//! An MCP server in this process that answers what it must and nothing else, by hand: what it costs is counted with the call.

use std::sync::Arc;

use tokio::{
    io::{AsyncWriteExt as _, DuplexStream},
    sync::mpsc,
};

use super::{
    Era, Tally,
    pipe::{self, Parts},
};

/// Its one tool, as it lists it.
pub(super) const DEFINITION: &str = r#"{"name":"read_query","description":"Reads rows of the company's books by a query. Changes nothing.","inputSchema":{"type":"object","required":["query"],"properties":{"query":{"type":"string","minLength":1,"maxLength":65536,"description":"What is asked."},"rows_max":{"type":"integer","minimum":1,"maximum":1000,"description":"The most rows."}}},"annotations":{"readOnlyHint":true}}"#;

/// What every call of it answers.
pub(super) const ROWS: &str = "i_1 12.50, i_2 80.00, i_3 7.25, i_4 99.90, i_5 310.00";

/// Connections that wait to be taken.
pub(super) const BACKLOG: usize = 8;

/// The most that a request of the gateway has here.
const REQUEST_BYTES: usize = 16 * 1024;

/// Answers on every connection, until there are no more.
pub(super) async fn answer_all(mut connections: mpsc::Receiver<DuplexStream>, era: Era, calls: Arc<Tally>) {
    while let Some(pipe) = connections.recv().await {
        tokio::spawn(answer(pipe, era, Arc::clone(&calls)));
    }
}

async fn answer(mut pipe: DuplexStream, era: Era, calls: Arc<Tally>) {
    let mut buffer = Vec::with_capacity(REQUEST_BYTES);
    while let Some(Parts { head, body }) = pipe::read(&mut pipe, &mut buffer).await {
        let (head, body) = (pipe::text(&buffer[head]), pipe::text(&buffer[body]));
        let answer =
            if head.starts_with("POST ") { posted(era, body, &calls) } else { empty("405 Method Not Allowed") };
        if pipe.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

fn posted(era: Era, message: &str, calls: &Tally) -> String {
    let method = after(message, "\"method\":\"").and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let Some(id) = after(message, "\"id\":").and_then(|rest| rest.split([',', '}']).next()) else {
        return empty("202 Accepted");
    };
    let complete = if era == Era::Modern { "\"resultType\":\"complete\"," } else { "" };
    let fresh = if era == Era::Modern { ",\"ttlMs\":0,\"cacheScope\":\"private\"" } else { "" };
    let result = match (method, era) {
        ("initialize", Era::Legacy) => format!(
            r#"{{"protocolVersion":"{}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"books","version":"1"}}}}"#,
            era.revision()
        ),
        ("server/discover", Era::Modern) => {
            format!(
                r#"{{{complete}"supportedVersions":["{}"],"capabilities":{{"tools":{{}}}}{fresh}}}"#,
                era.revision()
            )
        }
        ("tools/list", _) => format!(r#"{{{complete}"tools":[{DEFINITION}]{fresh}}}"#),
        ("tools/call", _) => {
            calls.add_one();
            format!(r#"{{{complete}"content":[{{"type":"text","text":"{ROWS}"}}],"isError":false}}"#)
        }
        ("ping", _) => "{}".to_owned(),
        _ => return json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"unknown"}}}}"#)),
    };
    json(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

fn after<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    text.split_once(mark).map(|(_, rest)| rest)
}

fn json(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn empty(status: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")
}
