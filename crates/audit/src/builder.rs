//! A log that grows: leaves go in, files and the next checkpoint's text come out. What a sequencer uses.
//!
//! Deliberately not here: writing the files, signing, and the order in which leaves arrive. The files of a cut have to be stored before
//! its checkpoint is signed, because a signed checkpoint promises that they exist.

use crate::{
    checkpoint::{Checkpoint, CheckpointFault},
    edge::{FullTile, TreeEdge},
    merkle::{HASH_BYTES, TreeHash},
    tile::{
        BundleFault, TILE_HASHES, TILE_LEVELS, TileFault, TileKind, TilePath, TileSource, TrustedTiles,
        append_to_bundle,
    },
};

/// Bytes of finished files that may wait for the next cut.
pub const PENDING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A log's right edge, and the files that are finished since the last cut.
#[derive(Debug, Default)]
pub struct LogBuilder {
    edge: TreeEdge,
    /// The size at the last cut.
    cut_size: u64,
    // INVARIANT: the bundle has as many leaves as the edge has hashes on level 0.
    bundle: Vec<u8>,
    finished: Vec<LogFile>,
    finished_bytes: usize,
}

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
        let mut hashes = Vec::new();
        for level in 0..TILE_LEVELS {
            if let Some(path) = TilePath::partial_of_tree(TileKind::Hashes { level }, size) {
                hashes.extend(bytes_of(tiles.tile(level, path.index())?));
            }
        }
        let edge = TreeEdge::from_bytes(size, &hashes).map_err(|_| TileFault::OtherRoot { size })?;
        let mut resumed = Self { edge, cut_size: size, ..Self::default() };
        if let Some(path) = TilePath::partial_of_tree(TileKind::Entries, size) {
            for leaf in tiles.bundle(path.index())? {
                append_to_bundle(&mut resumed.bundle, &leaf).map_err(|fault| TileFault::Bundle { path, fault })?;
            }
        }
        Ok(resumed)
    }

    /// The leaves of the log, with those since the last cut.
    pub const fn size(&self) -> u64 {
        self.edge.size()
    }

    /// Appends a leaf and returns its index.
    pub fn append(&mut self, leaf: &[u8]) -> Result<u64, AppendFault> {
        if self.finished_bytes + self.bundle.len() >= PENDING_BYTES_MAX {
            return Err(AppendFault::Pending);
        }
        append_to_bundle(&mut self.bundle, leaf)?;
        let index = self.edge.size();
        for tile in self.edge.append(TreeHash::of_leaf(leaf)) {
            self.finish(&tile);
        }
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
            for level in 0..TILE_LEVELS {
                let kind = TileKind::Hashes { level };
                // A level that has no more hashes than at the last cut has its file already.
                let path = TilePath::partial_of_tree(kind, size)
                    .filter(|path| Some(*path) != TilePath::partial_of_tree(kind, self.cut_size));
                files.extend(path.map(|path| LogFile { path, bytes: bytes_of(self.edge.hashes(level)) }));
            }
        }
        self.cut_size = size;
        files
    }

    /// The text to sign for the leaves so far.
    pub fn checkpoint(&self, origin: &str) -> Result<Checkpoint, CheckpointFault> {
        Checkpoint::new(origin, self.size(), self.edge.root())
    }

    fn finish(&mut self, tile: &FullTile) {
        if tile.path.kind() == (TileKind::Hashes { level: 0 }) {
            let bundle = std::mem::take(&mut self.bundle);
            self.finished_bytes += bundle.len();
            let path = TilePath::new(TileKind::Entries, tile.path.index(), TILE_HASHES);
            self.finished.extend(path.map(|path| LogFile { path, bytes: bundle }));
        }
        self.finished_bytes += tile.hashes.len() * HASH_BYTES;
        self.finished.push(LogFile { path: tile.path, bytes: bytes_of(&tile.hashes) });
    }
}

fn bytes_of(hashes: &[TreeHash]) -> Vec<u8> {
    hashes.iter().flat_map(TreeHash::as_bytes).copied().collect()
}
