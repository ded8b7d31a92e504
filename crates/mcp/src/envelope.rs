//! The JSON-RPC 2.0 envelope, read once, with parameters and results left raw; `write` writes messages.
//!
//! Duplicate keys in the envelope are refused: the bytes that are judged and the bytes that are forwarded must be the
//! same. Deliberately not here: parsing parameters.

mod write;

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize,
    de::{self, Visitor},
};
use serde_json::value::RawValue;

pub use self::write::{RequestBody, batch, cancelled, failure, notification, request, response, to_json};

/// A request id: JSON-RPC's string or integer, kept typed. It identifies a message, never a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(untagged)]
pub enum Id {
    /// An integer.
    Number(i64),
    /// A string.
    Text(String),
}

/// One message.
#[derive(Debug, Clone)]
pub enum Message<'a> {
    /// Expects an answer.
    Request {
        /// To be echoed.
        id: Id,
        /// The method.
        method: Cow<'a, str>,
        /// The parameters.
        params: Option<&'a RawValue>,
    },
    /// Expects no answer.
    Notification {
        /// The method.
        method: Cow<'a, str>,
        /// The parameters.
        params: Option<&'a RawValue>,
    },
    /// A successful answer.
    Response {
        /// The id of the request.
        id: Id,
        /// The result.
        result: &'a RawValue,
    },
    /// A failed request.
    Failure {
        /// The id of the request; `None` if the peer could not read it.
        id: Option<Id>,
        /// The error.
        error: RpcError,
    },
}

/// A JSON-RPC error object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// For people.
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Box<RawValue>>,
}

/// Why bytes are not an envelope. `id` is the request's id if it could be read, so that the error can be answered.
#[derive(Debug, thiserror::Error)]
pub enum EnvelopeError {
    /// The bytes are not JSON.
    #[error("not JSON: {0}")]
    NotJson(serde_json::Error),
    /// JSON, but not one JSON-RPC 2.0 message.
    #[error("not a JSON-RPC 2.0 message: {reason}")]
    NotAMessage {
        /// The request's id, if there is one.
        id: Option<Id>,
        /// What is wrong.
        reason: &'static str,
    },
}

/// JSON-RPC and MCP error codes. Servanda allocates none of its own in the reserved range.
pub mod code {
    /// Not JSON.
    pub const PARSE_ERROR: i64 = -32700;
    /// Not a request.
    pub const INVALID_REQUEST: i64 = -32600;
    /// No such method.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// Invalid parameters; also an unknown tool.
    pub const INVALID_PARAMS: i64 = -32602;
    /// An internal error.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Legacy MCP: no such resource. Modern MCP uses `INVALID_PARAMS` for it.
    pub const RESOURCE_NOT_FOUND: i64 = -32002;
    /// Legacy MCP: a user has to visit a URL first.
    pub const URL_ELICITATION_REQUIRED: i64 = -32042;
    /// Modern MCP: a header contradicts the body.
    pub const HEADER_MISMATCH: i64 = -32020;
    /// Modern MCP: the client lacks a capability the request needs.
    pub const MISSING_CLIENT_CAPABILITY: i64 = -32021;
    /// Modern MCP: the version is not supported.
    pub const UNSUPPORTED_PROTOCOL_VERSION: i64 = -32022;
}

/// The members of the envelope. A derived struct refuses duplicates of the members it knows.
#[derive(Deserialize)]
struct EnvelopeMembers<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Distinguishes `null` from absence, which `Option` alone would not: a request with a null id is not a notification.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

impl<'a> Message<'a> {
    /// Parses one message.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, EnvelopeError> {
        if bytes.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[') {
            return Err(EnvelopeError::NotAMessage { id: None, reason: "batches are not part of MCP" });
        }
        let members: EnvelopeMembers<'a> = parse_json(bytes).map_err(|error| {
            if error.is_data() {
                EnvelopeError::NotAMessage { id: None, reason: "a member has the wrong type or appears twice" }
            } else {
                EnvelopeError::NotJson(error)
            }
        })?;
        members.into_message()
    }
}

impl<'a> EnvelopeMembers<'a> {
    fn into_message(self) -> Result<Message<'a>, EnvelopeError> {
        let id = match self.id.map(|raw| serde_json::from_str::<Option<Id>>(raw.get())) {
            None => None,
            Some(Ok(id)) => id,
            Some(Err(_)) => return Err(not_a_message(None, "`id` must be a string or an integer")),
        };
        if self.jsonrpc.as_deref() != Some("2.0") {
            return Err(not_a_message(id, "`jsonrpc` must be \"2.0\""));
        }
        let error = match self.error.map(error_object) {
            None => None,
            Some(Some(error)) => Some(error),
            Some(None) => return Err(not_a_message(id, "`error` must be an object with `code` and `message`")),
        };
        match (self.method, self.result, error, id) {
            (Some(method), None, None, Some(id)) => Ok(Message::Request { id, method, params: self.params }),
            (Some(method), None, None, None) if self.id.is_none() => {
                Ok(Message::Notification { method, params: self.params })
            }
            (Some(_), None, None, None) => Err(not_a_message(None, "`id` must not be null")),
            (None, Some(result), None, Some(id)) if result.get().starts_with('{') => {
                Ok(Message::Response { id, result })
            }
            (None, Some(_), None, Some(id)) => Err(not_a_message(Some(id), "`result` must be an object")),
            (None, None, Some(error), id) => Ok(Message::Failure { id, error }),
            (_, _, _, id) => {
                Err(not_a_message(id, "a message must have exactly one of `method`, `result` and `error`"))
            }
        }
    }
}

/// Parses JSON whose encoding is checked first, once and many bytes at a time: `from_slice` would check it again for every raw value.
pub fn parse_json<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, serde_json::Error> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => serde_json::from_str(text),
        Err(_) => {
            Err(serde_json::from_slice::<&RawValue>(bytes).err().unwrap_or_else(|| de::Error::custom("not UTF-8")))
        }
    }
}

/// An error object; serde would also accept an array.
fn error_object(raw: &RawValue) -> Option<RpcError> {
    raw.get().starts_with('{').then(|| serde_json::from_str(raw.get()).ok()).flatten()
}

const fn not_a_message(id: Option<Id>, reason: &'static str) -> EnvelopeError {
    EnvelopeError::NotAMessage { id, reason }
}

impl RpcError {
    /// An error without data.
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The same with a hint as its data: what to do next.
    #[must_use]
    pub fn with_hint(self, hint: &str) -> Self {
        #[derive(Serialize)]
        struct RpcHint<'a> {
            hint: &'a str,
        }
        self.with_data(&RpcHint { hint })
    }

    /// The same with data.
    #[must_use]
    pub fn with_data(mut self, data: &impl Serialize) -> Self {
        self.data = serde_json::value::to_raw_value(data).ok();
        self
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdVisitor;
        impl Visitor<'_> for IdVisitor {
            type Value = Id;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string or an integer")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Id, E> {
                Ok(Id::Number(number))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Id, E> {
                i64::try_from(number).map(Id::Number).map_err(E::custom)
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Id, E> {
                Ok(Id::Text(text.to_owned()))
            }

            fn visit_string<E: de::Error>(self, text: String) -> Result<Id, E> {
                Ok(Id::Text(text))
            }
        }
        deserializer.deserialize_any(IdVisitor)
    }
}

impl fmt::Display for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(formatter, "{number}"),
            Self::Text(text) => write!(formatter, "{text:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EnvelopeError, Message};

    /// The kind of the message, or the reason why it is none.
    fn kind(text: &str) -> String {
        match Message::parse(text.as_bytes()) {
            Ok(Message::Request { id, method, .. }) => format!("request {id} {method}"),
            Ok(Message::Notification { method, .. }) => format!("notification {method}"),
            Ok(Message::Response { id, result }) => format!("response {id} {}", result.get()),
            Ok(Message::Failure { id, error }) => {
                format!("failure {} {}", id.map_or("-".into(), |id| id.to_string()), error.code)
            }
            Err(EnvelopeError::NotJson(_)) => "not JSON".to_owned(),
            Err(EnvelopeError::NotAMessage { reason, .. }) => reason.to_owned(),
        }
    }

    #[test]
    fn messages_are_told_apart() {
        let cases = [
            (r#"{"jsonrpc":"2.0","id":0,"method":"m"}"#, "request 0 m"),
            (r#"{"jsonrpc":"2.0","id":"a","method":"m","params":{"x":1}}"#, "request \"a\" m"),
            (r#"{"jsonrpc":"2.0","method":"m"}"#, "notification m"),
            (r#"{"result":{},"jsonrpc":"2.0","id":1}"#, "response 1 {}"),
            (r#"{"result":null,"jsonrpc":"2.0","id":1}"#, "`result` must be an object"),
            (r#"{"result":[],"jsonrpc":"2.0","id":1}"#, "`result` must be an object"),
            (r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"x"}}"#, "failure 1 -1"),
            (r#"{"jsonrpc":"2.0","id":null,"error":{"code":-1,"message":"x"}}"#, "failure - -1"),
            (r#"{"jsonrpc":"2.0","error":{"code":-1,"message":"x"}}"#, "failure - -1"),
            (r#"{"jsonrpc":"2.0","id":1,"error":[-1,"x"]}"#, "`error` must be an object with `code` and `message`"),
            (r#"{"jsonrpc":"2.0","id":1,"error":null}"#, "`error` must be an object with `code` and `message`"),
            (r#"{"jsonrpc":"2.0","id":null,"method":"m"}"#, "`id` must not be null"),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, "`id` must be a string or an integer"),
            (r#"{"jsonrpc":"1.0","id":1,"method":"m"}"#, "`jsonrpc` must be \"2.0\""),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"m","result":1}"#,
                "a message must have exactly one of `method`, `result` and `error`",
            ),
            (r#"{"jsonrpc":"2.0","id":1}"#, "a message must have exactly one of `method`, `result` and `error`"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a","method":"b"}"#, "a member has the wrong type or appears twice"),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "a member has the wrong type or appears twice"),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, "batches are not part of MCP"),
            (" ", "not JSON"),
            (r#"{"jsonrpc":"2.0","id":1,"method":"m"} x"#, "not JSON"),
            ("nonsense", "not JSON"),
        ];
        for (text, expected) in cases {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
