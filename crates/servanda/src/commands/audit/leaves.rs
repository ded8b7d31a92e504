//! The leaves of a log that lead to its checkpoint's root, in their order. Deliberately not here: whose signature the checkpoint has, which
//! `audit verify` checks.

use std::ops::ControlFlow;

use servanda_audit::{AuditLeaf, Checkpoint, SignedNote, TileSource, TrustedTiles, tile::CHECKPOINT_PATH};

use super::{nothing_signed, places::LogFolder};
use crate::failure::CommandFailure;

/// Bytes of a checkpoint that is read.
const CHECKPOINT_BYTES_MAX: usize = 1 << 20;
/// Leaves of a bundle.
const BUNDLE_LEAVES: u64 = 256;

/// The checkpoint of a copy.
pub(super) fn checkpoint_of(folder: &LogFolder) -> Result<(SignedNote, Checkpoint), CommandFailure> {
    let bytes = folder.read(CHECKPOINT_PATH, CHECKPOINT_BYTES_MAX);
    let bytes = bytes.map_err(|error| {
        CommandFailure::bad_input(format!("the checkpoint in `{}` cannot be read: {error}", folder.0.display()))
    })?;
    let bytes = bytes.ok_or_else(|| {
        CommandFailure::bad_input(format!("`{}` has no log: there is no `checkpoint` in it", folder.0.display()))
            .hint("`servanda audit copy DIR` copies the log at its gateway")
    })?;
    parsed(&String::from_utf8_lossy(&bytes))
}

/// A signed checkpoint.
pub(super) fn parsed(text: &str) -> Result<(SignedNote, Checkpoint), CommandFailure> {
    let damaged = || CommandFailure::failed("the log's checkpoint cannot be read").hint("run `servanda ledger verify`");
    let note: SignedNote = text.parse().map_err(|_| damaged())?;
    let checkpoint = note.text().parse().map_err(|_| damaged())?;
    Ok((note, checkpoint))
}

/// The tiles under a checkpoint.
pub(super) fn tiles_of<'a, S: TileSource>(
    log: &'a S,
    checkpoint: &Checkpoint,
) -> Result<TrustedTiles<'a, S>, CommandFailure> {
    if checkpoint.size() == 0 {
        return Err(nothing_signed());
    }
    TrustedTiles::open(log, checkpoint.size(), checkpoint.root()).map_err(|fault| damaged(&fault))
}

/// Passes on the leaves from one on, with their bytes, until it is told to stop.
pub(super) fn each_leaf<S: TileSource>(
    tiles: &mut TrustedTiles<'_, S>,
    from: u64,
    mut visit: impl FnMut(u64, &[u8], &AuditLeaf) -> Result<ControlFlow<()>, CommandFailure>,
) -> Result<(), CommandFailure> {
    for bundle in from / BUNDLE_LEAVES..tiles.size().div_ceil(BUNDLE_LEAVES) {
        let leaves = tiles.bundle(bundle).map_err(|fault| damaged(&fault))?;
        for (index, bytes) in (bundle * BUNDLE_LEAVES..).zip(leaves).skip_while(|(index, _)| *index < from) {
            let leaf = AuditLeaf::from_bytes(&bytes).map_err(|fault| damaged(&format!("leaf {index}: {fault}")))?;
            if visit(index, &bytes, &leaf)?.is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// That the log is not what its checkpoint signs.
pub(super) fn damaged(fault: &dyn std::fmt::Display) -> CommandFailure {
    CommandFailure::failed(format!("the log does not hold: {fault}"))
        .hint("`servanda audit verify DIR` says more about a copy, `servanda ledger verify` about a ledger")
}
