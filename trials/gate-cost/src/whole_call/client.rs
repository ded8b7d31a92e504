//! A client that makes the same call again and again, on one connection: the request is made ready once, so that little of what is counted
//! is the client's own.

use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, DuplexStream};

use super::{
    Era, gateway,
    pipe::{self, Parts},
    server,
};

/// The most that an answer of the door has here.
const ANSWER_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Client {
    pipe: DuplexStream,
    call: Vec<u8>,
    buffer: Vec<u8>,
}

impl Client {
    /// Does what comes before the first call.
    pub(super) async fn greet(era: Era, pipe: DuplexStream) -> Self {
        let mut client = Self { pipe, call: Vec::new(), buffer: Vec::with_capacity(ANSWER_BYTES) };
        let fields = match era {
            Era::Modern => modern_fields(),
            Era::Legacy => client.begin_session().await,
        };
        client.call = request(&fields, &call(era));
        client
    }

    /// Calls the tool and reads the answer.
    pub(super) async fn call(&mut self) {
        self.pipe.write_all(&self.call).await.expect("a pipe in memory");
        let Parts { head, body } = pipe::read(&mut self.pipe, &mut self.buffer).await.expect("an answer");
        let (head, body) = (pipe::text(&self.buffer[head]), pipe::text(&self.buffer[body]));
        assert!(head.starts_with("HTTP/1.1 200 ") && body.contains(server::ROWS), "{head}\n{body}");
    }

    /// The fields of every request of a new session.
    async fn begin_session(&mut self) -> Vec<(&'static str, String)> {
        let client = json!({ "name": "gate-cost", "version": "1" });
        let params = json!({ "protocolVersion": Era::Legacy.revision(), "capabilities": {}, "clientInfo": client });
        let initialize = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let head = self.ask(&request(&[], &initialize)).await;
        let session = pipe::field(&head, "mcp-session-id").unwrap_or_else(|| panic!("{head}")).to_owned();
        let fields = vec![("mcp-session-id", session), ("mcp-protocol-version", Era::Legacy.revision().to_owned())];
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        self.ask(&request(&fields, &initialized)).await;
        fields
    }

    async fn ask(&mut self, request: &[u8]) -> String {
        self.pipe.write_all(request).await.expect("a pipe in memory");
        let parts = pipe::read(&mut self.pipe, &mut self.buffer).await.expect("an answer");
        let head = pipe::text(&self.buffer[parts.head]).to_owned();
        assert!(head.starts_with("HTTP/1.1 20"), "{head}\n{}", pipe::text(&self.buffer[parts.body]));
        head
    }
}

fn modern_fields() -> Vec<(&'static str, String)> {
    vec![
        ("mcp-protocol-version", Era::Modern.revision().to_owned()),
        ("mcp-method", "tools/call".to_owned()),
        ("mcp-name", gateway::TOOL.to_owned()),
    ]
}

fn call(era: Era) -> Value {
    let query = "SELECT id, total FROM invoices WHERE customer = 'c_17' ORDER BY issued DESC LIMIT 20";
    let mut params = json!({ "name": gateway::TOOL, "arguments": { "query": query, "rows_max": 20 } });
    if era == Era::Modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": era.revision(),
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "gate-cost", "version": "1" },
        });
    }
    json!({ "jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params })
}

fn request(fields: &[(&'static str, String)], message: &Value) -> Vec<u8> {
    let body = message.to_string();
    let fields: Vec<String> = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\n{}content-length: {}\r\n\r\n{body}",
        fields.concat(),
        body.len()
    )
    .into_bytes()
}
