//! The stdio door's options: its identity, and every limit it enforces.

use crate::{
    limits::{
        BATCH_MESSAGES_MAX, CALLS_IN_FLIGHT_MAX, CAPABILITIES_BYTES_MAX, MESSAGE_BYTES_MAX, PAGE_SIZE, QUESTIONS_MAX,
        URI_BYTES_MAX, WATCHES_MAX,
    },
    server_info::ServerIdentity,
};

/// How the stdio door behaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StdioOptions {
    /// The name and version that the door reports.
    pub server: ServerIdentity,
    /// Tools on one page of `tools/list`.
    pub page_size: usize,
    /// The longest message.
    pub line_bytes_max: usize,
    /// Requests running at once.
    pub calls_in_flight_max: usize,
    /// `subscriptions/listen` requests open at once.
    pub subscriptions_max: usize,
    /// Questions a legacy client may have to answer at once; further ones are declined.
    pub questions_max: usize,
    /// Resources a legacy client may watch, and one modern subscription may name.
    pub watches_max: usize,
    /// The longest capabilities of a client, in bytes of JSON.
    pub capabilities_bytes_max: usize,
    /// The longest URI or task id that the client may watch.
    pub uri_bytes_max: usize,
    /// Messages in one batch, which only revision 2025-03-26 has.
    pub batch_messages_max: usize,
    /// How long calls may still run after the input has ended or shutdown was requested.
    pub drain_ms_max: u64,
}

impl StdioOptions {
    /// The defaults, for this server identity.
    pub fn new(server: ServerIdentity) -> Self {
        Self {
            server,
            page_size: PAGE_SIZE,
            line_bytes_max: MESSAGE_BYTES_MAX,
            calls_in_flight_max: CALLS_IN_FLIGHT_MAX,
            subscriptions_max: 64,
            questions_max: QUESTIONS_MAX,
            watches_max: WATCHES_MAX,
            capabilities_bytes_max: CAPABILITIES_BYTES_MAX,
            uri_bytes_max: URI_BYTES_MAX,
            batch_messages_max: BATCH_MESSAGES_MAX,
            drain_ms_max: 10_000,
        }
    }
}
