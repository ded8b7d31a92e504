//! The right edge of a tree in tiles: the hashes of each level's last, partial tile. It is all that is needed to append leaves and to know the
//! root, it is small, and the tree's size says how many hashes it has. What a store keeps of a log beside its leaves and full tiles.
//!
//! Deliberately not here: the leaves, and where tiles are kept.

use crate::{
    merkle::{Frontier, HASH_BYTES, TreeHash},
    tile::{TILE_HASHES, TILE_HEIGHT, TILE_LEVELS, TileKind, TilePath, root_of},
};

/// The right edge of a tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeEdge {
    frontier: Frontier,
    // INVARIANT: each level has the hashes of its last, partial tile, fewer than 256.
    levels: [Vec<TreeHash>; TILE_LEVELS as usize],
}

/// A tile that became full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullTile {
    /// Its address.
    pub path: TilePath,
    /// Its 256 hashes.
    pub hashes: Vec<TreeHash>,
}

/// The bytes are not the edge of a tree of that size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the right edge of the tree of {size} leaves is damaged")]
pub struct DamagedEdge {
    /// The leaves of the tree.
    pub size: u64,
}

impl TreeEdge {
    /// The leaves of the tree.
    pub const fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// The root of the tree.
    pub fn root(&self) -> TreeHash {
        self.frontier.root()
    }

    /// The tree's frontier.
    pub const fn frontier(&self) -> &Frontier {
        &self.frontier
    }

    /// The hashes of the partial tile of a level.
    pub fn hashes(&self, level: u8) -> &[TreeHash] {
        self.levels.get(usize::from(level)).map_or(&[], Vec::as_slice)
    }

    /// Appends a leaf's hash. Returns the tiles that became full, the lowest first.
    pub fn append(&mut self, leaf: TreeHash) -> Vec<FullTile> {
        let (mut index, mut hash, mut full) = (self.frontier.size(), leaf, Vec::new());
        self.frontier.append(leaf);
        for (level, hashes) in (0_u8..).zip(&mut self.levels) {
            hashes.push(hash);
            if hashes.len() < usize::from(TILE_HASHES) {
                break;
            }
            let tile = std::mem::take(hashes);
            index /= u64::from(TILE_HASHES);
            hash = root_of(&tile);
            let path = TilePath::new(TileKind::Hashes { level }, index, TILE_HASHES);
            full.extend(path.map(|path| FullTile { path, hashes: tile }));
        }
        full
    }

    /// Its hashes one after the other, the lowest level first.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.levels.iter().flatten().flat_map(TreeHash::as_bytes).copied().collect()
    }

    /// The edge of a tree of that size.
    pub fn from_bytes(size: u64, bytes: &[u8]) -> Result<Self, DamagedEdge> {
        let damaged = DamagedEdge { size };
        let (hashes, rest) = bytes.as_chunks::<HASH_BYTES>();
        let (mut left, mut edge) = (hashes.iter(), Self::default());
        for (level, hashes) in (0_u8..).zip(&mut edge.levels) {
            let partial = TilePath::partial_of_tree(TileKind::Hashes { level }, size);
            let width = partial.map_or(0, |path| usize::from(path.width()));
            hashes.extend(left.by_ref().take(width).copied().map(TreeHash::new));
            if hashes.len() != width {
                return Err(damaged);
            }
        }
        // The largest subtrees come first.
        for (level, hashes) in edge.levels.iter().enumerate().rev() {
            let height = u32::try_from(level).map_err(|_| damaged)? * TILE_HEIGHT;
            if !hashes.iter().all(|hash| edge.frontier.append_subtree(height, *hash)) {
                return Err(damaged);
            }
        }
        if left.next().is_some() || !rest.is_empty() || edge.size() != size { Err(damaged) } else { Ok(edge) }
    }
}
