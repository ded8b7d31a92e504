//! What can be wrong with a log, each with the place where it is.

use super::LeafCheckFault;
use crate::{
    policy::UntrustedCheckpoint,
    tile::{TileFault, TilePath},
};

/// Why a log does not verify.
#[derive(Debug, thiserror::Error)]
pub enum LogFault {
    /// Nothing is signed.
    #[error("the log has no checkpoint")]
    NoCheckpoint,
    /// A foreign key, a false signature, too few witnesses.
    #[error("the checkpoint is not trusted: {0}")]
    Untrusted(#[from] UntrustedCheckpoint),
    /// The earlier checkpoint is another log's.
    #[error("the earlier checkpoint is of the log `{earlier}`, this one of `{origin}`")]
    OtherLog {
        /// The earlier checkpoint's origin.
        earlier: String,
        /// This one's.
        origin: String,
    },
    /// Leaves that were signed earlier are not signed any more.
    #[error("the log was cut back: it had {earlier} leaves and has {size}")]
    Shrunk {
        /// The leaves that it had.
        earlier: u64,
        /// The leaves that it has.
        size: u64,
    },
    /// Two histories were signed.
    #[error("the log was forked: its first {size} leaves are not those of the earlier checkpoint, and both are signed")]
    Forked {
        /// The leaves of the earlier checkpoint.
        size: u64,
    },
    /// The log ends before its checkpoint does.
    #[error("the log is truncated: leaf {leaf} and all after it are missing ({path})")]
    Truncated {
        /// The first leaf that is missing.
        leaf: u64,
        /// The first file that is missing.
        path: TilePath,
    },
    /// A file that is missing, unreadable, or of the wrong form.
    #[error(transparent)]
    File(#[from] TileFault),
    /// A leaf other than its hash.
    #[error("leaf {leaf} was changed: it does not have the hash that is signed ({path})")]
    Changed {
        /// The leaf.
        leaf: u64,
        /// Its bundle.
        path: TilePath,
    },
    /// A leaf that was taken out.
    #[error("leaf {leaf} was deleted: those after it are in its place ({path})")]
    Deleted {
        /// The leaf.
        leaf: u64,
        /// Its bundle.
        path: TilePath,
    },
    /// A leaf that was put in.
    #[error("a leaf was inserted as leaf {leaf} ({path})")]
    Inserted {
        /// Its place.
        leaf: u64,
        /// Its bundle.
        path: TilePath,
    },
    /// Leaves in another order.
    #[error("leaves were reordered from leaf {leaf} on: {found} is in its place ({path})")]
    Reordered {
        /// The first leaf that is not in its place.
        leaf: u64,
        /// The leaf that is there instead.
        found: u64,
        /// Their bundle.
        path: TilePath,
    },
    /// Leaves with their hashes.
    #[error(
        "leaves {first} to {last} were rewritten together with their hashes: they do not have the hash that is signed ({path})"
    )]
    Rewritten {
        /// The first of the leaves, one of which at least was rewritten.
        first: u64,
        /// The last of them.
        last: u64,
        /// The tile with the hash that is signed.
        path: TilePath,
    },
    /// A hash that is not that of its leaves, and is not signed either.
    #[error("the tile {path} was changed: hash {position} of it is not that of the leaves from {first} on")]
    TileChanged {
        /// The tile.
        path: TilePath,
        /// The hash.
        position: u16,
        /// The first leaf below it.
        first: u64,
    },
    /// All files fit together, and another root is signed.
    #[error("the leaves from {from} on are not those that were signed: {size} leaves have another root")]
    OtherRoot {
        /// The leaves before are those of an earlier checkpoint.
        from: u64,
        /// The leaves of the log.
        size: u64,
    },
    /// A leaf that says what it may not.
    #[error("leaf {leaf}: {fault}")]
    IllegalLeaf {
        /// The leaf.
        leaf: u64,
        /// Why.
        #[source]
        fault: LeafCheckFault,
    },
}
