//! What `servanda.yaml` says about how much is taken and how long things may last, and which values make sense.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stopping::DRAIN_MS_MAX;

/// Less is not enough to write down that calls were cut off.
pub(crate) const DRAIN_MS_MIN: u64 = 500;
/// Asking more often than this would be a load of its own.
const PROBE_INTERVAL_MS_MIN: u64 = 100;
/// A client between two requests is not idle.
const IDLE_MS_MIN: u64 = 1_000;

/// How much is taken. Every limit has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LimitsConfig {
    /// Bytes of a call's arguments.
    pub arguments_bytes_max: usize,
    /// Arrays and objects inside each other in a call's arguments.
    #[schemars(range(min = 1, max = 120))]
    pub arguments_depth_max: usize,
    /// Bytes of one message of an upstream.
    pub message_bytes_max: usize,
    /// How long an upstream may take to start.
    pub connect_ms_max: u64,
    /// Connections to one upstream of clients and users that have their own.
    #[schemars(range(min = 1))]
    pub upstream_connections_max: usize,
    /// Refused attempts of one repair chain.
    pub repair_attempts_max: u32,
    /// Calls of one principal that may be refused in a minute; further calls are turned away unread until part of it has passed.
    #[schemars(range(min = 1))]
    pub refused_calls_per_minute_max: u32,
    /// Records of refused calls that are kept of one day, a quarter of them of one principal; more are counted in the log.
    #[schemars(range(min = 1))]
    pub refused_records_per_day_max: u32,
    /// How often an upstream is asked whether it is there and what it offers.
    #[schemars(range(min = 100))]
    pub probe_interval_ms: u64,
    /// How long the gateway may take to end, all in all, from the first signal: calls in flight, their records, the servers it
    /// started and the ledger. To be less than the time after which its supervisor kills it.
    #[schemars(range(min = 500))]
    pub drain_ms_max: u64,
    /// How long a session of a legacy client is kept without a request or an open stream, and what is written down of it.
    #[schemars(range(min = 1000))]
    pub session_idle_ms_max: u64,
    /// How long a client's or a user's own connection to an upstream is kept without a request; a stdio server's process ends
    /// with it.
    #[schemars(range(min = 1000))]
    pub upstream_connection_idle_ms_max: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            arguments_bytes_max: 1 << 20,
            arguments_depth_max: 64,
            message_bytes_max: 16 << 20,
            connect_ms_max: 60_000,
            upstream_connections_max: servanda_upstream::UpstreamLimits::default().connections_max,
            repair_attempts_max: 5,
            refused_calls_per_minute_max: servanda_engine::RefusedCallLimits::default().calls_per_minute_max,
            refused_records_per_day_max: servanda_engine::RefusedCallLimits::default().records_per_day_max,
            probe_interval_ms: 30_000,
            drain_ms_max: DRAIN_MS_MAX,
            session_idle_ms_max: servanda_doors::SESSION_IDLE_MS_MAX,
            upstream_connection_idle_ms_max: servanda_upstream::UpstreamLimits::default().connection_idle_ms_max,
        }
    }
}

impl LimitsConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What is wrong with them: the field, and why.
pub(super) fn fault(limits: &LimitsConfig) -> Option<(String, String)> {
    if !(1..=120).contains(&limits.arguments_depth_max) {
        return Some(("limits.arguments_depth_max".to_owned(), "must be between 1 and 120".to_owned()));
    }
    let fields = [
        ("probe_interval_ms", limits.probe_interval_ms, PROBE_INTERVAL_MS_MIN),
        ("drain_ms_max", limits.drain_ms_max, DRAIN_MS_MIN),
        ("session_idle_ms_max", limits.session_idle_ms_max, IDLE_MS_MIN),
        ("upstream_connection_idle_ms_max", limits.upstream_connection_idle_ms_max, IDLE_MS_MIN),
    ];
    let (field, _, least) = fields.into_iter().find(|(_, value, least)| value < least)?;
    Some((format!("limits.{field}"), format!("must be at least {least}")))
}
