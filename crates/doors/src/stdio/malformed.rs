//! Decides which lines that are not messages get an answer. Only what was meant as a request may get one, or two sides
//! that misunderstand each other would answer each other forever.

use serde_json::value::RawValue;
use servanda_mcp::{EnvelopeError, Message};

/// Whether a line that is not a message is answered.
pub(super) fn deserves_answer(line: &[u8], error: &EnvelopeError) -> bool {
    /// Members that a response has and a request does not.
    #[derive(serde::Deserialize)]
    struct ResponseMembers {
        method: Option<serde::de::IgnoredAny>,
        result: Option<serde::de::IgnoredAny>,
        error: Option<serde::de::IgnoredAny>,
    }
    if line.trim_ascii_start().starts_with(b"[") {
        let batch: Vec<&RawValue> = serde_json::from_slice(line).unwrap_or_default();
        return batch.iter().any(|raw| matches!(Message::parse(raw.get().as_bytes()), Ok(Message::Request { .. })));
    }
    let response = matches!(error, EnvelopeError::NotAMessage { .. })
        && serde_json::from_slice::<ResponseMembers>(line)
            .is_ok_and(|kind| kind.method.is_none() && (kind.result.is_some() || kind.error.is_some()));
    looks_like_object(line) && !response
}

/// Whether a line begins like a message.
pub(super) fn looks_like_object(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"{")
}
