//! What the HTTP door is told when it opens: who it says it is, what time it is, who is let in, and every limit it holds. What any
//! of it means is known where it is used.

use std::sync::Arc;

use servanda_contract::time::Clock;
use servanda_engine::SystemClock;

use super::{
    authenticator::{Authenticator, LocalAuthenticator},
    health::{AlwaysHealthy, Health},
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
    /// Who the door says it is.
    pub server: ServerIdentity,
    /// Tools on one page of `tools/list`.
    pub page_size: usize,
    /// The longest body of a POST.
    pub body_bytes_max: usize,
    /// How long a body may take to arrive.
    pub body_read_ms_max: u64,
    /// Legacy sessions kept at once; of one principal a quarter of them, but in local mode, where everybody is one.
    pub sessions_max: usize,
    /// How long an unused session is kept.
    pub session_idle_ms_max: u64,
    /// How long a session must have been unused before it may be ended to make room for a new one. A client between two requests
    /// keeps its session, however many come; it is the newcomer that is turned away.
    pub session_room_idle_ms_min: u64,
    /// GET streams one session may hold open.
    pub streams_per_session_max: usize,
    /// Questions one legacy session may have to answer at once; further ones are declined.
    pub questions_per_session_max: usize,
    /// How long a question that belongs to no request waits for a stream before it is declined.
    pub question_wait_ms_max: u64,
    /// Resources one legacy session may watch, and one modern subscription may name.
    pub watches_per_session_max: usize,
    /// What a client says it can do, in JSON: kept with every legacy session, also on disk.
    pub capabilities_bytes_max: usize,
    /// One URI, or one task id, that a session or a subscription names to hear of it.
    pub uri_bytes_max: usize,
    /// Messages of one legacy session that wait for its client to open a stream; the oldest are lost first.
    pub backlog_max: usize,
    /// Their bytes, and those of questions that wait for a stream.
    pub backlog_bytes_max: usize,
    /// Bytes that may be on their way to one stream of a legacy session that reads slowly, besides the message that
    /// exceeds them.
    pub queue_bytes_max: usize,
    /// Bytes that all legacy sessions together keep: what waits for a stream, and what can be replayed.
    pub session_bytes_max: usize,
    /// Events of one legacy session that are kept for replay.
    pub replay_events_max: usize,
    /// Their bytes.
    pub replay_bytes_max: usize,
    /// Streams of one legacy session that can be gone on with, besides those that answer a running request.
    pub replay_streams_max: usize,
    /// How long a stream is kept after it ended or its client left: an answer waits that long.
    pub replay_ms_max: u64,
    /// When a legacy client whose stream broke is told to come back.
    pub retry_ms: u64,
    /// How long an answer may take to go back as JSON; a later one, or one with something said before it, is a stream.
    pub stream_after_ms: u64,
    /// Messages in one batch, which only revision 2025-03-26 has.
    pub batch_messages_max: usize,
    /// Streams on which clients only listen, open at once, all clients and sessions together. One principal may hold a quarter of them
    /// and one tenant three quarters, as with sessions and requests.
    pub listen_streams_max: usize,
    /// Requests running at once, all clients together. One whose client went away still counts until it ends.
    pub calls_in_flight_max: usize,
    /// Hostnames the door answers to besides `localhost`, `127.0.0.1` and `[::1]`.
    pub allowed_hosts: Vec<String>,
    /// Origins that may call besides those of such hostnames, as browsers write them: `https://app.example`.
    pub allowed_origins: Vec<String>,
    /// After how long a silent stream carries a comment, so that nobody in between closes it.
    pub keep_alive_ms: u64,
    /// How often it is looked whether whoever only listens on a stream may still do so: a credential that ended or was revoked has
    /// its streams ended within that time.
    pub reauth_interval_ms: u64,
    /// The time, for what is written down of sessions.
    pub clock: Arc<dyn Clock>,
    /// Who is let in.
    pub authenticator: Arc<dyn Authenticator>,
    /// What `/livez`, `/healthz` and `/readyz` say.
    pub health: Arc<dyn Health>,
}

/// How long an unused session is kept if the configuration does not say.
pub const SESSION_IDLE_MS_MAX: u64 = 30 * 60 * 1000;
impl HttpOptions {
    /// The defaults, for a server of that identity.
    pub fn new(server: ServerIdentity) -> Self {
        Self {
            server,
            page_size: PAGE_SIZE,
            body_bytes_max: MESSAGE_BYTES_MAX,
            body_read_ms_max: 30_000,
            sessions_max: 1000,
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
        }
    }
}
