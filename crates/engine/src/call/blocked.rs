//! Waits while a call at another gateway changes the same thing: retries with growing pauses until half of the call's time is used.

use std::time::Duration;

use tokio::time::Instant;

use crate::random::random;

/// The pause before the next try: the first one, and the longest one.
const WAIT_MS: (u64, u64) = (10, 250);

/// A call that waits until another call has changed the same thing.
#[derive(Debug)]
pub(super) struct BlockedBackoff {
    until: Instant,
    wait_ms: u64,
}

impl BlockedBackoff {
    /// Waits for at most half of the remaining time. The call needs the other half, because a call that is sent too late ends unknown.
    pub(super) fn until_half(deadline: Instant) -> Self {
        let now = Instant::now();
        Self { until: now + deadline.saturating_duration_since(now) / 2, wait_ms: WAIT_MS.0 }
    }

    /// Pauses. Part of the pause is random, so that waiting calls do not all retry at once. Returns whether to try again.
    pub(super) async fn wait(&mut self) -> bool {
        if Instant::now() >= self.until {
            return false;
        }
        let random_ms = random() % self.wait_ms.max(1);
        let pause = Duration::from_millis(self.wait_ms / 2 + random_ms);
        tokio::time::sleep_until(self.until.min(Instant::now() + pause)).await;
        self.wait_ms = self.wait_ms.saturating_mul(2).min(WAIT_MS.1);
        true
    }
}
