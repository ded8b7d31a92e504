//! Why and when a connection went, told once to everybody who waits on it.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// Why and when a connection went, told once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Departure {
    token: CancellationToken,
    why: Arc<OnceLock<Gone>>,
}

/// Why a connection went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Gone {
    /// It broke.
    Broke {
        /// How.
        why: String,
    },
    /// What was agreed does not hold any more; a new agreement can be had at once.
    Disowned,
}

impl Departure {
    /// Tells that the connection is gone. The first reason stays.
    pub(crate) fn tell(&self, gone: Gone) {
        let _ = self.why.set(gone);
        self.token.cancel();
    }

    pub(crate) fn is_told(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Waits until it is told. Cancel safe.
    pub(crate) async fn told(&self) -> Gone {
        self.token.cancelled().await;
        self.why.get().cloned().unwrap_or(Gone::Broke { why: "it was closed".to_owned() })
    }
}
