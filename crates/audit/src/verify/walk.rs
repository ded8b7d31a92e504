//! The walk over all leaves: each is hashed, the tree is built again, and every stored hash is compared with it.

use super::{LeafCheck, LogFault, diagnosis::Diagnosis};
use crate::{
    checkpoint::Checkpoint,
    merkle::{Frontier, TreeHash},
    policy::TrustedCheckpoint,
    tile::{TILE_HASHES, TILE_HEIGHT, TileFault, TileKind, TilePath, TileSource, read_bundle, read_hashes, root_of},
};

/// As many as a tree of 64-bit size has.
const TILE_LEVELS: usize = 8;

/// Walks over the leaves that `signed` says there are.
///
/// A fault of the files ends the walk. An earlier checkpoint that does not fit, and an illegal leaf, are told at the end: until then the
/// cause may be a file that was changed.
pub(super) fn walk<S: TileSource + ?Sized>(
    source: &S,
    signed: &Checkpoint,
    earlier: &[TrustedCheckpoint],
    check: &mut dyn LeafCheck,
) -> Result<(), LogFault> {
    let mut walk = LogWalk {
        source,
        diagnosis: Diagnosis { source, size: signed.size(), root: signed.root() },
        earlier: EarlierTrees::new(earlier),
        frontier: Frontier::default(),
        levels: Default::default(),
        illegal: None,
    };
    walk.earlier.compare(&walk.frontier);
    let mut index = 0;
    while let Some(path) = TilePath::of_tree(TileKind::Entries, index, signed.size()) {
        walk.bundle(path, check)?;
        index += 1;
    }
    walk.finish()?;
    if walk.frontier.root() != signed.root() {
        return Err(LogFault::OtherRoot { from: walk.earlier.matched, size: signed.size() });
    }
    if let Some(size) = walk.earlier.differs {
        return Err(LogFault::Forked { size });
    }
    walk.illegal.map_or(Ok(()), Err)
}

struct LogWalk<'a, S: ?Sized> {
    source: &'a S,
    diagnosis: Diagnosis<'a, S>,
    earlier: EarlierTrees,
    frontier: Frontier,
    // INVARIANT: each level has the hashes, computed from leaves, of the tile that is not complete yet.
    levels: [Vec<TreeHash>; TILE_LEVELS],
    illegal: Option<LogFault>,
}

impl<S: TileSource + ?Sized> LogWalk<'_, S> {
    fn bundle(&mut self, path: TilePath, check: &mut dyn LeafCheck) -> Result<(), LogFault> {
        let leaves = read_bundle(self.source, path).map_err(|fault| self.diagnosis.of_bundle(fault, path))?;
        let computed: Vec<TreeHash> = leaves.iter().map(|leaf| TreeHash::of_leaf(leaf)).collect();
        if let Some(tile) = TilePath::of_tree(TileKind::Hashes { level: 0 }, path.index(), self.diagnosis.size) {
            let stored = read_hashes(self.source, tile)?;
            if stored != computed {
                return Err(self.diagnosis.of_leaves(path, tile, &computed, &stored));
            }
        }
        if self.illegal.is_none() {
            let check = |(index, leaf): (u64, &Vec<u8>)| {
                let illegal = |fault| LogFault::IllegalLeaf { leaf: index, fault };
                check.check(index, leaf).map_err(illegal).err()
            };
            self.illegal = (path.first_leaf()..).zip(&leaves).find_map(check);
        }
        self.append(path, &computed)
    }

    fn append(&mut self, path: TilePath, computed: &[TreeHash]) -> Result<(), LogFault> {
        let root = root_of(computed);
        // The root is needed after single leaves only if an earlier tree ends among them.
        let end = path.leaf_at(path.width());
        if path.is_partial() || self.earlier.has_before(end) {
            for hash in computed {
                self.frontier.append(*hash);
                self.earlier.compare(&self.frontier);
            }
        } else {
            self.frontier.append_subtree(TILE_HEIGHT, root);
            self.earlier.compare(&self.frontier);
        }
        if path.is_partial() { Ok(()) } else { self.rise(root, path.index()) }
    }

    /// Adds the root of the full tile `index` of level 0 to its parent, and so on for every parent that becomes full.
    fn rise(&mut self, root: TreeHash, index: u64) -> Result<(), LogFault> {
        let (mut root, mut index) = (root, index);
        for level in 1..TILE_LEVELS {
            let Some(hashes) = self.levels.get_mut(level) else { break };
            hashes.push(root);
            if hashes.len() < usize::from(TILE_HASHES) {
                break;
            }
            let full = std::mem::take(hashes);
            index /= u64::from(TILE_HASHES);
            self.compare(level, index, &full)?;
            root = root_of(&full);
        }
        Ok(())
    }

    /// Compares the partial tiles; that of level 0 was compared with its bundle.
    fn finish(&mut self) -> Result<(), LogFault> {
        for level in 1..TILE_LEVELS {
            let hashes = self.levels.get_mut(level).map(std::mem::take).unwrap_or_default();
            let kind = TileKind::Hashes { level: u8::try_from(level).unwrap_or(u8::MAX) };
            if let Some(path) = TilePath::partial_of_tree(kind, self.frontier.size()) {
                self.compare(level, path.index(), &hashes)?;
            }
        }
        Ok(())
    }

    fn compare(&self, level: usize, index: u64, computed: &[TreeHash]) -> Result<(), LogFault> {
        let kind = TileKind::Hashes { level: u8::try_from(level).unwrap_or(u8::MAX) };
        let outside = TileFault::Outside { index, size: self.diagnosis.size };
        let path = TilePath::of_tree(kind, index, self.diagnosis.size).ok_or(outside)?;
        let stored = read_hashes(self.source, path)?;
        let differs = (0_u16..).zip(computed.iter().zip(&stored)).find(|(_, (one, other))| one != other);
        match differs {
            None if computed.len() == stored.len() => Ok(()),
            None => Err(TileFault::Size { path, bytes: stored.len() }.into()),
            Some((position, _)) => Err(self.diagnosis.of_subtree(path, position)),
        }
    }
}

/// The roots that earlier checkpoints have, in the order of their sizes.
struct EarlierTrees {
    left: std::iter::Peekable<std::vec::IntoIter<(u64, TreeHash)>>,
    /// The largest size that fits.
    matched: u64,
    /// The smallest size that does not.
    differs: Option<u64>,
}

impl EarlierTrees {
    fn new(earlier: &[TrustedCheckpoint]) -> Self {
        let mut trees: Vec<(u64, TreeHash)> =
            earlier.iter().map(TrustedCheckpoint::checkpoint).map(|tree| (tree.size(), tree.root())).collect();
        trees.sort_unstable();
        Self { left: trees.into_iter().peekable(), matched: 0, differs: None }
    }

    /// Whether one ends before `end`.
    fn has_before(&mut self, end: u64) -> bool {
        self.left.peek().is_some_and(|(size, _)| *size < end)
    }

    fn compare(&mut self, frontier: &Frontier) {
        while let Some((size, root)) = self.left.next_if(|(size, _)| *size == frontier.size()) {
            if root != frontier.root() {
                self.differs = self.differs.or(Some(size));
            } else if self.differs.is_none() {
                self.matched = size;
            }
        }
    }
}
