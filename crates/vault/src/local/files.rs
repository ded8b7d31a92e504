//! The files of the store: private, replaced as a whole, one writer at a time.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use servanda_authority::Secret;
use zeroize::Zeroizing;

use crate::SecretStoreError;

/// Most bytes of the key file.
const KEY_FILE_BYTES_MAX: u64 = 1_024;

/// Tells a file from the one that replaced it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    length: u64,
    modified: (i64, i64),
}

/// While this lives, no other process writes.
#[derive(Debug)]
pub(super) struct StoreLock(File);

/// The stamp of the present file; none if there is no file.
pub(super) fn stamp(path: &Path) -> Option<FileStamp> {
    let metadata = fs::symlink_metadata(path).ok()?;
    let modified = (metadata.mtime(), metadata.mtime_nsec());
    Some(FileStamp { inode: metadata.ino(), length: metadata.len(), modified })
}

impl StoreLock {
    /// Waits for the lock.
    pub(super) fn take(path: &Path) -> Result<Self, SecretStoreError> {
        let file = servanda_files::open_own_or_new(path).map_err(|source| fault(path, "cannot be opened", source))?;
        file.lock().map_err(|source| fault(path, "cannot be locked", source))?;
        Ok(Self(file))
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

/// Opens a file of the store for reading; none if it does not exist. A link in place of the file or its folder is refused: a repository may
/// contain a link to another user's file.
pub(super) fn open(path: &Path) -> Result<Option<File>, SecretStoreError> {
    let unlinked = path.parent().map_or(Ok(()), servanda_files::refuse_link);
    match unlinked.and_then(|()| servanda_files::open_own(path)) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(fault(path, "cannot be read", source)),
    }
}

/// Creates a folder that only its owner can open. An existing folder stays as it is; a link in its place is refused.
pub(super) fn make_folder(folder: &Path) -> Result<(), SecretStoreError> {
    servanda_files::refuse_link(folder).map_err(|source| fault(folder, "cannot be used", source))?;
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|source| fault(folder, "cannot be created", source))
}

/// Makes git ignore a folder with a key in it, unless it already has a `.gitignore`: a project is easily committed as a whole.
pub(super) fn leave_out_of_git(folder: &Path) -> Result<(), SecretStoreError> {
    let path = folder.join(".gitignore");
    match OpenOptions::new().create_new(true).write(true).mode(0o600).open(&path) {
        Ok(mut file) => file.write_all(b"*\n").map_err(|source| fault(&path, "cannot be written", source)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(source) => Err(fault(&path, "cannot be written", source)),
    }
}

/// Replaces a file with these bytes, or leaves it as it was. The caller holds the lock.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> Result<(), SecretStoreError> {
    let temporary = path.with_extension("tmp");
    let written = (|| {
        // A file that a dead process left there is not needed.
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().create_new(true).write(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // Syncing the folder makes the new name durable.
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    })();
    written.map_err(|source| fault(path, "cannot be written", source))
}

/// Reads a file that only its owner may read; none if there is no file.
pub(super) fn read_private(path: &Path) -> Result<Option<Secret>, SecretStoreError> {
    let Some(file) = open(path)? else { return Ok(None) };
    let metadata = file.metadata().map_err(|source| fault(path, "cannot be read", source))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(SecretStoreError::Exposed { path: path.to_owned() });
    }
    let mut bytes = Zeroizing::new(Vec::with_capacity(128));
    file.take(KEY_FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(|source| fault(path, "cannot be read", source))?;
    Ok(Some(Secret::new(&**bytes)))
}

pub(super) fn fault(path: &Path, what: &'static str, source: io::Error) -> SecretStoreError {
    SecretStoreError::Io { path: path.to_owned(), what, source }
}
