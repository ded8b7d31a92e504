//! The ledger's files: regular, through no link beside it, and their owner's alone, because they say who called what. New ones are made so.
//! One that others could use is mended, and the caller is told, because they may have read it.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use servanda_files::Mended;

use super::live::beside;
use crate::LedgerError;

/// What a state folder is called: nobody else has anything in it.
const STATE_FOLDER: &str = ".servanda";
/// What SQLite and we keep beside the ledger, by the ends of their names.
const BESIDE: [&str; 4] = ["-wal", "-shm", "-journal", "-lock"];

/// Makes a folder that only its owner may look into, and those above it. Of what is there, only a state folder is mended.
pub(super) fn folder(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).recursive(true).create(folder)?;
    if is_state_folder(folder) {
        servanda_files::mend(folder)?.iter().for_each(tell);
    }
    Ok(())
}

/// Makes an empty file that only its owner may read; SQLite makes its other files alike. One that cannot be made is complained about by
/// whoever opens it.
pub(super) fn file(path: &Path) {
    let _ = fs::OpenOptions::new().mode(0o600).write(true).create_new(true).open(path);
}

/// Refuses a ledger that is no regular file, and links and pipes in the place of the files beside it: SQLite and we would read and write
/// what they lead to, or wait for ever. The ledger itself may be a link where an operator says so; who reads the configuration judges that.
pub(super) fn require_plain(path: &Path) -> Result<(), LedgerError> {
    let unusable = |path: &Path, source: io::Error| LedgerError::NotPlain { path: path.to_owned(), source };
    for ending in BESIDE {
        let file = beside(path, ending);
        servanda_files::refuse_link(&file).map_err(|source| unusable(&file, source))?;
        require_regular(&file).map_err(|source| unusable(&file, source))?;
    }
    require_regular(path).map_err(|source| unusable(path, source))
}

/// Takes from others what they may do with the files of a ledger, and with its folder if that is a state folder. Says which those were.
/// Links and pipes in their place are refused.
pub fn make_private(path: &Path) -> Result<Vec<Mended>, LedgerError> {
    require_plain(path)?;
    let failed = |source| LedgerError::OpenToOthers { path: path.to_owned(), source };
    let mut mended = Vec::new();
    let state = path.parent().filter(|folder| is_state_folder(folder));
    let beside = BESIDE.iter().map(|ending| beside(path, ending));
    for file in state.map(Path::to_owned).into_iter().chain([path.to_owned()]).chain(beside) {
        mended.extend(servanda_files::mend(&file).map_err(failed)?);
    }
    Ok(mended)
}

/// For whoever opens a ledger without asking who could read it.
pub(super) fn tell(mended: &Mended) {
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
        // Whoever opens it says why it cannot be had.
        Ok(_) | Err(_) => Ok(()),
    }
}
