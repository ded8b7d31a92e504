//! The clock, deadlines, and the stopwatch of one call. The only part of the engine that asks the system for the time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use servanda_contract::{Timestamp, time::Clock};
use servanda_gates::Stopwatch;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that all other code is handed")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_unix_ms(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}

/// That many milliseconds from now.
pub(crate) fn within_ms(ms: u64) -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_millis(ms)
}

/// Measures the stages of one call.
#[derive(Debug)]
pub(crate) struct CallStopwatch(Instant);

impl CallStopwatch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }
}

impl Stopwatch for CallStopwatch {
    fn elapsed_us(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}
