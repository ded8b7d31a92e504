//! Reading a log of which nothing is believed but one signed root: every tile is hashed up to that root before one of its hashes is
//! used, and every leaf up to its tile.
//!
//! The published Rust reader accepts an entry that was rewritten together with its leaf hash (CVE-2026-56865's case). Here a tile
//! becomes a value of this module only by [`TrustedTiles::tile`], which compares it with its parent.

use std::collections::BTreeMap;

use super::{
    address::{TILE_HASHES, TILE_HEIGHT, TILE_LEVELS, TileKind, TilePath},
    source::{TileFault, TileSource, read_bundle, read_hashes},
};
use crate::merkle::{Frontier, Subtree, SubtreeHashes, TreeHash};

/// Tiles that are remembered, 8 kB each. A proof reads fewer.
const TILES_MAX: usize = 64;

/// The tiles of a tree whose root is known.
#[derive(Debug)]
pub struct TrustedTiles<'a, S: ?Sized> {
    source: &'a S,
    size: u64,
    frontier: Frontier,
    // INVARIANT: these tiles were hashed up to the root; those of the right edge are always among them.
    tiles: BTreeMap<(u8, u64), Vec<TreeHash>>,
}

impl<'a, S: TileSource + ?Sized> TrustedTiles<'a, S> {
    /// Reads the tree's right edge, the partial tile of each level, and checks that it leads to the root.
    pub fn open(source: &'a S, size: u64, root: TreeHash) -> Result<Self, TileFault> {
        let mut frontier = Frontier::default();
        let mut tiles = BTreeMap::new();
        for level in (0..TILE_LEVELS).rev() {
            let kind = TileKind::Hashes { level };
            let height = TILE_HEIGHT * u32::from(level);
            let Some(path) = TilePath::partial_of_tree(kind, size) else { continue };
            let hashes = read_hashes(source, path)?;
            for hash in &hashes {
                frontier.append_subtree(height, *hash);
            }
            tiles.insert((level, path.index()), hashes);
        }
        // Upholds: what is in `tiles` leads to the root.
        if frontier.size() != size || frontier.root() != root {
            return Err(TileFault::OtherRoot { size });
        }
        Ok(Self { source, size, frontier, tiles })
    }

    /// The leaves of the tree.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The tree's frontier, from which it can grow.
    pub const fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// The hashes of a tile; of the last tile of a level those that the tree has.
    pub fn tile(&mut self, level: u8, index: u64) -> Result<&[TreeHash], TileFault> {
        if !self.tiles.contains_key(&(level, index)) {
            let outside = TileFault::Outside { index, size: self.size };
            let path = TilePath::of_tree(TileKind::Hashes { level }, index, self.size).ok_or(outside)?;
            let hashes = read_hashes(self.source, path)?;
            let (parent, place) = (index / u64::from(TILE_HASHES), index % u64::from(TILE_HASHES));
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            // Every full tile has a parent; it is one of 8 levels.
            let expected = self.tile(level + 1, parent)?.get(place).copied();
            if expected != Some(root_of(&hashes)) {
                return Err(TileFault::NotInTree { path });
            }
            self.make_room();
            self.tiles.insert((level, index), hashes);
        }
        Ok(self.tiles.get(&(level, index)).map(Vec::as_slice).unwrap_or_default())
    }

    /// Forgets every tile but the right edge if there are too many.
    fn make_room(&mut self) {
        if self.tiles.len() >= TILES_MAX {
            let size = self.size;
            let edge = |level| TilePath::partial_of_tree(TileKind::Hashes { level }, size).map(|path| path.index());
            self.tiles.retain(|(level, index), _| edge(*level) == Some(*index));
        }
    }

    /// Reads a leaf. Its whole bundle is compared with its tile.
    pub fn leaf(&mut self, index: u64) -> Result<Vec<u8>, TileFault> {
        let outside = TileFault::Outside { index, size: self.size };
        if index >= self.size {
            return Err(outside);
        }
        let place = usize::try_from(index % u64::from(TILE_HASHES)).unwrap_or(usize::MAX);
        let mut leaves = self.bundle(index / u64::from(TILE_HASHES))?;
        if place < leaves.len() { Ok(leaves.swap_remove(place)) } else { Err(outside) }
    }

    /// Reads a bundle and compares each of its leaves with its hash.
    pub fn bundle(&mut self, index: u64) -> Result<Vec<Vec<u8>>, TileFault> {
        let outside = TileFault::Outside { index, size: self.size };
        let path = TilePath::of_tree(TileKind::Entries, index, self.size).ok_or(outside)?;
        let leaves = read_bundle(self.source, path)?;
        let hashes = self.tile(0, index)?;
        let wrong = leaves.iter().zip(hashes).position(|(leaf, hash)| TreeHash::of_leaf(leaf) != *hash);
        if let Some(position) = wrong {
            let index = path.first_leaf().saturating_add(u64::try_from(position).unwrap_or(u64::MAX));
            return Err(TileFault::OtherLeaf { path, index });
        }
        Ok(leaves)
    }
}

impl<S: TileSource + ?Sized> SubtreeHashes for TrustedTiles<'_, S> {
    type Fault = TileFault;

    fn subtree(&mut self, subtree: Subtree) -> Result<TreeHash, TileFault> {
        let outside = TileFault::Outside { index: subtree.index, size: self.size };
        let level = u8::try_from(subtree.height / TILE_HEIGHT).unwrap_or(u8::MAX);
        let within = subtree.height % TILE_HEIGHT;
        // The subtree is `2^within` hashes of its tile.
        let per_tile = u64::from(TILE_HASHES) >> within;
        let (tile, place) = (subtree.index / per_tile, (subtree.index % per_tile) << within);
        let start = usize::try_from(place).unwrap_or(usize::MAX);
        let hashes = self.tile(level, tile)?;
        let hashes = hashes.get(start..).and_then(|rest| rest.get(..1 << within)).ok_or(outside)?;
        Ok(root_of(hashes))
    }
}

/// The root over hashes of complete subtrees of one height.
pub(crate) fn root_of(hashes: &[TreeHash]) -> TreeHash {
    let mut frontier = Frontier::default();
    for hash in hashes {
        frontier.append(*hash);
    }
    frontier.root()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogBuilder;

    #[test]
    fn the_tiles_that_are_remembered_are_bounded() {
        let mut log = LogBuilder::default();
        let count = 2 * u64::try_from(TILES_MAX).unwrap() + 1;
        for index in 0..count * 256 + 9 {
            log.append(&index.to_be_bytes()).unwrap();
        }
        let files: BTreeMap<String, Vec<u8>> =
            log.cut().into_iter().map(|file| (file.path.to_string(), file.bytes)).collect();
        let root = log.checkpoint("example.org/log").unwrap().root();
        let mut tiles = TrustedTiles::open(&files, log.size(), root).unwrap();
        for tile in 0..count {
            assert_eq!(tiles.leaf(tile * 256).unwrap(), (tile * 256).to_be_bytes());
            assert!(tiles.tiles.len() <= TILES_MAX, "after tile {tile}");
        }
    }
}
