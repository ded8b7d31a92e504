//! Waiting for somebody at another gateway who changes the same thing: asked again and again, ever less often, and not for ever.

use std::time::Duration;

use tokio::time::Instant;

use crate::random::random;

/// How long to wait before it is tried again, at first and at the most.
const WAIT_MS: (u64, u64) = (10, 250);

/// A call that waits for others.
#[derive(Debug)]
pub(super) struct BlockedBackoff {
    until: Instant,
    wait_ms: u64,
}

impl BlockedBackoff {
    /// Half of the time is for the call itself, because one that is sent too late ends unknown.
    pub(super) fn until_half(deadline: Instant) -> Self {
        let now = Instant::now();
        Self { until: now + deadline.saturating_duration_since(now) / 2, wait_ms: WAIT_MS.0 }
    }

    /// Waits a while; part of it random, so that those who wait do not all come back at once. Says whether to try again.
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
