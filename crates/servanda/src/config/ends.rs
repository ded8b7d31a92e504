//! The limits of how long ending takes and of how long what nobody uses is kept: which values make sense.

use super::LimitsConfig;

/// Less is not enough to write down that calls were cut off.
pub(crate) const DRAIN_MS_MIN: u64 = 500;
/// A client between two requests is not idle.
const IDLE_MS_MIN: u64 = 1_000;

/// What is wrong with them: the field, and why.
pub(super) fn fault(limits: &LimitsConfig) -> Option<(String, String)> {
    let fields = [
        ("drain_ms_max", limits.drain_ms_max, DRAIN_MS_MIN),
        ("session_idle_ms_max", limits.session_idle_ms_max, IDLE_MS_MIN),
        ("upstream_connection_idle_ms_max", limits.upstream_connection_idle_ms_max, IDLE_MS_MIN),
    ];
    let (field, _, least) = fields.into_iter().find(|(_, value, least)| value < least)?;
    Some((format!("limits.{field}"), format!("must be at least {least}")))
}
