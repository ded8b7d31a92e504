//! Keeps the ledger from growing for ever: removes what is over, beside the calls.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;
use servanda_ledger::{Ledger, Pruned, Retention};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long nothing is looked for once nothing was left to do.
const IDLE_MS: u64 = 60_000;
/// How long callers have the ledger to themselves between two rounds, at the least, and as a multiple of what a round took.
const PAUSE_MS_MIN: u64 = 50;
const PAUSE_ROUNDS: u32 = 4;

/// How long things are kept, as the configuration says at the moment.
#[derive(Debug, Clone)]
pub(crate) struct Keeping(Arc<Mutex<Retention>>);

impl Keeping {
    pub(crate) fn new(retention: Retention) -> Self {
        Self(Arc::new(Mutex::new(retention)))
    }

    /// From now on they are kept so long.
    pub(crate) fn replace(&self, retention: Retention) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = retention;
    }

    fn now(&self) -> Retention {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes what is over until told to stop.
pub(crate) async fn remove_what_is_over(ledger: Arc<Ledger>, keeping: Keeping, stop: CancellationToken) {
    loop {
        let began = Instant::now();
        let pruned = ledger.prune(keeping.now(), SystemClock.now()).await;
        let pause = match pruned {
            Ok(Pruned { is_behind: true, .. }) => {
                (began.elapsed() * PAUSE_ROUNDS).max(Duration::from_millis(PAUSE_MS_MIN))
            }
            Ok(_) => Duration::from_millis(IDLE_MS),
            Err(error) => {
                tracing::warn!(%error, "what is over could not be removed from the ledger");
                Duration::from_millis(IDLE_MS)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}
