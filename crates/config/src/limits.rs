//! The configuration of size and time limits, and which values are allowed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How long a gateway takes to stop in total by default: less than the ten seconds after which most supervisors kill it.
pub const DRAIN_MS_MAX: u64 = 8_000;
/// Less time is not enough to record that calls were cut off.
pub const DRAIN_MS_MIN: u64 = 500;
/// Asking upstreams more often would burden them.
const PROBE_INTERVAL_MS_MIN: u64 = 100;
/// A shorter limit would end sessions of clients that are between two requests.
const IDLE_MS_MIN: u64 = 1_000;

/// Size and time limits. Every limit has a default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// The most bytes of a call's arguments.
    pub arguments_bytes_max: usize,
    /// How deeply a call's arguments may nest arrays and objects.
    #[schemars(range(min = 1, max = 120))]
    pub arguments_depth_max: usize,
    /// The most bytes of one message from an upstream.
    pub message_bytes_max: usize,
    /// How long an upstream may take to start.
    pub connect_ms_max: u64,
    /// The most connections to one upstream for clients and users that have their own.
    #[schemars(range(min = 1))]
    pub upstream_connections_max: usize,
    /// The most refused attempts of one repair chain.
    pub repair_attempts_max: u32,
    /// How many calls of one principal may be refused in a minute; further calls are rejected unread until part of the minute has passed.
    #[schemars(range(min = 1))]
    pub refused_calls_per_minute_max: u32,
    /// How many records of refused calls are kept per day, a quarter of them for one principal; more are only counted in the log.
    #[schemars(range(min = 1))]
    pub refused_records_per_day_max: u32,
    /// How often an upstream is asked whether it answers and what it offers.
    #[schemars(range(min = 100))]
    pub probe_interval_ms: u64,
    /// How long the gateway may take to stop in total, from the first signal: running calls, their records, the servers it started and the
    /// ledger. Must be less than the time after which its supervisor kills it.
    #[schemars(range(min = 500))]
    pub drain_ms_max: u64,
    /// How long the session of a legacy client, with its stored state, is kept without a request or an open stream.
    #[schemars(range(min = 1000))]
    pub session_idle_ms_max: u64,
    /// How long a client's or a user's own connection to an upstream is kept without a request; a stdio server's process ends with it.
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

/// The first invalid limit: the field, and why.
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
