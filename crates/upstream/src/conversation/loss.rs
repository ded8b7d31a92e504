//! Why and when a connection was lost, reported once to every request that waits on it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Reports once why and when a connection was lost.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionLoss {
    token: CancellationToken,
    why: Arc<OnceLock<LossReason>>,
}

/// Why a connection was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LossReason {
    /// It broke.
    Broke {
        /// How.
        why: String,
    },
    /// The session or the agreed era is no longer valid; a new handshake can be made at once.
    Disowned,
}

impl ConnectionLoss {
    /// Reports the loss. The first reason stays.
    pub(crate) fn report(&self, gone: LossReason) {
        let _ = self.why.set(gone);
        self.token.cancel();
    }

    pub(crate) fn is_reported(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until the loss is reported. Cancel safe.
    pub(crate) async fn reported(&self) -> LossReason {
        self.token.cancelled().await;
        self.why.get().cloned().unwrap_or(LossReason::Broke { why: "it was closed".to_owned() })
    }
}
