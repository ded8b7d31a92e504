//! What a child writes, line by line: answers find their requests, changes are announced, the server's own requests are
//! answered, and everything else is counted and skipped. Nothing a server writes ends the connection.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use servanda_mcp::{EnvelopeError, Id, Message, fields::method};
use tokio::sync::mpsc;

use crate::{
    PerformFailure,
    connect::Setting,
    link::{answer_to_server, progress_token, rejected},
    oversized::answered_id,
    parcel::Parcel,
    pending::{PendingRequests, Told},
};

/// Takes in what a child writes.
pub(super) struct Inbound {
    pub(super) setting: Arc<Setting>,
    pub(super) pending: Arc<PendingRequests>,
    /// Weak: the reader must not keep the writer alive.
    pub(super) outbox: mpsc::WeakSender<Parcel>,
    pub(super) oddities: Arc<Oddities>,
}

/// What a server wrote that nobody could be told about. A request that times out says so.
#[derive(Debug, Default)]
pub(super) struct Oddities {
    not_messages: AtomicU64,
    oversized: AtomicU64,
    unknown_ids: AtomicU64,
}

impl Oddities {
    /// In words; none if there was nothing.
    pub(super) fn note(&self) -> Option<String> {
        let counts = [
            (&self.oversized, "answers longer than allowed whose request could not be told"),
            (&self.not_messages, "lines that are not MCP messages"),
            (&self.unknown_ids, "answers that nobody waits for"),
        ];
        let parts: Vec<String> = counts
            .into_iter()
            .filter_map(|(count, what)| match count.load(Ordering::Relaxed) {
                0 => None,
                count => Some(format!("{count} {what}")),
            })
            .collect();
        (!parts.is_empty()).then(|| format!("on this connection it has written {}", parts.join(", ")))
    }
}

impl Inbound {
    pub(super) fn on_line(&self, line: &Bytes) {
        if line.trim_ascii().is_empty() {
            return;
        }
        match Message::parse(line) {
            Ok(Message::Response { id, result }) => self.tell(&id, Ok(line.slice_ref(result.get().as_bytes()))),
            Ok(Message::Failure { id: Some(id), error }) => {
                self.tell(&id, Err(rejected(error, &self.setting.redaction)));
            }
            Ok(Message::Failure { id: None, error }) => {
                self.oddities.not_messages.fetch_add(1, Ordering::Relaxed);
                tracing::debug!(upstream = %self.setting.spec.id, code = error.code, "the server reported an error without an id");
            }
            Ok(Message::Notification { method, params }) => self.on_notification(&method, params),
            Ok(Message::Request { id, method, .. }) => self.on_request(&id, &method),
            Err(error) => self.on_not_a_message(line, &error),
        }
    }

    /// A line that was too long to keep: if it answered a request, that request fails now rather than at its deadline.
    pub(super) fn on_oversized(&self, prefix: &[u8], tail: &[u8]) {
        let bytes_max = self.setting.spec.limits.message_bytes_max;
        let id = answered_id(prefix, tail);
        tracing::debug!(upstream = %self.setting.spec.id, bytes_max, ?id, "the server wrote a line longer than allowed");
        match id {
            Some(id) => self.tell(&Id::Number(id), Err(PerformFailure::TooLarge { bytes_max })),
            None => {
                self.oddities.oversized.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    fn tell(&self, id: &Id, told: Told) {
        let known = matches!(id, Id::Number(number) if self.pending.tell(*number, told));
        if !known {
            self.oddities.unknown_ids.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(upstream = %self.setting.spec.id, %id, "an answer that nobody waits for was ignored");
        }
    }

    fn on_notification(&self, method: &str, params: Option<&RawValue>) {
        match (method, params) {
            (method::PROGRESS, Some(params)) => {
                if let Some(token) = progress_token(params) {
                    self.pending.progress(token, params);
                }
            }
            (method::TOOLS_LIST_CHANGED, _) => self.setting.announce_change(),
            _ => {}
        }
    }

    fn on_request(&self, id: &Id, method: &str) {
        tracing::debug!(upstream = %self.setting.spec.id, method, "the server made a request");
        let mut answer = answer_to_server(id, method);
        answer.push(b'\n');
        if let Some(outbox) = self.outbox.upgrade() {
            let _ = outbox.try_send(Parcel::new(answer));
        }
    }

    fn on_not_a_message(&self, line: &[u8], error: &EnvelopeError) {
        let why = error.to_string();
        if let EnvelopeError::NotAMessage { .. } = error
            && let Some(id) = claimed_id(line)
        {
            return self.tell(&Id::Number(id), Err(PerformFailure::malformed(why)));
        }
        self.oddities.not_messages.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(
            upstream = %self.setting.spec.id,
            line = %self.setting.redaction.quote(&String::from_utf8_lossy(line.get(..512).unwrap_or(line))),
            why,
            "the server wrote a line that is not an MCP message"
        );
    }
}

#[derive(Deserialize)]
struct Claims<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
}

/// The id of what looks like an answer, however broken. A broken request of the server's has an id of its own, so only
/// what has no method counts.
fn claimed_id(line: &[u8]) -> Option<i64> {
    // Serde would read a list as the members in order.
    if !line.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let claims: Claims<'_> = serde_json::from_slice(line).ok()?;
    claims.id.filter(|_| claims.method.is_none())?.get().parse().ok()
}

#[cfg(test)]
mod tests {
    use servanda_mcp::envelope;

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
    fn oddities_are_told_in_words() {
        let oddities = Oddities::default();
        assert_eq!(oddities.note(), None);
        oddities.not_messages.fetch_add(2, Ordering::Relaxed);
        oddities.oversized.fetch_add(1, Ordering::Relaxed);
        assert_eq!(
            oddities.note().unwrap(),
            "on this connection it has written 1 answers longer than allowed whose request could not be told, \
             2 lines that are not MCP messages"
        );
    }

    #[test]
    fn servers_are_told_that_nothing_is_offered() {
        let ping = answer_to_server(&Id::Text("p".to_owned()), "ping");
        assert_eq!(ping, br#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
        let other = answer_to_server(&Id::Number(1), "sampling/createMessage");
        let Message::Failure { error, .. } = Message::parse(&other).unwrap() else { panic!("a failure") };
        assert_eq!(error.code, envelope::code::METHOD_NOT_FOUND);
    }
}
