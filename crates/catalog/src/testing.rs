//! What the tests of this crate share: the public corpora, read in place.

use std::path::{Path, PathBuf};

/// A file or folder beside the repository. None, with a line that says so, where it is absent.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared").join(path);
    if found.exists() {
        return Some(found);
    }
    println!("skipped: ../shared/{path} is not here");
    None
}
