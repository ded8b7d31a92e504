//! Turns a server's JSON-RPC error into a failure: without secrets, bounded, and without data that two parsers could read differently.

use servanda_mcp::{Era, RpcError, shape};

use crate::{PerformFailure, credentials::redaction::Redaction};

/// How much of a server's error message is kept.
const MESSAGE_CHARS_MAX: usize = 4096;

/// Turns a server's error into a failure.
pub(crate) fn failure_from_rpc_error(error: RpcError, era: Era, redaction: &Redaction) -> PerformFailure {
    let message: String = redaction.remove(&error.message).chars().take(MESSAGE_CHARS_MAX).collect();
    // Data that two parsers could read differently is dropped; the code and the message say enough.
    let data = error.data.filter(|data| match shape::inspect(data.get().as_bytes()) {
        Ok(()) => true,
        Err(fault) => {
            tracing::warn!(code = error.code, %fault, "the data of an upstream's error is dropped");
            false
        }
    });
    let data = data.map(|data| redaction.remove_in_json(data));
    PerformFailure::Rejected { code: error.code, message, data, era }
}
