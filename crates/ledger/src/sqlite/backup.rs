//! Copies of a ledger: complete, of one moment, and durable, even while a gateway writes. Copying the files is
//! not enough, because the latest commits are in the write-ahead log.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use rusqlite::{Connection, params};

use super::file_permissions::beside;
use crate::LedgerError;

/// Backups from before migrations that can exist side by side.
const NAMES_MAX: u32 = 100;

/// Copies the ledger of a connection to a new file.
pub(super) fn copy(connection: &Connection, to: &Path) -> Result<(), LedgerError> {
    let failed = |source: io::Error| LedgerError::Backup { path: to.to_owned(), reason: source.to_string() };
    if to.exists() {
        let reason = "a file of that name exists already".to_owned();
        return Err(LedgerError::Backup { path: to.to_owned(), reason });
    }
    let part = beside(to, ".part");
    match fs::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    // Only its owner may read it, because it says who called what.
    super::file_permissions::file(&part);
    let copied = connection.execute("vacuum into ?1", params![part.display().to_string()]);
    let copied = copied.map_err(|error| LedgerError::Backup { path: to.to_owned(), reason: error.to_string() });
    let kept = copied.and_then(|_| keep(&part, to).map_err(failed));
    if kept.is_err() {
        let _ = fs::remove_file(&part);
    }
    kept
}

/// A free name beside the ledger for its backup before a migration.
pub(super) fn before_migration(ledger: &Path, version: u32) -> PathBuf {
    let name = |again: u32| {
        let again = if again == 0 { String::new() } else { format!("-{again}") };
        beside(ledger, &format!(".version-{version}{again}.backup"))
    };
    (0..NAMES_MAX).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(NAMES_MAX))
}

/// Makes a finished file durable under its name.
pub(super) fn keep(part: &Path, to: &Path) -> io::Result<()> {
    File::open(part)?.sync_all()?;
    fs::rename(part, to)?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}
