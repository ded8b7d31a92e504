//! An agent's MCP client (2026-07-28, no sessions, so that any replica can answer), and how it classifies an answer.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde_json::{Value, json, value::RawValue};

use crate::{
    http::{Message, Wire, post},
    upstream::{
        script::HONEST,
        tools::{ATTEMPT_META, business_argument},
    },
    world::USUAL,
};

const MODERN: &str = "2026-07-28";
/// The prefix of every key; the business id follows.
pub const KEY_PREFIX: &str = "key-";

/// One call: the tool, the key and the payload.
#[derive(Debug, Clone)]
pub struct Order {
    pub tool: String,
    pub key: String,
    pub business: String,
    pub amount: i64,
    pub script: String,
    /// The account that only one call may change at a time, if the tool takes one.
    pub account: Option<String>,
    /// How long the gateway waits for the upstream, by the tool's contract.
    pub limit_ms: u64,
    /// The name of this attempt; the gateway passes it on.
    pub attempt: Option<String>,
    /// The agent's API key, where gateways ask for credentials.
    pub credential: Option<String>,
}

/// What came back.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The tool's result.
    Success {
        /// Content and structured content, byte for byte.
        content: String,
        /// Whether the answer says that it is a replay.
        replayed: bool,
    },
    /// The gateway's refusal.
    Refused(Refusal),
    /// Something that is neither.
    Strange(String),
    /// No answer, and the reason.
    Nothing(String),
}

/// A refusal, as an agent reads it.
#[derive(Debug, Clone)]
pub struct Refusal {
    pub code: String,
    /// The gate that refused.
    pub gate: String,
    /// `none`, `happened`, `unknown` or `unknown_before`.
    pub effect: String,
    pub message: String,
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
    /// The handle of the effect, by which it can be asked about.
    pub handle: Option<String>,
    /// The whole text.
    pub text: String,
}

impl Order {
    /// A call of this tool that the upstream answers correctly.
    pub fn new(tool: &str, business: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            key: format!("{KEY_PREFIX}{business}"),
            business: business.to_owned(),
            amount: 7,
            script: HONEST.to_owned(),
            account: None,
            limit_ms: 0,
            attempt: None,
            credential: None,
        }
    }

    /// The same key with another payload.
    pub fn other_payload(&self) -> Self {
        Self { amount: self.amount + 1, ..self.clone() }
    }

    /// The request as bytes.
    pub fn request(&self, address: SocketAddr) -> Vec<u8> {
        // A tool of another upstream than the usual one is named with it.
        let name = match self.tool.split_once('.') {
            Some((upstream, tool)) => format!("{upstream}__{tool}"),
            None => format!("{USUAL}__{}", self.tool),
        };
        let named = business_argument(&self.tool);
        let mut arguments = json!({ named: self.business, "amount": self.amount, "script": self.script });
        if let Some(account) = &self.account {
            arguments["account"] = json!(account);
        }
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo": { "name": "chaos", "version": "1" },
            "servanda/idempotency-key": self.key,
            // The checker looks at the whole refusal.
            "servanda/detail": "full",
        });
        if let Some(attempt) = &self.attempt {
            meta[ATTEMPT_META] = json!(attempt);
        }
        let params = json!({ "name": name, "arguments": arguments, "_meta": meta });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let bearer = self.credential.as_ref().map(|key| format!("Bearer {key}"));
        let mut headers = vec![
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", MODERN),
            ("mcp-method", "tools/call"),
            ("mcp-name", &name),
        ];
        headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
        post("/mcp", address, &headers, &body)
    }

    /// Makes the call on a connection that may be used again.
    pub async fn call_over(&self, wire: &mut Wire, patience: Duration) -> Answer {
        let request = self.request(wire.address());
        match wire.ask(&request, patience).await {
            Ok(message) => Answer::of(&message),
            Err(error) => Answer::Nothing(error.to_string()),
        }
    }

    /// Makes the call on a connection of its own.
    pub async fn call(&self, address: SocketAddr, patience: Duration) -> Answer {
        self.call_over(&mut Wire::new(address), patience).await
    }
}

impl Answer {
    fn of(message: &Message) -> Self {
        let body = String::from_utf8_lossy(&message.body).into_owned();
        let is_stream = message.header("content-type").is_some_and(|kind| kind.contains("event-stream"));
        let texts: Vec<&str> =
            if is_stream { body.lines().filter_map(|line| line.strip_prefix("data:")).collect() } else { vec![&body] };
        let mut results = texts.iter().filter_map(|text| {
            let message: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text.trim()).ok()?;
            message.get("result").cloned()
        });
        match results.next_back() {
            Some(result) => Self::of_result(result.get()),
            None => Self::Strange(format!("HTTP {}: {body}", message.status())),
        }
    }

    fn of_result(text: &str) -> Self {
        let Ok(result) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(text) else {
            return Self::Strange(text.to_owned());
        };
        let raw = |member: &str| result.get(member).map_or("", |value| value.get());
        if raw("isError") != "true" {
            let meta: Value = serde_json::from_str(raw("_meta")).unwrap_or_default();
            let replayed = meta["servanda/call"]["replayed"] == true;
            return Self::Success { content: format!("{}{}", raw("content"), raw("structuredContent")), replayed };
        }
        let content: Value = serde_json::from_str(raw("content")).unwrap_or_default();
        let told = content[0]["text"].as_str().unwrap_or_default().to_owned();
        let feedback: Value = serde_json::from_str(&told).unwrap_or_default();
        let word = |member: &str| feedback[member].as_str().unwrap_or_default().to_owned();
        if word("error_code").is_empty() {
            return Self::Strange(text.to_owned());
        }
        Self::Refused(Refusal {
            code: word("error_code"),
            gate: word("gate"),
            effect: word("effect"),
            message: word("message"),
            retryable: feedback["retryable"] == true,
            retry_after_ms: feedback["retry_after_ms"].as_u64(),
            handle: feedback["handle"].as_str().map(str::to_owned),
            text: text.to_owned(),
        })
    }

    pub fn is_success(&self) -> bool {
        matches!(self, Self::Success { .. })
    }

    /// Refused with this class.
    pub fn is_refused_as(&self, code: &str) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.code == code)
    }

    /// Refused, and says that it is unknown whether the call was performed.
    pub fn is_unknown(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.effect == "unknown" && !refusal.is_about_the_key())
    }

    /// Refused, and says that it stays unknown until a person checks.
    pub fn is_unknown_for_good(&self) -> bool {
        self.is_unknown() && !matches!(self, Self::Refused(refusal) if refusal.retryable)
    }

    /// Refused, and says that it happened.
    pub fn says_it_happened(&self) -> bool {
        matches!(self, Self::Refused(refusal) if refusal.effect == "happened")
    }

    /// In a few words.
    pub fn short(&self) -> String {
        match self {
            Self::Success { content, replayed } => format!("success (replayed: {replayed}) {}", cut(content)),
            Self::Refused(refusal) => {
                format!("{} (effect: {}) {}", refusal.code, refusal.effect, cut(&refusal.message))
            }
            Self::Strange(text) => format!("strange: {}", cut(text)),
            Self::Nothing(why) => format!("nothing: {why}"),
        }
    }
}

impl Refusal {
    /// Whether it is about another call of the key, and says nothing about what this one did.
    pub fn is_about_the_key(&self) -> bool {
        ["IDEMPOTENCY_CONFLICT", "SIGNATURE_MISMATCH"].contains(&self.code.as_str()) || self.says_expired()
    }

    /// Whether another attempt with the same key may get a better answer: nothing was sent, or the key could not be looked up.
    pub fn can_be_asked_again(&self) -> bool {
        self.effect == "unknown_before" || self.effect == "none" && !self.is_about_the_key()
    }

    pub fn says_expired(&self) -> bool {
        self.message.contains("expired")
    }
}

fn cut(text: &str) -> String {
    text.chars().take(160).collect()
}
