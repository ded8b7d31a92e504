//! What happened, once something does not fit: the files that still lead to the signed root tell what was there.

use super::LogFault;
use crate::{
    merkle::TreeHash,
    tile::{
        BUNDLE_BYTES_MAX, BundleFault, TILE_HASHES, TileFault, TileKind, TilePath, TileSource, TrustedTiles,
        leaves_of_bundle, read_hashes,
    },
};

/// A log with a fault, and its signed root.
pub(super) struct Diagnosis<'a, S: ?Sized> {
    pub(super) source: &'a S,
    pub(super) size: u64,
    pub(super) root: TreeHash,
}

impl<S: TileSource + ?Sized> Diagnosis<'_, S> {
    /// A bundle that cannot be used: missing at the end of the log or in its middle, or with another number of leaves.
    pub(super) fn of_bundle(&self, fault: TileFault, path: TilePath) -> LogFault {
        if let TileFault::Bundle { path: found, fault: BundleFault::Count { expected, found: leaves } } = &fault {
            let is_short = leaves < expected;
            let leaf = self.first_that_differs(*found, *leaves);
            return match leaf {
                Some(leaf) if is_short => LogFault::Deleted { leaf, path },
                Some(leaf) => LogFault::Inserted { leaf, path },
                None => fault.into(),
            };
        }
        let last = self.size.saturating_sub(1) / u64::from(TILE_HASHES);
        let last = TilePath::of_tree(TileKind::Entries, last, self.size);
        let is_there = |path: TilePath| {
            let read = |path: TilePath| self.source.read(&path.to_string(), BUNDLE_BYTES_MAX);
            [path, path.full()].into_iter().any(|path| !matches!(read(path), Ok(None)))
        };
        let is_end = matches!(fault, TileFault::Missing { .. }) && !last.is_some_and(is_there);
        if is_end { LogFault::Truncated { leaf: path.first_leaf(), path } } else { fault.into() }
    }

    /// The first of a bundle's `count` leaves that does not have its hash, if the bundle and a signed tile can be read.
    fn first_that_differs(&self, path: TilePath, count: usize) -> Option<u64> {
        let tile = TilePath::of_tree(TileKind::Hashes { level: 0 }, path.index(), self.size)?;
        let bytes = self.source.read(&path.to_string(), BUNDLE_BYTES_MAX).ok()??;
        let leaves = leaves_of_bundle(&bytes, u16::try_from(count).ok()?).ok()?;
        let stored = read_hashes(self.source, tile).ok().filter(|_| self.is_signed(tile))?;
        let differs = leaves.iter().zip(&stored).position(|(leaf, hash)| TreeHash::of_leaf(leaf) != *hash);
        let position = differs.unwrap_or(leaves.len().min(stored.len()));
        Some(tile.leaf_at(u16::try_from(position).ok()?))
    }

    /// Leaves that do not have the hashes of their tile.
    pub(super) fn of_leaves(
        &self,
        path: TilePath,
        tile: TilePath,
        computed: &[TreeHash],
        stored: &[TreeHash],
    ) -> LogFault {
        let place = computed.iter().zip(stored).position(|(one, other)| one != other).unwrap_or_default();
        let position = u16::try_from(place).unwrap_or(u16::MAX);
        let leaf = tile.leaf_at(position);
        if !self.is_signed(tile) {
            return LogFault::TileChanged { path: tile, position, first: leaf };
        }
        let (Some(computed), Some(stored)) = (computed.get(place..), stored.get(place..)) else {
            return LogFault::Changed { leaf, path };
        };
        // At the end of the bundle nothing follows that could have moved, so that one leaf more is asked for.
        let moved = |from: &[TreeHash], to: &[TreeHash]| {
            let rest = from.get(1..).unwrap_or_default();
            !rest.is_empty() && to.starts_with(rest)
        };
        let is_same_set = {
            let (mut computed, mut stored) = (computed.to_vec(), stored.to_vec());
            computed.sort_unstable();
            stored.sort_unstable();
            computed == stored
        };
        let found = computed.first().and_then(|hash| stored.iter().position(|other| other == hash));
        match found {
            Some(ahead) if is_same_set => {
                let found = leaf.saturating_add(u64::try_from(ahead).unwrap_or(u64::MAX));
                LogFault::Reordered { leaf, found, path }
            }
            _ if moved(stored, computed) => LogFault::Deleted { leaf, path },
            _ if moved(computed, stored) => LogFault::Inserted { leaf, path },
            _ => LogFault::Changed { leaf, path },
        }
    }

    /// A tile above level 0 whose hash at `position` is not that of the leaves below it, though they have the hashes of their own tiles.
    pub(super) fn of_subtree(&self, path: TilePath, position: u16) -> LogFault {
        let first = path.leaf_at(position);
        if !self.is_signed(path) {
            return LogFault::TileChanged { path, position, first };
        }
        let last = path.leaf_at(position + 1).saturating_sub(1);
        LogFault::Rewritten { first, last, path }
    }

    /// Whether the tile leads to the signed root.
    fn is_signed(&self, path: TilePath) -> bool {
        let TileKind::Hashes { level } = path.kind() else { return false };
        let tiles = TrustedTiles::open(self.source, self.size, self.root);
        tiles.is_ok_and(|mut tiles| tiles.tile(level, path.index()).is_ok())
    }
}
