//! Why a message is not served: the JSON-RPC error, and the HTTP status, which stdio ignores.
//!
//! Messages name members, limits and headers, never the value that was sent. If a person has to act, `data` has a
//! `hint`.

use http::StatusCode;
use serde::Serialize;
use servanda_mcp::{
    EnvelopeError, Era, Id, ProtocolVersion, RpcError,
    envelope::{self, code},
};

/// How long a client should wait before it repeats a call that was refused because all places were taken.
const RETRY_AFTER_MS: u64 = 1000;

/// The hint for a call whose outcome is unknown.
pub(crate) const LOOK_FIRST: &str = "look for the call with `servanda explain` before sending it again";

/// A message that is not served.
#[derive(Debug)]
pub(crate) struct ProtocolFault {
    pub(crate) status: StatusCode,
    pub(crate) error: RpcError,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FaultHint<'a> {
    hint: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

#[derive(Serialize)]
struct SupportedVersions<'a> {
    supported: Vec<&'static str>,
    requested: &'a str,
    hint: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RequiredCapabilities<'a, T> {
    required_capabilities: &'a T,
}

impl ProtocolFault {
    pub(crate) fn new(status: StatusCode, code: i64, message: impl Into<String>) -> Self {
        Self { status, error: RpcError::new(code, message) }
    }

    /// A request that is refused before its method is read.
    pub(crate) fn invalid_request(status: StatusCode, message: impl Into<String>) -> Self {
        Self::new(status, code::INVALID_REQUEST, message)
    }

    /// Invalid parameters. An answer like any other: HTTP 200, unless the era says otherwise.
    pub(crate) fn invalid_params(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, code::INVALID_PARAMS, message)
    }

    pub(crate) fn method_not_found(era: Era, method: &str) -> Self {
        // A legacy client reads 404 as "your session is gone"; the modern era's specification promises 404.
        let status = match era {
            Era::Legacy => StatusCode::OK,
            Era::Modern => StatusCode::NOT_FOUND,
        };
        Self::new(status, code::METHOD_NOT_FOUND, format!("no such method: `{}`", shorten(method)))
    }

    pub(crate) fn unsupported_version(requested: &str) -> Self {
        let versions = SupportedVersions {
            supported: supported_versions(),
            requested: shorten(requested),
            hint: "use 2026-07-28 in every request, or open an older version with `initialize`",
        };
        let error = RpcError::new(code::UNSUPPORTED_PROTOCOL_VERSION, "unsupported protocol version");
        Self { status: StatusCode::BAD_REQUEST, error: error.with_data(&versions) }
    }

    pub(crate) fn header_mismatch(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, code::HEADER_MISMATCH, message)
    }

    /// A modern client did not declare what the request needs.
    pub(crate) fn missing_capability(required: &impl Serialize) -> Self {
        let error = RpcError::new(code::MISSING_CLIENT_CAPABILITY, "a required client capability is missing");
        Self {
            status: StatusCode::BAD_REQUEST,
            error: error.with_data(&RequiredCapabilities { required_capabilities: required }),
        }
    }

    /// An error that the engine answered instead of a result. The legacy era has no HTTP status for that; the modern
    /// one promises some.
    pub(crate) fn from_rpc_error(era: Era, error: RpcError) -> Self {
        let status = match (era, error.code) {
            (Era::Modern, code::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
            (
                Era::Modern,
                code::HEADER_MISMATCH | code::MISSING_CLIENT_CAPABILITY | code::UNSUPPORTED_PROTOCOL_VERSION,
            ) => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        Self { status, error }
    }

    /// All places are taken now; one may be free soon.
    pub(crate) fn busy(message: impl Into<String>, hint: &str) -> Self {
        let hint = FaultHint { hint, retry_after_ms: Some(RETRY_AFTER_MS) };
        let error = RpcError::new(code::INTERNAL_ERROR, message).with_data(&hint);
        Self { status: StatusCode::SERVICE_UNAVAILABLE, error }
    }

    /// A call that was still running when the door closed. It may have been dispatched, so neither the status nor any
    /// field here may make a client or a proxy send it again.
    pub(crate) fn outcome_unknown() -> Self {
        Self::internal("the gateway is shutting down and does not know how the call ended").hint(LOOK_FIRST)
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::OK, code::INTERNAL_ERROR, message)
    }

    pub(crate) fn from_envelope_error(error: &EnvelopeError) -> Self {
        match error {
            EnvelopeError::NotJson(_) => Self::new(StatusCode::BAD_REQUEST, code::PARSE_ERROR, error.to_string()),
            EnvelopeError::NotAMessage { .. } => Self::invalid_request(StatusCode::BAD_REQUEST, error.to_string())
                .hint("send one JSON-RPC 2.0 request or notification as one JSON object"),
        }
    }

    #[must_use]
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.error = self.error.with_data(&FaultHint { hint, retry_after_ms: None });
        self
    }

    #[must_use]
    pub(crate) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The error as a message. It has no id if the request's id could not be read: MCP's schema has no null id.
    pub(crate) fn message(&self, id: Option<&Id>) -> Vec<u8> {
        envelope::failure(id, &self.error)
    }
}

/// Newest first, as clients choose from the front.
pub(crate) fn supported_versions() -> Vec<&'static str> {
    ProtocolVersion::ALL.iter().rev().map(|version| version.as_str()).collect()
}

/// Shortens what a client wrote, so that it can be sent back.
fn shorten(text: &str) -> &str {
    const SHOWN_CHARS_MAX: usize = 64;
    text.char_indices().nth(SHOWN_CHARS_MAX).map_or(text, |(end, _)| text.get(..end).unwrap_or_default())
}
