//! What a child process shows of itself after its start: that it lives at all, and that it is modern although it said so too late.
//!
//! A server that has written nothing yet is starting, and silence is no verdict then.

use std::sync::{
    OnceLock,
    atomic::{AtomicBool, AtomicI64, Ordering},
};

use tokio_util::sync::CancellationToken;

use crate::eras::handshake::{Peer, Verdict, stdio_verdict};

/// The signs of one child.
#[derive(Debug, Default)]
pub(crate) struct Signs {
    lives: AtomicBool,
    first: CancellationToken,
    probe_id: AtomicI64,
    late: OnceLock<Peer>,
    late_told: CancellationToken,
}

impl Signs {
    /// It wrote something.
    pub(crate) fn of_life(&self) {
        if !self.lives.swap(true, Ordering::Relaxed) {
            self.first.cancel();
        }
    }

    /// Whether it has written something.
    pub(crate) fn live(&self) -> bool {
        self.lives.load(Ordering::Relaxed)
    }

    /// Waits until it has written something. Cancel safe.
    pub(crate) async fn seen(&self) {
        self.first.cancelled().await;
    }

    /// It is asked under this id whether it is modern.
    pub(crate) fn probing(&self, id: i64) {
        self.probe_id.store(id, Ordering::Relaxed);
    }

    /// It answered a request that nobody waits for any more.
    pub(crate) fn of_lateness(&self, id: i64, result: &[u8]) {
        if id == self.probe_id.load(Ordering::Relaxed)
            && let Verdict::Modern(peer) = stdio_verdict(&Ok(result))
        {
            let _ = self.late.set(peer);
            self.late_told.cancel();
        }
    }

    /// What it said about itself too late.
    pub(crate) fn late(&self) -> Option<&Peer> {
        self.late.get()
    }

    /// Waits until it has said too late that it is modern. Cancel safe.
    pub(crate) async fn late_told(&self) {
        self.late_told.cancelled().await;
    }
}
