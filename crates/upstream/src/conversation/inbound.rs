//! Routes what a server writes on a connection that all requests share, message by message: answers go to their requests, other messages go
//! to the conversations, and everything else is counted and skipped. Nothing a server writes ends the connection.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_mcp::{EnvelopeError, Id, Message};

use super::{
    Conversations,
    oversized::answered_id,
    pending::{PendingOutcome, PendingRequests},
    server_error::failure_from_rpc_error,
    startup_signals::StartupSignals,
};
use crate::{PerformFailure, shared::SharedContext};

/// Routes what a server writes.
#[derive(Debug)]
pub(crate) struct InboundRouter {
    pub(crate) context: Arc<SharedContext>,
    pending: Arc<PendingRequests>,
    conversations: Arc<Conversations>,
    unrouted_messages: Arc<UnroutedMessages>,
    pub(crate) signals: Arc<StartupSignals>,
}

/// Counts of what a server wrote that could not be routed. A request that times out reports them.
#[derive(Debug, Default)]
pub(crate) struct UnroutedMessages {
    not_messages: AtomicU64,
    oversized: AtomicU64,
    unknown_ids: AtomicU64,
}

impl UnroutedMessages {
    /// The counts in words; none if there are none.
    pub(crate) fn note(&self) -> Option<String> {
        let counts = [
            (&self.oversized, "answers longer than allowed, for an unknown request"),
            (&self.not_messages, "lines that are not MCP messages"),
            (&self.unknown_ids, "answers that no request was waiting for"),
        ];
        let parts: Vec<String> = counts
            .into_iter()
            .filter_map(|(count, what)| match count.load(Ordering::Relaxed) {
                0 => None,
                count => Some(format!("{count} {what}")),
            })
            .collect();
        (!parts.is_empty()).then(|| format!("on this connection the server has written {}", parts.join(", ")))
    }
}

impl InboundRouter {
    pub(crate) fn new(
        context: Arc<SharedContext>,
        pending: Arc<PendingRequests>,
        conversations: Arc<Conversations>,
        unrouted_messages: Arc<UnroutedMessages>,
    ) -> Self {
        Self { context, pending, conversations, unrouted_messages, signals: Arc::default() }
    }

    /// Routes one message.
    pub(crate) fn on_line(&self, line: &Bytes) {
        self.signals.record_output();
        if line.trim_ascii().is_empty() {
            return;
        }
        let line = &self.context.sanitize(line);
        match Message::parse(line) {
            Ok(Message::Response { id, result }) => self.tell(&id, Ok(line.slice_ref(result.get().as_bytes()))),
            Ok(Message::Failure { id: Some(id), error }) => {
                self.tell(&id, Err(failure_from_rpc_error(error, self.conversations.era(), &self.context.redaction)));
            }
            Ok(Message::Failure { id: None, error }) => {
                self.unrouted_messages.not_messages.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(upstream = %self.context.spec.id, code = error.code, "the server reported an error without an id");
            }
            Ok(Message::Notification { method, params }) => self.conversations.on_notification(&method, params, None),
            Ok(Message::Request { id, method, params }) => self.conversations.on_request(&id, &method, params, None),
            Err(error) => self.on_not_a_message(line, &error),
        }
    }

    /// Handles a line that was too long to keep. If it answered a request, that request fails now rather than at its deadline.
    pub(crate) fn on_oversized(&self, prefix: &[u8], tail: &[u8]) {
        let bytes_max = self.context.spec.limits.message_bytes_max;
        let id = answered_id(prefix, tail);
        tracing::debug!(upstream = %self.context.spec.id, bytes_max, ?id, "the server wrote a line longer than allowed");
        match id {
            Some(id) => self.tell(&Id::Number(id), Err(PerformFailure::TooLarge { bytes_max })),
            None => {
                self.unrouted_messages.oversized.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn tell(&self, id: &Id, told: PendingOutcome) {
        if let Id::Number(number) = id {
            self.conversations.answered(*number);
        }
        let late = told.as_ref().ok().cloned();
        let known = matches!(id, Id::Number(number) if self.pending.resolve(*number, told));
        if !known {
            if let (Id::Number(number), Some(result)) = (id, late) {
                self.signals.record_late_answer(*number, &result);
            }
            self.unrouted_messages.unknown_ids.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(upstream = %self.context.spec.id, %id, "an answer that no request was waiting for is ignored");
        }
    }

    fn on_not_a_message(&self, line: &[u8], error: &EnvelopeError) {
        let why = error.to_string();
        if let EnvelopeError::NotAMessage { .. } = error
            && let Some(id) = claimed_id(line)
        {
            return self.tell(&Id::Number(id), Err(PerformFailure::malformed(why)));
        }
        self.unrouted_messages.not_messages.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(
            upstream = %self.context.spec.id,
            line = %self.context.redaction.quote(&String::from_utf8_lossy(line.get(..512).unwrap_or(line))),
            why,
            "the server wrote a line that is not an MCP message"
        );
    }
}

#[derive(Deserialize)]
struct ClaimedEnvelope<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
}

/// The id of a line that looks like an answer, however broken. A line with a method does not count: it is a broken request of the server,
/// whose id is the server's own.
fn claimed_id(line: &[u8]) -> Option<i64> {
    // Serde would accept an array as the members in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let claims: ClaimedEnvelope<'_> = serde_json::from_slice(line).ok()?;
    claims.id.filter(|_| claims.method.is_none())?.get().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_answers_are_told_from_broken_requests() {
        let table = [
            (r#"{"id":7,"error":{"code":"x"}}"#, Some(7)),
            (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1,"message":""}}"#, Some(7)),
            (r#"{"id":7,"method":"x"}"#, None),
            (r#"{"id":"7"}"#, None),
            ("[7]", None),
            ("7", None),
        ];
        for (line, id) in table {
            assert_eq!(claimed_id(line.as_bytes()), id, "{line}");
        }
    }

    #[test]
    fn unrouted_messages_are_told_in_words() {
        let unrouted_messages = UnroutedMessages::default();
        assert_eq!(unrouted_messages.note(), None);
        unrouted_messages.not_messages.fetch_add(2, Ordering::Relaxed);
        unrouted_messages.oversized.fetch_add(1, Ordering::Relaxed);
        assert_eq!(
            unrouted_messages.note().unwrap(),
            "on this connection the server has written 1 answers longer than allowed, for an unknown request, \
             2 lines that are not MCP messages"
        );
    }
}
