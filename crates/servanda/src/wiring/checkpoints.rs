//! Signs the verifiable log: at most once a second it has the ledger take new leaves into the tree, and signs the tree's root. Of gateways that
//! share a ledger each does so with the same key, and the ledger keeps the checkpoint of the largest tree.
//!
//! A store or a key that cannot be had is told once, and the leaves wait: they are in the ledger already. If they wait for too long, the
//! ledger says so, and no high-risk call begins until the log is signed again, by this gateway or by another.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use servanda_audit::{Checkpoint, TreeHash};
use servanda_authn::log_key::LogKeyStore;
use servanda_effects::AuditLog as _;
use servanda_ledger::Ledger;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The least time between two checkpoints.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(1);
/// How often the log is looked at although this process wrote no leaf: commands write leaves too.
const LOOK_INTERVAL: Duration = Duration::from_secs(30);

/// How far the log is, as this gateway last saw it.
#[derive(Debug, Default)]
pub(crate) struct LogProgress(Mutex<LogFigures>);

/// The figures of [`LogProgress`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LogFigures {
    /// The leaves in the tree; none before they were first asked for.
    pub(crate) leaves: Option<u64>,
    /// Those that the last checkpoint covers.
    pub(crate) signed: u64,
    /// How often the log could not be signed.
    pub(crate) failures: u64,
}

impl LogProgress {
    /// The figures now.
    pub(crate) fn figures(&self) -> LogFigures {
        *self.lock()
    }

    fn note(&self, leaves: u64, signed: u64) {
        let mut figures = self.lock();
        (figures.leaves, figures.signed) = (Some(leaves), signed);
    }

    fn lock(&self) -> MutexGuard<'_, LogFigures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Signs checkpoints until told to stop.
pub(crate) async fn sign_checkpoints(
    ledger: Arc<Ledger>,
    key: Arc<LogKeyStore>,
    progress: Arc<LogProgress>,
    stop: CancellationToken,
) {
    let (mut looked, mut failures) = (None::<Instant>, 0_u64);
    loop {
        let is_due = looked.is_none_or(|looked| looked.elapsed() >= LOOK_INTERVAL);
        if ledger.writes_log() && (ledger.take_log_news() || is_due) {
            looked = Some(Instant::now());
            let before = progress.figures().signed;
            let extended = extend(&ledger, &key, &progress).await;
            // A gateway without the key writes leaves that others sign.
            if extended.is_ok() || progress.figures().signed > before {
                ledger.note_log_signed();
            }
            match extended {
                Ok(()) if failures > 0 => {
                    tracing::info!(failures, "the verifiable log is signed again");
                    failures = 0;
                }
                Ok(()) => {}
                Err(reason) => {
                    if failures == 0 {
                        tracing::error!(
                            reason,
                            "the verifiable log is not signed for now; its leaves wait in the ledger"
                        );
                    }
                    failures += 1;
                    progress.lock().failures += 1;
                    ledger.keep_log_news();
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(CHECKPOINT_INTERVAL) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// Takes all leaves into the tree, and signs its root.
async fn extend(ledger: &Ledger, key: &LogKeyStore, progress: &LogProgress) -> Result<(), String> {
    loop {
        let head = ledger.extend_tree().await.map_err(|error| error.reason().to_owned())?;
        if head.is_behind {
            continue;
        }
        progress.note(head.size, head.signed_size);
        if head.size > head.signed_size {
            let signer = key.signer().await.map_err(|error| error.to_string())?;
            let origin = signer.verifier().name().as_str();
            let checkpoint = Checkpoint::new(origin, head.size, TreeHash::new(head.root));
            let note = checkpoint.map_err(|error| error.to_string())?.to_string();
            let note = signer.sign(note).map_err(|error| error.to_string())?.to_string();
            ledger.put_checkpoint(head.size, note).await.map_err(|error| error.reason().to_owned())?;
            progress.note(head.size, head.size);
        }
        return Ok(());
    }
}

/// Signs what this process has written, before its ledger is closed. What cannot be signed now is signed by the next gateway.
pub(crate) async fn sign_the_last(ledger: &Ledger, key: &LogKeyStore) {
    // The last records may not be written yet; what this asks of the ledger comes after them.
    if ledger.writes_log()
        && let Err(reason) = extend(ledger, key, &LogProgress::default()).await
    {
        tracing::warn!(reason, "the last leaves of the verifiable log are not signed yet");
    }
}
