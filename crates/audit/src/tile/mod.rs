//! The files of a log (C2SP tlog-tiles): their addresses, bundles of entries, and reading that believes nothing but a signed root.
//!
//! Deliberately not here: where the files are. A [`TileSource`] reads a folder, a server or memory.

mod address;
mod bundle;
mod source;
mod trusted;

pub use address::{ParseTilePathError, TILE_HASHES, TILE_HEIGHT, TILE_LEVELS, TileKind, TilePath};
pub use bundle::{BUNDLE_BYTES_MAX, BundleFault, LEAF_BYTES_MAX, append_to_bundle, leaves_of_bundle};
pub use source::{CHECKPOINT_PATH, TileFault, TileSource};
pub(crate) use source::{read_bundle, read_hashes};
pub use trusted::TrustedTiles;
pub(crate) use trusted::root_of;
