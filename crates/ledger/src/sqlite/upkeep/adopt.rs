//! Accepts a file that is not the known ledger, and replaces the ledger with a copy. The previous files are set
//! aside, never deleted: a person may still recover something from them.

use std::{
    fs, io,
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

use rusqlite::TransactionBehavior;

use super::super::{
    backup,
    examine::{SqliteExamination, examine},
    file_permissions::{self, beside},
    identity, migrate, now, open_read_only, open_up_to_date,
    process_lock::LedgerProcessLock,
};
use crate::{
    Adoption, AdoptionRequest, LedgerError, LedgerGuard, LedgerSchemaPolicy,
    identity::{FoundLedger, PositionWitness, install},
    report::LedgerRestoration,
    time::StoreTime,
};

/// Accepts what is there; none if it is the known ledger.
pub(crate) fn adopt(
    path: &Path,
    guard: &LedgerGuard,
    terms: &AdoptionRequest,
) -> Result<LedgerRestoration, LedgerError> {
    let _alone = alone(path)?;
    let examined = examine(path, guard, true)?;
    accept(path, guard, &examined, (terms, &[]))
}

/// Replaces the ledger with a copy and accepts it.
pub(crate) fn restore(
    path: &Path,
    guard: &LedgerGuard,
    from: &Path,
    terms: &AdoptionRequest,
) -> Result<LedgerRestoration, LedgerError> {
    let _alone = alone(path)?;
    let part = beside(path, ".restoring");
    remove(&part)?;
    copy_sound(from, &part)?;
    let before = examine(path, guard, true)?;
    let accepted = accepted_before(path, &before.found);
    let set_aside = set_aside(path, "before-restore")?;
    let placed = backup::keep(&part, path);
    placed.map_err(|error| LedgerError::Backup { path: path.to_owned(), reason: error.to_string() })?;
    let after = examine(path, guard, true)?;
    // Without a position file, the ledger that was there says how far it had come.
    let witness = match (after.witness, before.found) {
        (PositionWitness::Nothing, FoundLedger::Ledger { position: Some(position), .. }) => {
            PositionWitness::Known { position, ended_cleanly: false }
        }
        (witness, _) => witness,
    };
    let accepted = accept(path, guard, &SqliteExamination { witness, ..after }, (terms, &accepted))?;
    Ok(LedgerRestoration { set_aside, ..accepted })
}

/// The acceptances stored in the ledger that is replaced, as far as they can be read.
fn accepted_before(path: &Path, found: &FoundLedger) -> Vec<Adoption> {
    match found {
        FoundLedger::Ledger { position: Some(_), .. } => {
            open_read_only(path).and_then(|connection| identity::adoptions(&connection)).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

fn accept(
    path: &Path,
    guard: &LedgerGuard,
    examined: &SqliteExamination,
    (terms, accepted): (&AdoptionRequest, &[Adoption]),
) -> Result<LedgerRestoration, LedgerError> {
    let refused = match examined.judge(path, guard) {
        Ok(()) => return Ok(LedgerRestoration { set_aside: None, adoption: None }),
        Err(LedgerError::Refused(refused)) => refused,
        Err(error) => return Err(error),
    };
    let (there, set_aside) = match &examined.found {
        FoundLedger::Ledger { position, .. } => (position.as_ref(), None),
        FoundLedger::Missing | FoundLedger::Empty | FoundLedger::Unreadable(_) => (None, set_aside(path, "lost")?),
    };
    // SQLite drops the end of a log whose checksums do not fit.
    if examined.log.as_ref().is_some_and(|log| log.stop.is_some()) {
        let log = beside(path, "-wal");
        copy_new(&log, &numbered(&log, "damaged")).map_err(|source| LedgerError::Folder { path: log, source })?;
    }
    let (mut connection, _) = open_up_to_date(path, LedgerSchemaPolicy::Migrate)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now_ms = now(&transaction, &StoreTime::default())?.now_ms;
    let ledger_id = identity::new_id(&transaction)?;
    let positions = (refused.known.as_ref(), there);
    let adoption = Adoption::new(terms, refused.to_string(), positions, accepted, ledger_id, now_ms);
    identity::adopt(&transaction, &adoption)?;
    identity::advance(&transaction, now_ms)?;
    let position = identity::position(&transaction)?;
    transaction.commit()?;
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    if let Some(file) = &guard.position_file {
        install(file, &position).map_err(|source| LedgerError::PositionFile { path: file.clone(), source })?;
    }
    Ok(LedgerRestoration { set_aside, adoption: Some(adoption) })
}

fn alone(path: &Path) -> Result<LedgerProcessLock, LedgerError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        file_permissions::folder(folder).map_err(|source| LedgerError::Folder { path: folder.to_owned(), source })?;
    }
    LedgerProcessLock::alone(path)
}

/// Copies a ledger, if the file holds one that is sound and not newer than this servanda.
fn copy_sound(from: &Path, to: &Path) -> Result<(), LedgerError> {
    let failed = |reason: String| LedgerError::NoCopy { path: from.to_owned(), reason };
    let unreadable = |error: rusqlite::Error| failed(error.to_string());
    let source = open_read_only(from)?;
    // Any database may have a version number, so look for the tables.
    let tables = "select count(*) from sqlite_master where type = 'table' and name in ('calls', 'effects')";
    if source.query_row(tables, [], |row| row.get::<_, i64>(0)).map_err(unreadable)? < 2 {
        return Err(failed("it holds no ledger".to_owned()));
    }
    migrate::check(&source)?;
    let found: String = source.query_row("pragma quick_check(1)", [], |row| row.get(0)).map_err(unreadable)?;
    if found != "ok" {
        return Err(failed(format!("it is damaged: {found}")));
    }
    backup::copy(&source, to)
}

/// Renames the ledger and its log. Returns where the ledger is now, if there was one.
fn set_aside(path: &Path, why: &str) -> Result<Option<PathBuf>, LedgerError> {
    let aside = numbered(path, why);
    let moved = rename(path, &aside)?;
    rename(&beside(path, "-wal"), &beside(&aside, "-wal"))?;
    remove(&beside(path, "-shm"))?;
    Ok(moved.then_some(aside))
}

/// A name that is not taken.
fn numbered(path: &Path, why: &str) -> PathBuf {
    let name = |number: u32| beside(path, &format!(".{why}-{number}"));
    let is_free = |name: &PathBuf| fs::symlink_metadata(name).is_err();
    (1..1_000).map(name).find(is_free).unwrap_or_else(|| name(1_000))
}

/// Copies to a new file that only its owner may use. An existing file or link in its place is an error.
fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    let mut copy = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
    io::copy(&mut servanda_files::open(from)?, &mut copy)?;
    copy.sync_all()
}

/// Renames a file. Returns whether it existed.
fn rename(from: &Path, to: &Path) -> Result<bool, LedgerError> {
    match fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(source) => Err(LedgerError::Folder { path: from.to_owned(), source }),
    }
}

fn remove(path: &Path) -> Result<(), LedgerError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(LedgerError::Folder { path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}
