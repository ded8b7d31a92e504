//! `.servanda`, the folder with the gateway's own files, and the other files that it keeps beside the configuration. A repository may
//! contain them, so links to them are refused, and permissions of others are taken away and reported.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Component, Path, PathBuf},
};

use servanda_files::{self as files, ModeRepair};
use servanda_vault::KEY_FILE;

/// The folder for the gateway's own files, beside the configuration.
pub const STATE_FOLDER: &str = ".servanda";

/// How many entries of the folder are checked.
const ENTRIES_MAX: usize = 1_000;
/// Prefixes of the names of our files in the folder.
const OURS: [&str; 3] = ["ledger.", "secrets.", "connections."];

/// Why the gateway's own files cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateFolderError {
    /// One is reached through a link.
    #[error("{0}")]
    Linked(io::Error),
    /// Other users can use one, and that cannot be changed.
    #[error("others can use `{}`, and that cannot be changed: {source}", path.display())]
    Exposed {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Creates a folder of ours below `root`, and its parents. An existing folder stays as it is; a link is refused.
pub fn make(root: &Path, folder: &Path) -> io::Result<()> {
    files::require_unlinked(root, folder)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Refuses a state folder that is a link, and removes other users' permissions from the folder and our files in it, except the key. What
/// was removed is added to `repaired`, also if it fails afterwards.
pub fn guard(root: &Path, repaired: &mut Vec<ModeRepair>) -> Result<(), StateFolderError> {
    require_own(root, Path::new(STATE_FOLDER), &root.join(STATE_FOLDER))?;
    // Other users may already have copied a key that they could read, so repairing its mode would hide the problem. The key is refused when
    // it is needed, and `doctor` says so.
    for ModeRepair { path, .. } in exposed(root).into_iter().filter(|exposed| !is_key(&exposed.path)) {
        let repair = files::restrict_to_owner(&path).map_err(|source| StateFolderError::Exposed { path, source })?;
        repaired.extend(repair);
    }
    Ok(())
}

/// The folder and our files in it, if other users have permissions on them.
pub fn exposed(root: &Path) -> Vec<ModeRepair> {
    let folder = if root == Path::new(".") { PathBuf::from(STATE_FOLDER) } else { root.join(STATE_FOLDER) };
    if files::refuse_link(&folder).is_err() {
        return Vec::new();
    }
    let is_ours = |name: &str| OURS.iter().any(|start| name.starts_with(start));
    let entries = fs::read_dir(&folder).into_iter().flatten().take(ENTRIES_MAX).flatten();
    let mut inside: Vec<PathBuf> =
        entries.filter(|entry| entry.file_name().to_str().is_some_and(is_ours)).map(|entry| entry.path()).collect();
    inside.sort();
    let exposed = |path: PathBuf| files::open_to_others(&path).map(|mode| ModeRepair { path, mode });
    [folder].into_iter().chain(inside).filter_map(exposed).collect()
}

/// Whether the path is that of the store's key.
pub fn is_key(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == KEY_FILE)
}

/// Refuses a file inside the configuration's folder that is reached through a link. A file that the configuration names elsewhere is
/// accepted, because the operator chose it.
pub fn require_own(root: &Path, named: &Path, file: &Path) -> Result<(), StateFolderError> {
    if is_elsewhere(named) {
        return Ok(());
    }
    files::require_unlinked(root, file).map_err(StateFolderError::Linked)
}

/// Whether a path of the configuration leads out of its folder without a link.
pub fn is_elsewhere(named: &Path) -> bool {
    named.is_absolute() || named.components().any(|part| part == Component::ParentDir)
}
