//! How long the processes of an upstream get to end: normally some time at each step, less when the whole gateway has to end by a deadline,
//! and none in a hurry.

use std::{sync::OnceLock, time::Duration};

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a child may take to end after its input was closed, and again after it was asked to end.
const STEP_MS_MAX: u64 = 2_000;
/// A step may take one part in this many of the remaining time: there are two steps, and the killing.
const STEPS: u32 = 3;

/// The pace of the ending.
#[derive(Debug, Default)]
pub(crate) struct EndPace {
    by: OnceLock<Instant>,
    hurry: CancellationToken,
}

impl EndPace {
    /// Sets when everything has to be over. The first call counts.
    pub(crate) fn end_by(&self, by: Instant) {
        let _ = self.by.set(by);
    }

    /// From now on no process gets time to end by itself.
    pub(crate) fn hurry(&self) {
        self.hurry.cancel();
    }

    pub(crate) fn is_hurried(&self) -> bool {
        self.hurry.is_cancelled()
    }

    /// Waits for an end as long as one step may take; none if it did not come.
    pub(crate) async fn step<T>(&self, end: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.hurry.cancelled() => None,
            ended = tokio::time::timeout(self.step_max(), end) => ended.ok(),
        }
    }

    fn step_max(&self) -> Duration {
        let usual = Duration::from_millis(STEP_MS_MAX);
        self.by.get().map_or(usual, |by| usual.min(by.saturating_duration_since(Instant::now()) / STEPS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_step_takes_its_share_of_what_is_left() {
        let pace = EndPace::default();
        assert_eq!(pace.step_max(), Duration::from_secs(2));
        pace.end_by(Instant::now() + Duration::from_secs(3));
        let began = Instant::now();
        assert_eq!(pace.step(std::future::pending::<()>()).await, None);
        assert_eq!(began.elapsed().as_secs(), 1);
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(pace.step_max(), Duration::ZERO, "there is no time left");
    }

    #[tokio::test(start_paused = true)]
    async fn in_a_hurry_nothing_is_waited_for() {
        let pace = EndPace::default();
        pace.hurry();
        let began = Instant::now();
        assert_eq!(pace.step(std::future::pending::<()>()).await, None);
        assert_eq!((began.elapsed(), pace.is_hurried()), (Duration::ZERO, true));
    }
}
