//! Verifying a whole log offline: the signed root, every leaf, every tile, and that earlier checkpoints are part of it. Memory does not
//! grow with the log: one bundle and one tile a level are held.
//!
//! Deliberately not here: what leaves say; a [`LeafCheck`] looks at each of them in order.

mod diagnosis;
mod fault;
mod walk;

pub use fault::LogFault;

use crate::{
    note::NOTE_BYTES_MAX,
    policy::{LogPolicy, TrustedCheckpoint},
    tile::{CHECKPOINT_PATH, TileFault, TileSource},
};

/// Why a leaf should not be where it is.
pub type LeafCheckFault = Box<dyn std::error::Error + Send + Sync>;

/// Looks at the leaves of a log in order.
pub trait LeafCheck {
    /// Checks a leaf. After the first fault no further leaf is shown.
    fn check(&mut self, index: u64, leaf: &[u8]) -> Result<(), LeafCheckFault>;
}

/// Leaves may say anything.
#[derive(Debug, Clone, Copy, Default)]
pub struct AnyLeaf;

impl LeafCheck for AnyLeaf {
    fn check(&mut self, _index: u64, _leaf: &[u8]) -> Result<(), LeafCheckFault> {
        Ok(())
    }
}

/// Verifies the log that the source's checkpoint signs. `earlier` are checkpoints that were trusted before, of this log; each has to be
/// part of it. Returns the checkpoint that every leaf was compared with.
pub fn verify_log<S: TileSource + ?Sized>(
    source: &S,
    policy: &LogPolicy,
    earlier: &[TrustedCheckpoint],
    check: &mut dyn LeafCheck,
) -> Result<TrustedCheckpoint, LogFault> {
    let unreadable = |error| TileFault::Unreadable { path: CHECKPOINT_PATH.to_owned(), error };
    let note = source.read(CHECKPOINT_PATH, NOTE_BYTES_MAX).map_err(unreadable)?;
    let trusted = policy.trust(&note.ok_or(LogFault::NoCheckpoint)?)?;
    let now = trusted.checkpoint();
    for before in earlier.iter().map(TrustedCheckpoint::checkpoint) {
        if before.origin() != now.origin() {
            return Err(LogFault::OtherLog { earlier: before.origin().to_owned(), origin: now.origin().to_owned() });
        }
        if before.size() > now.size() {
            return Err(LogFault::Shrunk { earlier: before.size(), size: now.size() });
        }
    }
    walk::walk(source, now, earlier, check)?;
    Ok(trusted)
}
