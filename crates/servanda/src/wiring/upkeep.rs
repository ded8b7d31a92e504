//! Keeps the ledger from growing for ever: removes finished calls, beside the running ones.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_contract::time::Clock as _;
use servanda_effects::FailureStreak;
use servanda_engine::SystemClock;
use servanda_ledger::{Ledger, PruneReport, Retention};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long to wait after nothing was left to remove: a part of the shortest retention, within these bounds.
const IDLE_MS: (u64, u64) = (1_000, 60_000);
const IDLE_PART: u64 = 4;
/// How long callers have the ledger to themselves between two rounds: the minimum, and a multiple of what a round took.
const PAUSE_MS_MIN: u64 = 50;
const PAUSE_ROUNDS: u32 = 4;

/// The current retention, from the configuration.
#[derive(Debug, Clone)]
pub(crate) struct CurrentRetention(Arc<Mutex<Retention>>);

impl CurrentRetention {
    pub(crate) fn new(retention: Retention) -> Self {
        Self(Arc::new(Mutex::new(retention)))
    }

    /// Sets another retention.
    pub(crate) fn replace(&self, retention: Retention) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = retention;
    }

    fn now(&self) -> Retention {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes finished calls until told to stop.
pub(crate) async fn remove_what_is_over(ledger: Arc<Ledger>, retention: CurrentRetention, stop: CancellationToken) {
    let failures = FailureStreak::default();
    loop {
        let began = Instant::now();
        let pruned = ledger.prune(retention.now(), SystemClock.now()).await;
        if pruned.is_ok() {
            failures.worked();
        }
        let pause = match pruned {
            Ok(PruneReport { is_behind: true, .. }) => {
                (began.elapsed() * PAUSE_ROUNDS).max(Duration::from_millis(PAUSE_MS_MIN))
            }
            Ok(_) => idle(retention.now()),
            Err(error) => {
                if failures.failed() {
                    tracing::warn!(%error, "expired records could not be removed from the ledger; the gateway tries again");
                }
                idle(retention.now())
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

fn idle(retention: Retention) -> Duration {
    let (least, most) = IDLE_MS;
    let shortest = [retention.records_ms, retention.tombstones_ms].into_iter().flatten().min();
    Duration::from_millis(shortest.map_or(most, |kept_ms| (kept_ms / IDLE_PART).clamp(least, most)))
}

#[cfg(test)]
mod tests {
    use servanda_ledger::Retention;

    use super::idle;

    #[test]
    fn what_is_kept_for_a_short_time_is_looked_for_more_often() {
        let idle_ms = |records_ms, tombstones_ms| idle(Retention { records_ms, tombstones_ms }).as_millis();
        assert_eq!(idle_ms(None, None), 60_000);
        assert_eq!(idle_ms(Some(2_592_000_000), Some(2_592_000_000)), 60_000);
        assert_eq!(idle_ms(Some(2_592_000_000), Some(20_000)), 5_000);
        assert_eq!(idle_ms(Some(1_000), None), 1_000);
    }
}
