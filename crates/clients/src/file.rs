//! A client's file on disk: read as it is, written whole or not at all, with its permissions, and only if it is still what was read.
//! Before anything is written, the old file is kept beside it. A link is followed and shown if it stays inside the folder that the file
//! belongs to (the working folder, or the user's home); a link that leads out of it is refused.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, ErrorKind, Write as _},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown},
    },
    path::{Path, PathBuf},
};

use servanda_contract::Timestamp;
use servanda_files as files;
use sha2::{Digest as _, Sha256};

use crate::ClientFolders;

/// How much is read. `~/.claude.json` keeps a history beside its servers.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// The part of a backup's name between the file's name and the time.
const BACKUP_MARK: &str = ".servanda-backup-";
/// The mode of a new file: readable by all users who can reach the folder, as an editor would create it.
const NEW_MODE: u32 = 0o644;

/// A file, as it was read.
#[derive(Debug)]
pub struct ClientFile {
    /// Its full path, links not followed.
    pub path: PathBuf,
    /// The path as people write it in the working folder.
    pub shown: String,
    /// The path with links resolved.
    real: PathBuf,
    /// Whether the path contains links.
    is_linked: bool,
    /// The text; none if the file does not exist.
    pub text: Option<String>,
}

/// Why a client's file cannot be read or written. Paths are as people write them in the working folder, unless they are full paths.
#[derive(Debug, thiserror::Error)]
pub enum ClientFileError {
    /// It is a link to a file that does not exist.
    #[error("`{file}` is a link that leads nowhere: {source}")]
    BrokenLink {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// A link leads out of the folder that it belongs to.
    #[error("`{file}` leads out of `{}`, to `{}`", root.display(), target.display())]
    LeadsOut {
        /// The file.
        file: String,
        /// The folder that it belongs to.
        root: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// It cannot be read.
    #[error("cannot read `{file}`: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        source: io::Error,
    },
    /// It was changed since it was read.
    #[error("`{file}` was changed meanwhile; nothing was written")]
    Changed {
        /// The file.
        file: String,
    },
    /// Its permissions forbid to write it.
    #[error("`{file}` is read-only; nothing was written")]
    ReadOnly {
        /// The file.
        file: String,
    },
    /// It, its folder or its backup cannot be written or removed.
    #[error("cannot {action} `{}`: {source}", path.display())]
    Failed {
        /// What was to be done: keep, make, write or remove.
        action: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Its full path or its folder cannot be found out.
    #[error("{0}")]
    Path(#[from] io::Error),
}

impl ClientFile {
    /// Reads a file; a missing file is not an error.
    pub fn read(path: &Path) -> Result<Self, ClientFileError> {
        let path = std::path::absolute(path)?;
        let shown = shown(&path);
        let real = real(&path).map_err(|source| ClientFileError::BrokenLink { file: shown.clone(), source })?;
        let root = root(&path);
        let canonical = root.canonicalize()?;
        if !real.starts_with(&canonical) {
            return Err(ClientFileError::LeadsOut { file: shown, root, target: real });
        }
        let is_linked = path.strip_prefix(&root).is_ok_and(|below| canonical.join(below) != real);
        let text = read_text(&real).map_err(|source| ClientFileError::Unreadable { file: shown.clone(), source })?;
        Ok(Self { path, shown, real, is_linked, text })
    }

    /// Copies the text that was read to a backup beside the file; returns the backup's path.
    pub fn keep(&self, now: Timestamp) -> Result<Option<PathBuf>, ClientFileError> {
        let Some(text) = &self.text else { return Ok(None) };
        let time: String = now.to_string().chars().filter(|character| !"-:".contains(*character)).collect();
        let mut name = self.path.file_name().map_or_else(OsString::new, OsString::from);
        name.push(format!("{BACKUP_MARK}{time}"));
        let backup = self.path.with_file_name(name);
        let mode = fs::metadata(&self.real).map_or(0o600, |there| there.permissions().mode() & 0o777);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&backup)
            .map_err(|source| failed("keep", &backup, source))?;
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(|source| failed("keep", &backup, source))?;
        Ok(Some(backup))
    }

    /// Whether a path has the form of a backup that [`Self::keep`] makes for this file.
    pub(crate) fn has_backup(&self, path: &Path) -> bool {
        let own = self.path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let name = path.file_name().map(OsStr::as_bytes).unwrap_or_default();
        let time = name.strip_prefix(own).and_then(|rest| rest.strip_prefix(BACKUP_MARK.as_bytes()));
        let is_time =
            |time: &[u8]| !time.is_empty() && time.iter().all(|byte| byte.is_ascii_alphanumeric() || *byte == b'.');
        path == self.path.with_file_name(OsStr::from_bytes(name)) && time.is_some_and(is_time)
    }

    /// Whether the file is in a folder, or in one below it.
    pub(crate) fn is_in(&self, folder: &Path) -> bool {
        self.real.ancestors().skip(1).any(|above| above == folder)
    }

    /// Fails if the file changed since it was read: the change that the user saw would not be the change that is written.
    pub fn check_unchanged(&self) -> Result<(), ClientFileError> {
        match read_text(&self.real) {
            Ok(now) if now == self.text => Ok(()),
            _ => Err(ClientFileError::Changed { file: self.shown.clone() }),
        }
    }

    /// Replaces the text, whole or not at all. Returns the folders that had to be created.
    pub fn write(&self, text: &str) -> Result<Vec<PathBuf>, ClientFileError> {
        self.check_unchanged()?;
        let there = fs::metadata(&self.real).ok();
        if there.as_ref().is_some_and(|there| there.permissions().readonly()) {
            return Err(ClientFileError::ReadOnly { file: self.shown.clone() });
        }
        let folder = self.real.parent().unwrap_or(Path::new("/"));
        let made = make_folders(folder).map_err(|source| failed("make", folder, source))?;
        let mut name = OsString::from(".");
        name.push(self.real.file_name().unwrap_or_default());
        name.push(format!(".servanda-{}", std::process::id()));
        let fresh = folder.join(name);
        let written = write_fresh(&fresh, text, there.as_ref()).and_then(|()| fs::rename(&fresh, &self.real));
        if let Err(source) = written {
            // The new file is ours and has not replaced the client's yet.
            let _ = fs::remove_file(&fresh);
            return Err(failed("write", &self.path, source));
        }
        // Syncing the folder makes the new name durable. A failure here is ignored, because the text is already safe.
        let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
        Ok(made)
    }

    /// Removes the file, and those of the given folders that are empty afterwards.
    pub fn remove(&self, made: &[PathBuf]) -> Result<(), ClientFileError> {
        self.check_unchanged()?;
        fs::remove_file(&self.real).map_err(|source| failed("remove", &self.path, source))?;
        for folder in made.iter().rev() {
            // A folder that is not empty stays.
            let _ = fs::remove_dir(folder);
        }
        Ok(())
    }

    /// The file that is written, for the question to the user. If there is a link, its target is named too.
    pub fn target(&self) -> String {
        if self.is_linked { format!("{}, a link to {}", self.shown, shown(&self.real)) } else { self.shown.clone() }
    }

    /// The digest of the text that was read.
    pub fn digest(&self) -> Option<String> {
        self.text.as_deref().map(digest)
    }
}

/// A path as people write it in the working folder.
pub fn shown(path: &Path) -> String {
    ClientFolders::from_environment().map_or_else(|| path.display().to_string(), |around| around.shown(path))
}

/// A digest of a text.
pub fn digest(text: &str) -> String {
    servanda_contract::digest::hex(&Sha256::digest(text.as_bytes()))
}

fn read_text(file: &Path) -> io::Result<Option<String>> {
    match files::read_text(file, FILE_BYTES_MAX) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// The path with links resolved, also for a file that does not exist yet.
fn real(path: &Path) -> io::Result<PathBuf> {
    let there = path.ancestors().find(|part| fs::symlink_metadata(part).is_ok()).unwrap_or(Path::new("/"));
    let real = there.canonicalize()?;
    Ok(match path.strip_prefix(there) {
        Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
        _ => real,
    })
}

/// The folder that a file belongs to, out of which no link may lead: the working folder or the user's home, whichever is closer. A file
/// that a person names elsewhere belongs to the folder it is in.
fn root(path: &Path) -> PathBuf {
    let around = ClientFolders::from_environment();
    let around = around.iter().flat_map(|around| [&around.here, &around.home]);
    let closest = around.filter(|folder| path.starts_with(folder)).max_by_key(|folder| folder.components().count());
    let own = || path.ancestors().skip(1).find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    closest.map_or_else(|| own().to_owned(), Clone::clone)
}

/// A new file with the text, the permissions and the owner of the one it will replace.
fn write_fresh(fresh: &Path, text: &str, there: Option<&fs::Metadata>) -> io::Result<()> {
    let mode = if there.is_some() { 0o600 } else { NEW_MODE };
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(fresh)?;
    file.write_all(text.as_bytes())?;
    if let Some(there) = there {
        let own = file.metadata()?;
        if (own.uid(), own.gid()) != (there.uid(), there.gid()) {
            fchown(&file, Some(there.uid()), Some(there.gid()))?;
        }
        file.set_permissions(there.permissions())?;
    }
    file.sync_all()
}

/// Creates a folder and its parents; returns those that were created, the outermost first.
fn make_folders(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let missing: Vec<_> = folder.ancestors().take_while(|folder| !folder.exists()).map(Path::to_owned).collect();
    fs::create_dir_all(folder)?;
    Ok(missing.into_iter().rev().collect())
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> ClientFileError {
    ClientFileError::Failed { action, path: path.to_owned(), source }
}
