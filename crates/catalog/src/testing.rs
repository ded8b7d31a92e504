//! What the tests of this crate share: the public corpora, read in place.

use std::path::{Path, PathBuf};

/// A file or folder beside the repository. None, with a line that says so, where it is absent.
pub(crate) fn shared(path: &str) -> Option<PathBuf> {
    let mut places = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared").join(path));
    let found = places.find(|place| place.exists());
    if found.is_none() {
        println!("skipped: ../shared/{path} is not here");
    }
    found
}
