//! The ledger's files are regular files, the ones beside it are no links, and only their owner may use them, because they say who called
//! what. If others could use a file, its mode is mended, and the caller is told, because others may have read it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use servanda_files::ModeRepair;

use crate::LedgerError;

/// The name of a state folder. Only the gateway keeps files in it.
const STATE_FOLDER: &str = ".servanda";
/// Endings of the names of files that SQLite and we keep beside the ledger.
const BESIDE: [&str; 4] = ["-wal", "-shm", "-journal", "-lock"];

/// Makes a folder that only its owner may look into, and the folders above it. An existing folder is mended only if it is a state folder.
pub(super) fn folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    if is_state_folder(folder) {
        servanda_files::restrict_to_owner(folder)?.iter().for_each(tell);
    }
    Ok(())
}

/// Makes an empty file that only its owner may read; SQLite gives its other files the same mode. A failure is ignored here, because the
/// open that follows reports it.
pub(super) fn file(path: &Path) {
    let _ = fs::OpenOptions::new().mode(0o600).write(true).create_new(true).open(path);
}

/// Refuses a ledger that is no regular file, and links and pipes in the place of the files beside it: SQLite and we would read and write
/// the targets of the links, or wait forever. The ledger itself may be a link if the operator says so; the code that reads the
/// configuration decides that.
pub(super) fn require_plain(path: &Path) -> Result<(), LedgerError> {
    let unusable = |path: &Path, source: io::Error| LedgerError::NotPlain { path: path.to_owned(), source };
    for ending in BESIDE {
        let file = beside(path, ending);
        servanda_files::refuse_link(&file).map_err(|source| unusable(&file, source))?;
        require_regular(&file).map_err(|source| unusable(&file, source))?;
    }
    require_regular(path).map_err(|source| unusable(path, source))
}

/// Takes all permissions of others from the files of a ledger, and from its folder if that is a state folder. Returns the changed ones.
/// Links and pipes in their place are refused.
pub fn make_private(path: &Path) -> Result<Vec<ModeRepair>, LedgerError> {
    require_plain(path)?;
    let failed = |source| LedgerError::OpenToOthers { path: path.to_owned(), source };
    let mut mended = Vec::new();
    let state = path.parent().filter(|folder| is_state_folder(folder));
    let beside = BESIDE.iter().map(|ending| beside(path, ending));
    for file in state.map(Path::to_owned).into_iter().chain([path.to_owned()]).chain(beside) {
        mended.extend(servanda_files::restrict_to_owner(&file).map_err(failed)?);
    }
    Ok(mended)
}

/// A file beside the ledger, as SQLite names its own.
pub(super) fn beside(ledger: &Path, suffix: &str) -> PathBuf {
    let mut name = ledger.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Logs that others could use a file. It serves callers that open a ledger without asking what was mended.
pub(super) fn tell(mended: &ModeRepair) {
    tracing::warn!(
        path = %mended.path.display(),
        mode = format!("{:o}", mended.mode),
        "others could read what the gateway keeps for itself; now they cannot"
    );
}

fn is_state_folder(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name == STATE_FOLDER)
}

fn require_regular(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(there) if !there.is_file() => Err(io::Error::other("it is not a regular file")),
        // The open that follows reports an error.
        Ok(_) | Err(_) => Ok(()),
    }
}
