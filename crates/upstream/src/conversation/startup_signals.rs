//! What a child process shows after its start: that it runs at all, and that it is modern although it said so too late.
//!
//! A server that has written nothing yet is still starting, so its silence means nothing.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use tokio_util::sync::CancellationToken;

use crate::eras::handshake::{EraVerdict, UpstreamPeer, stdio_verdict};

/// The signals of one child.
#[derive(Debug, Default)]
pub(crate) struct StartupSignals {
    lives: AtomicBool,
    first: CancellationToken,
    probe_id: AtomicI64,
    late_peer: OnceLock<UpstreamPeer>,
    late_known: CancellationToken,
}

impl StartupSignals {
    /// Records that it wrote something.
    pub(crate) fn record_output(&self) {
        if !self.lives.swap(true, Ordering::Relaxed) {
            self.first.cancel();
        }
    }

    /// Whether it has written something.
    pub(crate) fn has_output(&self) -> bool {
        self.lives.load(Ordering::Relaxed)
    }

    /// Waits until it has written something. Cancel safe.
    pub(crate) async fn wait_for_output(&self) {
        self.first.cancelled().await;
    }

    /// Sets the id of the request that asks whether it is modern.
    pub(crate) fn set_probe_id(&self, id: i64) {
        self.probe_id.store(id, Ordering::Relaxed);
    }

    /// Records an answer that no request waits for any more.
    pub(crate) fn record_late_answer(&self, id: i64, result: &[u8]) {
        if id == self.probe_id.load(Ordering::Relaxed)
            && let EraVerdict::Modern(peer) = stdio_verdict(&Ok(result))
        {
            let _ = self.late_peer.set(peer);
            self.late_known.cancel();
        }
    }

    /// What it said about itself too late.
    pub(crate) fn late_peer(&self) -> Option<&UpstreamPeer> {
        self.late_peer.get()
    }

    /// Waits until it says, too late, that it is modern. Cancel safe.
    pub(crate) async fn wait_for_late_peer(&self) {
        self.late_known.cancelled().await;
    }
}
