//! An agent's MCP client, in either era, as raw messages over HTTP.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::http::{Exchange, Question};

const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A client.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    address: SocketAddr,
    /// The legacy session; the modern era has none.
    session: Option<String>,
    /// The credential that it sends.
    credential: Option<String>,
}

/// One message that came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) raw: String,
    pub(crate) message: Value,
}

impl Agent {
    pub(crate) fn modern(address: SocketAddr) -> Self {
        Self { address, session: None, credential: None }
    }

    /// A modern client with a credential.
    pub(crate) fn bearing(address: SocketAddr, credential: &str) -> Self {
        Self { credential: Some(credential.to_owned()), ..Self::modern(address) }
    }

    /// The same client in the same session with another credential.
    pub(crate) fn showing(&self, credential: &str) -> Self {
        Self { credential: Some(credential.to_owned()), ..self.clone() }
    }

    /// The same client in another session.
    pub(crate) fn in_session(&self, session: &str) -> Self {
        Self { session: Some(session.to_owned()), ..self.clone() }
    }

    /// A legacy client, after the handshake.
    pub(crate) fn legacy(address: SocketAddr) -> Self {
        Self::able(address, &json!({}))
    }

    /// The same for a client with capabilities.
    pub(crate) fn able(address: SocketAddr, capabilities: &Value) -> Self {
        Self::shaking_hands(address, capabilities, None)
    }

    /// A legacy client with a credential.
    pub(crate) fn legacy_bearing(address: SocketAddr, credential: &str) -> Self {
        Self::shaking_hands(address, &json!({}), Some(credential))
    }

    fn shaking_hands(address: SocketAddr, capabilities: &Value, credential: Option<&str>) -> Self {
        let mut first = initialize(0);
        first["params"]["capabilities"] = capabilities.clone();
        let mut question = Question::post(&first);
        if let Some(credential) = credential {
            question = question.with("authorization", &format!("Bearer {credential}"));
        }
        let greeting = question.ask(address);
        assert_eq!(greeting.status, 200);
        let session = greeting.headers.get("mcp-session-id").cloned();
        let agent = Self { address, session, credential: credential.map(str::to_owned) };
        let welcome = Reply::of(greeting.text());
        assert_eq!(welcome.message["result"]["protocolVersion"], LEGACY);
        agent.notify("notifications/initialized", &json!({}));
        agent
    }

    /// Makes a request whose answer is a single message.
    #[track_caller]
    pub(crate) fn ask(&self, method: &'static str, params: Value) -> Reply {
        Reply::of(self.begin("question", method, params).answer())
    }

    /// Makes a request; the answer may be a stream.
    pub(crate) fn begin(&self, id: impl Into<Value>, method: &'static str, params: Value) -> Exchange {
        self.question(id, method, params).ask(self.address)
    }

    /// Sends a request that was built before.
    pub(crate) fn exchange(&self, question: &Question) -> Exchange {
        question.ask(self.address)
    }

    /// Calls a tool.
    #[track_caller]
    pub(crate) fn call(&self, tool: &str, arguments: impl Into<Value>) -> Reply {
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments.into() }))
    }

    /// Calls a tool as agents do, without asking for the full detail.
    #[track_caller]
    pub(crate) fn call_briefly(&self, tool: &str, arguments: impl Into<Value>) -> Reply {
        let meta = json!({ "servanda/detail": "brief" });
        self.ask("tools/call", json!({ "name": tool, "arguments": arguments.into(), "_meta": meta }))
    }

    /// The names of every tool on offer, sorted, because servers choose the order.
    pub(crate) fn tools(&self) -> Vec<String> {
        let listed = self.ask("tools/list", json!({}));
        let tools = listed.message["result"]["tools"].as_array().unwrap();
        let mut names: Vec<String> = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Sends a notification.
    pub(crate) fn notify(&self, method: &'static str, params: &Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        let told = self.addressed(Question::post(&message), method, None).ask(self.address);
        assert_eq!(told.status, 202);
    }

    /// Answers a question that a server asked during a call.
    pub(crate) fn tell(&self, message: &Value) {
        let told = self.addressed(Question::post(message), "", None).ask(self.address);
        assert_eq!(told.status, 202);
    }

    /// Opens the stream on which a legacy session gets notifications.
    pub(crate) fn listen(&self) -> Exchange {
        let stream = self.listening().ask(self.address);
        assert_eq!(stream.status, 200);
        stream
    }

    /// The request for that stream.
    pub(crate) fn listening(&self) -> Question {
        self.addressed(Question::get(), "", None)
    }

    /// A request, built but not sent.
    pub(crate) fn question(&self, id: impl Into<Value>, method: &'static str, mut params: Value) -> Question {
        if self.session.is_none() {
            params["_meta"] = modern_meta(params["_meta"].take());
        }
        if method == "tools/call" && params["_meta"].get("servanda/detail").is_none() {
            // Tests check everything that is known about a call.
            params["_meta"]["servanda/detail"] = json!("full");
        }
        let name = params["name"].as_str().map(str::to_owned);
        let message = json!({ "jsonrpc": "2.0", "id": id.into(), "method": method, "params": params });
        self.addressed(Question::post(&message), method, name.as_deref())
    }

    fn addressed(&self, mut question: Question, method: &str, name: Option<&str>) -> Question {
        if let Some(credential) = &self.credential {
            question = question.with("authorization", &format!("Bearer {credential}"));
        }
        match (&self.session, name) {
            (Some(session), _) => question.with("mcp-session-id", session).with("mcp-protocol-version", LEGACY),
            (None, None) => question.with("mcp-protocol-version", MODERN).with("mcp-method", method),
            (None, Some(name)) => {
                question.with("mcp-protocol-version", MODERN).with("mcp-method", method).with("mcp-name", name)
            }
        }
    }
}

impl Reply {
    #[track_caller]
    pub(crate) fn of(raw: String) -> Self {
        let message = serde_json::from_str(&raw).unwrap_or_else(|error| panic!("{error}: {raw:?}"));
        Self { raw, message }
    }

    /// The result of a request that was not refused by the protocol.
    #[track_caller]
    pub(crate) fn result(&self) -> &Value {
        self.message.get("result").unwrap_or_else(|| panic!("no result: {}", self.raw))
    }

    /// The result of a call that did what its contract says.
    #[track_caller]
    pub(crate) fn success(&self) -> &Value {
        assert_ne!(self.result()["isError"], true, "{}", self.raw);
        self.result()
    }

    /// The refusal in the answer of a call.
    #[track_caller]
    pub(crate) fn refusal(&self) -> Value {
        assert_eq!(self.result()["isError"], true, "{}", self.raw);
        let text = self.result()["content"][0]["text"].as_str().unwrap();
        serde_json::from_str(text).unwrap_or_else(|error| panic!("not a refusal: {error}: {text}"))
    }

    /// The observation in the answer.
    #[track_caller]
    pub(crate) fn observation(&self) -> &Value {
        let observation = &self.result()["_meta"]["servanda/observation"];
        assert!(observation.is_object(), "no observation: {}", self.raw);
        observation
    }

    /// The call's id.
    #[track_caller]
    pub(crate) fn call_id(&self) -> String {
        self.result()["_meta"]["servanda/call"]["id"].as_str().unwrap().to_owned()
    }
}

/// The first message of a legacy client.
pub(crate) fn initialize(id: impl Into<Value>) -> Value {
    let params = json!({
        "protocolVersion": LEGACY, "capabilities": {}, "clientInfo": { "name": "test agent", "version": "1" },
    });
    json!({ "jsonrpc": "2.0", "id": id.into(), "method": "initialize", "params": params })
}

/// `_meta` of a modern request, with other members.
pub(crate) fn modern_meta(others: Value) -> Value {
    let mut meta = json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "test agent", "version": "2" },
    });
    if let Value::Object(others) = others {
        meta.as_object_mut().unwrap().extend(others);
    }
    meta
}
