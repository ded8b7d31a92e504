//! The HTTP door's options: its identity, its clock, its authenticator, and every limit it enforces. Each option is
//! explained in full where it is used.

use std::sync::Arc;

use servanda_contract::time::Clock;
use servanda_engine::SystemClock;

use super::{
    authenticator::{Authenticator, LocalAuthenticator},
    health::{AlwaysHealthy, Health},
    metrics::MetricsSource,
    pages::Pages,
};
use crate::{
    limits::{
        BATCH_MESSAGES_MAX, CALLS_IN_FLIGHT_MAX, CAPABILITIES_BYTES_MAX, MESSAGE_BYTES_MAX, PAGE_SIZE, QUESTIONS_MAX,
        URI_BYTES_MAX, WATCHES_MAX,
    },
    server_info::ServerIdentity,
};

/// How the HTTP door behaves.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// The name and version that the door reports.
    pub server: ServerIdentity,
    /// Tools on one page of `tools/list`.
    pub page_size: usize,
    /// The longest body of a POST.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_read_ms_max: u64,
    /// Legacy sessions kept at once. One principal may hold a quarter of them; local mode, where all callers are one
    /// principal, has no such share.
    pub sessions_max: usize,
    /// How long an unused session is kept.
    pub session_idle_ms_max: u64,
    /// How long a session must have been unused before it may be ended to make room for a new one. So a client between
    /// two requests keeps its session, however many new ones come; the new session is refused instead.
    pub session_room_idle_ms_min: u64,
    /// GET streams one session may hold open.
    pub streams_per_session_max: usize,
    /// Questions one legacy session may have to answer at once; further ones are declined.
    pub questions_per_session_max: usize,
    /// How long a question that belongs to no request waits for a stream before it is declined.
    pub question_wait_ms_max: u64,
    /// Resources one legacy session may watch, and one modern subscription may name.
    pub watches_per_session_max: usize,
    /// The longest capabilities of a client, in bytes of JSON: they are kept with every legacy session, also on disk.
    pub capabilities_bytes_max: usize,
    /// The longest URI or task id that a session or a subscription may watch.
    pub uri_bytes_max: usize,
    /// Messages of one legacy session that wait for its client to open a stream; the oldest are dropped first.
    pub backlog_max: usize,
    /// Their bytes, and those of questions that wait for a stream.
    pub backlog_bytes_max: usize,
    /// Bytes that may be queued for one slow stream of a legacy session, not counting the message that exceeds them.
    pub queue_bytes_max: usize,
    /// Bytes that all legacy sessions together keep: messages that wait for a stream, and events kept for replay.
    pub session_bytes_max: usize,
    /// Events of one legacy session that are kept for replay.
    pub replay_events_max: usize,
    /// The bytes of those events.
    pub replay_bytes_max: usize,
    /// Streams of one legacy session that can be resumed, not counting those that answer a running request.
    pub replay_streams_max: usize,
    /// How long a stream is kept after it ended or its client left: an answer waits that long.
    pub replay_ms_max: u64,
    /// After how long a legacy client whose stream broke is told to reconnect.
    pub retry_ms: u64,
    /// How long an answer may take and still go back as JSON; a later one, or one with messages before it, is a stream.
    pub stream_after_ms: u64,
    /// Messages in one batch, which only revision 2025-03-26 has.
    pub batch_messages_max: usize,
    /// Streams on which clients only listen, open at once, over all clients and sessions. One principal may hold a
    /// quarter of them and one tenant three quarters, as with sessions and requests.
    pub listen_streams_max: usize,
    /// Requests running at once, over all clients. A request whose client went away counts until it ends.
    pub calls_in_flight_max: usize,
    /// Hostnames the door answers to besides `localhost`, `127.0.0.1` and `[::1]`.
    pub allowed_hosts: Vec<String>,
    /// Origins that may call besides those of these hostnames, as browsers write them: `https://app.example`.
    pub allowed_origins: Vec<String>,
    /// After how long a silent stream carries a comment, so that no proxy closes it.
    pub keep_alive_ms: u64,
    /// How often the credential of a stream on which a client only listens is checked again. The streams of an expired
    /// or revoked credential are closed within that time.
    pub reauth_interval_ms: u64,
    /// The clock for the stored notes of sessions.
    pub clock: Arc<dyn Clock>,
    /// Authenticates every request.
    pub authenticator: Arc<dyn Authenticator>,
    /// The source of `/livez`, `/healthz` and `/readyz`.
    pub health: Arc<dyn Health>,
    /// The source of `/metrics`, which also counts what the door rejects; without it there is no such page.
    pub metrics: Option<Arc<dyn MetricsSource>>,
    /// Answers every path that is not the door's own; without it they do not exist.
    pub pages: Option<Arc<dyn Pages>>,
}

/// How long an unused session is kept by default.
pub const SESSION_IDLE_MS_MAX: u64 = 30 * 60 * 1000;
impl HttpOptions {
    /// The defaults, for this server identity.
    pub fn new(server: ServerIdentity) -> Self {
        Self {
            server,
            page_size: PAGE_SIZE,
            body_bytes_max: MESSAGE_BYTES_MAX,
            body_read_ms_max: 30_000,
            sessions_max: 16_384,
            session_idle_ms_max: SESSION_IDLE_MS_MAX,
            session_room_idle_ms_min: 60_000,
            streams_per_session_max: 4,
            questions_per_session_max: QUESTIONS_MAX,
            question_wait_ms_max: 30_000,
            watches_per_session_max: WATCHES_MAX,
            capabilities_bytes_max: CAPABILITIES_BYTES_MAX,
            uri_bytes_max: URI_BYTES_MAX,
            backlog_max: 64,
            backlog_bytes_max: 1024 * 1024,
            queue_bytes_max: MESSAGE_BYTES_MAX,
            session_bytes_max: 128 * 1024 * 1024,
            replay_events_max: 1024,
            replay_bytes_max: MESSAGE_BYTES_MAX,
            replay_streams_max: 32,
            replay_ms_max: 5 * 60 * 1000,
            retry_ms: 1000,
            stream_after_ms: 1000,
            batch_messages_max: BATCH_MESSAGES_MAX,
            listen_streams_max: 1000,
            calls_in_flight_max: CALLS_IN_FLIGHT_MAX,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            keep_alive_ms: 15_000,
            reauth_interval_ms: 10_000,
            clock: Arc::new(SystemClock),
            authenticator: Arc::new(LocalAuthenticator),
            health: Arc::new(AlwaysHealthy),
            metrics: None,
            pages: None,
        }
    }
}
