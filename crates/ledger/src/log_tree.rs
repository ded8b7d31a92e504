//! The tree over the leaves of the verifiable log, for every store alike: which leaves are taken into it in a round, and what is stored of it.
//! The leaves of a log are rows in their order; of the tree, a store keeps every full tile and the right edge.
//!
//! The stores run this in a transaction that holds the row of the tree, so that of several gateways one extends it at a time, and each builds
//! on what the last one stored. Deliberately not here: signing, and what leaves say.

use servanda_audit::{
    FullTile, TreeEdge, TreeHash,
    tile::{TileKind, TilePath, leaves_of_bundle},
};
use servanda_effects::LogHead;

use crate::{
    LedgerError,
    codec::{signed, unsigned},
};

/// Leaves that one round takes into the tree.
pub(crate) const LEAVES_PER_ROUND: u64 = 4_096;

/// The tree as a store keeps it.
#[derive(Debug, Clone)]
pub(crate) struct StoredTree {
    pub(crate) size: i64,
    pub(crate) edge: Vec<u8>,
    pub(crate) signed_size: i64,
}

/// The tree in a transaction that extends it.
#[derive(Debug)]
pub(crate) struct LogTree {
    edge: TreeEdge,
    signed_size: u64,
    /// The tiles that became full.
    full: Vec<FullTile>,
}

impl LogTree {
    pub(crate) fn read(stored: &StoredTree) -> Result<Self, LedgerError> {
        let size = unsigned(stored.size);
        let edge = TreeEdge::from_bytes(size, &stored.edge).map_err(|error| LedgerError::Log(error.to_string()))?;
        Ok(Self { edge, signed_size: unsigned(stored.signed_size), full: Vec::new() })
    }

    pub(crate) const fn size(&self) -> u64 {
        self.edge.size()
    }

    /// Takes in the leaves of a row, which begins with the leaf `first`.
    pub(crate) fn take(&mut self, first: u64, count: u32, bytes: &[u8]) -> Result<(), LedgerError> {
        let damaged = |reason: String| LedgerError::Log(format!("the leaves from {first} on: {reason}"));
        if first != self.edge.size() {
            return Err(damaged(format!("the tree ends at {}", self.edge.size())));
        }
        let width = u16::try_from(count).map_err(|_| damaged("there are too many in one row".to_owned()))?;
        for leaf in leaves_of_bundle(bytes, width).map_err(|error| damaged(error.to_string()))? {
            self.full.extend(self.edge.append(TreeHash::of_leaf(leaf)));
        }
        Ok(())
    }

    /// The tiles that became full: level, number, hashes.
    pub(crate) fn full_tiles(&self) -> impl Iterator<Item = (i64, i64, Vec<u8>)> {
        self.full.iter().map(|tile| {
            let hashes = tile.hashes.iter().flat_map(TreeHash::as_bytes).copied().collect();
            (level_of(&tile.path), signed(tile.path.index()), hashes)
        })
    }

    /// The right edge, to be stored.
    pub(crate) fn edge(&self) -> Vec<u8> {
        self.edge.to_bytes()
    }

    /// How far the log has come, if there are `written` leaves.
    pub(crate) fn head(&self, is_behind: bool) -> LogHead {
        LogHead { size: self.edge.size(), root: *self.edge.root().as_bytes(), signed_size: self.signed_size, is_behind }
    }
}

/// The level of a tile of hashes; leaves have none.
pub(crate) fn level_of(path: &TilePath) -> i64 {
    match path.kind() {
        TileKind::Entries => -1,
        TileKind::Hashes { level } => i64::from(level),
    }
}
