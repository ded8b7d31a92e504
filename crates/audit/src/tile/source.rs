//! The port to a log's files, and reading them with limits. What is read here is not checked against anything yet.
//!
//! Deliberately not here: files and sockets.

use std::{collections::BTreeMap, io};

use super::{
    address::{TILE_HASHES, TilePath},
    bundle::{BUNDLE_BYTES_MAX, BundleFault, leaves_of_bundle},
};
use crate::merkle::{HASH_BYTES, TreeHash};

/// The address of the signed root.
pub const CHECKPOINT_PATH: &str = "checkpoint";

/// Reads a log's files.
pub trait TileSource {
    /// The bytes of the file at `path`, relative to the log's root; `None` if there is no such file. A file of more than
    /// `bytes_max` bytes is an error.
    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>>;
}

/// A log in memory.
impl TileSource for BTreeMap<String, Vec<u8>> {
    fn read(&self, path: &str, bytes_max: usize) -> io::Result<Option<Vec<u8>>> {
        match self.get(path) {
            Some(bytes) if bytes.len() > bytes_max => Err(io::ErrorKind::FileTooLarge.into()),
            found => Ok(found.cloned()),
        }
    }
}

/// Why a file of the log does not serve.
#[derive(Debug, thiserror::Error)]
pub enum TileFault {
    /// It could not be read.
    #[error("{path} cannot be read")]
    Unreadable {
        /// The file.
        path: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is not there.
    #[error("{path} is missing")]
    Missing {
        /// The file.
        path: TilePath,
    },
    /// Not as many bytes as its hashes have.
    #[error("{path} has {bytes} bytes, which are not its hashes")]
    Size {
        /// The tile.
        path: TilePath,
        /// Its bytes.
        bytes: usize,
    },
    /// Not a bundle of its leaves.
    #[error("{path}: {fault}")]
    Bundle {
        /// The bundle.
        path: TilePath,
        /// What is wrong.
        #[source]
        fault: BundleFault,
    },
    /// Its hashes do not lead to what is above it.
    #[error("{path} does not have the hash that its parent has for it")]
    NotInTree {
        /// The tile.
        path: TilePath,
    },
    /// The tiles at the tree's right edge do not lead to the root.
    #[error("the tiles of {size} leaves do not lead to the signed root")]
    OtherRoot {
        /// The leaves of the tree.
        size: u64,
    },
    /// A leaf is not the one that its hash stands for.
    #[error("{path}: leaf {index} does not have its hash")]
    OtherLeaf {
        /// The bundle.
        path: TilePath,
        /// The leaf.
        index: u64,
    },
    /// The tree has no such leaf or subtree.
    #[error("the tree of {size} leaves ends before {index}")]
    Outside {
        /// What was asked for.
        index: u64,
        /// The leaves of the tree.
        size: u64,
    },
}

/// The hashes of a tile. If a partial tile is gone, the full one begins with its hashes.
pub(crate) fn read_hashes<S: TileSource + ?Sized>(source: &S, path: TilePath) -> Result<Vec<TreeHash>, TileFault> {
    let (found, bytes) = read(source, path, usize::from(TILE_HASHES) * HASH_BYTES)?;
    let (hashes, rest) = bytes.as_chunks::<HASH_BYTES>();
    if hashes.len() != usize::from(found.width()) || !rest.is_empty() {
        return Err(TileFault::Size { path: found, bytes: bytes.len() });
    }
    Ok(hashes.iter().take(path.width().into()).copied().map(TreeHash::new).collect())
}

/// Hands over the leaves of a bundle.
pub(crate) fn read_bundle<S: TileSource + ?Sized>(source: &S, path: TilePath) -> Result<Vec<Vec<u8>>, TileFault> {
    let (found, bytes) = read(source, path, BUNDLE_BYTES_MAX)?;
    let leaves = leaves_of_bundle(&bytes, found.width()).map_err(|fault| TileFault::Bundle { path: found, fault })?;
    Ok(leaves.into_iter().take(path.width().into()).map(<[u8]>::to_vec).collect())
}

/// The file at `path`, or the full one with the same index.
fn read<S: TileSource + ?Sized>(
    source: &S,
    path: TilePath,
    bytes_max: usize,
) -> Result<(TilePath, Vec<u8>), TileFault> {
    for found in [path, path.full()] {
        let name = found.to_string();
        let unreadable = |error| TileFault::Unreadable { path: name.clone(), error };
        if let Some(bytes) = source.read(&name, bytes_max).map_err(unreadable)? {
            return Ok((found, bytes));
        }
    }
    Err(TileFault::Missing { path })
}
