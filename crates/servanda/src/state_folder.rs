//! `.servanda`, the folder of what the gateway keeps for itself: only its owner may look into it.

use std::{fs, io, os::unix::fs::DirBuilderExt as _, path::Path};

/// Makes a folder of ours and those above it. What is there stays as it is.
pub(crate) fn make(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}
