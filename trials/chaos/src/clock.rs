//! The one clock of a run: the machine's monotonic clock, which every process of the trial reads alike and which no trial
//! moves (gateways and databases whose clocks are moved keep this one, too).

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since some moment before the run.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    seconds * 1_000 + nanos / 1_000_000
}
