//! The one clock of a run: the machine's monotonic clock. Every process of the trial reads it, and no trial moves it (gateways
//! and databases with a moved wall clock keep this one too).

use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since some moment before the run.
pub fn now_ms() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    seconds * 1_000 + nanos / 1_000_000
}
