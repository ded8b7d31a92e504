//! A log that grows: leaves go in, files and the next checkpoint's text come out. What a sequencer uses.
//!
//! Deliberately not here: writing the files, signing, and the order in which leaves arrive. The files of a cut have to be stored before
//! its checkpoint is signed, because a signed checkpoint promises that they exist.

use crate::{
    checkpoint::{Checkpoint, CheckpointFault},
    merkle::{Frontier, HASH_BYTES, TreeHash},
    tile::{
        BundleFault, TILE_HASHES, TileFault, TileKind, TilePath, TileSource, TrustedTiles, append_to_bundle, root_of,
    },
};

/// Bytes of finished files that may wait for the next cut.
pub const PENDING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A log's right edge, and the files that are finished since the last cut.
#[derive(Debug, Default)]
pub struct LogBuilder {
    frontier: Frontier,
    /// The size at the last cut.
    cut_size: u64,
    // INVARIANT: each level has the hashes of its last, partial tile, fewer than 256; the bundle has as many leaves as level 0.
    levels: [Vec<TreeHash>; TILE_LEVELS],
    bundle: Vec<u8>,
    finished: Vec<LogFile>,
    finished_bytes: usize,
}

/// As many as a tree of 64-bit size has.
const TILE_LEVELS: usize = 8;

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFile {
    /// Its address.
    pub path: TilePath,
    /// What it contains.
    pub bytes: Vec<u8>,
}

/// Why a leaf was not appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendFault {
    /// The leaf is too large.
    #[error(transparent)]
    Leaf(#[from] BundleFault),
    /// Too much waits for the next cut.
    #[error("{PENDING_BYTES_MAX} bytes of the log wait to be stored; cut before more is appended")]
    Pending,
}

impl LogBuilder {
    /// Continues a log from its files and the checkpoint that was signed last. Its right edge is checked against that checkpoint.
    pub fn resume<S: TileSource + ?Sized>(source: &S, checkpoint: &Checkpoint) -> Result<Self, TileFault> {
        let size = checkpoint.size();
        let mut tiles = TrustedTiles::open(source, size, checkpoint.root())?;
        let mut resumed = Self { frontier: tiles.frontier().clone(), cut_size: size, ..Self::default() };
        for (level, hashes) in (0_u8..).zip(&mut resumed.levels) {
            if let Some(path) = TilePath::partial_of_tree(TileKind::Hashes { level }, size) {
                *hashes = tiles.tile(level, path.index())?.to_vec();
            }
        }
        if let Some(path) = TilePath::partial_of_tree(TileKind::Entries, size) {
            for leaf in tiles.bundle(path.index())? {
                append_to_bundle(&mut resumed.bundle, &leaf).map_err(|fault| TileFault::Bundle { path, fault })?;
            }
        }
        Ok(resumed)
    }

    /// The leaves of the log, with those since the last cut.
    pub const fn size(&self) -> u64 {
        self.frontier.size()
    }

    /// Appends a leaf and returns its index.
    pub fn append(&mut self, leaf: &[u8]) -> Result<u64, AppendFault> {
        if self.finished_bytes + self.bundle.len() >= PENDING_BYTES_MAX {
            return Err(AppendFault::Pending);
        }
        append_to_bundle(&mut self.bundle, leaf)?;
        let index = self.frontier.size();
        let hash = TreeHash::of_leaf(leaf);
        self.frontier.append(hash);
        self.grow(index, hash);
        Ok(index)
    }

    /// The files that are new since the last cut: every one that became full, and the partial ones of the tree as it is now. Store
    /// them, then sign the checkpoint.
    pub fn cut(&mut self) -> Vec<LogFile> {
        let size = self.size();
        let mut files = std::mem::take(&mut self.finished);
        self.finished_bytes = 0;
        if size > self.cut_size {
            let bundle = TilePath::partial_of_tree(TileKind::Entries, size);
            files.extend(bundle.map(|path| LogFile { path, bytes: self.bundle.clone() }));
            for (level, hashes) in (0_u8..).zip(&self.levels) {
                let kind = TileKind::Hashes { level };
                // A level that has no more hashes than at the last cut has its file already.
                let path = TilePath::partial_of_tree(kind, size)
                    .filter(|path| Some(*path) != TilePath::partial_of_tree(kind, self.cut_size));
                files.extend(path.map(|path| LogFile { path, bytes: bytes_of(hashes) }));
            }
        }
        self.cut_size = size;
        files
    }

    /// The text to sign for the leaves so far.
    pub fn checkpoint(&self, origin: &str) -> Result<Checkpoint, CheckpointFault> {
        Checkpoint::new(origin, self.size(), self.frontier.root())
    }

    /// Adds the hash of the leaf `index` to its tile, and the hash of each tile that becomes full to its parent.
    fn grow(&mut self, index: u64, hash: TreeHash) {
        let (mut hash, mut index) = (hash, index);
        for (level, hashes) in (0_u8..).zip(&mut self.levels) {
            hashes.push(hash);
            if hashes.len() < usize::from(TILE_HASHES) {
                return;
            }
            let full = std::mem::take(hashes);
            index /= u64::from(TILE_HASHES);
            if level == 0 {
                let bundle = std::mem::take(&mut self.bundle);
                self.finished_bytes += bundle.len();
                let path = TilePath::new(TileKind::Entries, index, TILE_HASHES);
                self.finished.extend(path.map(|path| LogFile { path, bytes: bundle }));
            }
            let path = TilePath::new(TileKind::Hashes { level }, index, TILE_HASHES);
            self.finished_bytes += full.len() * HASH_BYTES;
            self.finished.extend(path.map(|path| LogFile { path, bytes: bytes_of(&full) }));
            hash = root_of(&full);
        }
    }
}

fn bytes_of(hashes: &[TreeHash]) -> Vec<u8> {
    hashes.iter().flat_map(TreeHash::as_bytes).copied().collect()
}
