//! Why and when a connection went, told once to everybody who waits on it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why and when a connection went, told once.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionLoss {
    token: CancellationToken,
    why: Arc<OnceLock<LossReason>>,
}

/// Why a connection went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LossReason {
    /// It broke.
    Broke {
        /// How.
        why: String,
    },
    /// What was agreed does not hold any more; a new agreement can be had at once.
    Disowned,
}

impl ConnectionLoss {
    /// Tells that the connection is gone. The first reason stays.
    pub(crate) fn report(&self, gone: LossReason) {
        let _ = self.why.set(gone);
        self.token.cancel();
    }

    pub(crate) fn is_reported(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until it is told. Cancel safe.
    pub(crate) async fn reported(&self) -> LossReason {
        self.token.cancelled().await;
        self.why.get().cloned().unwrap_or(LossReason::Broke { why: "it was closed".to_owned() })
    }
}
