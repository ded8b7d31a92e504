//! Accepting a file that is not the ledger that was known, and putting a copy in its place. What was there before is set aside,
//! never deleted: a person may still get something out of it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use rusqlite::TransactionBehavior;

use super::super::{
    backup,
    examine::{Examined, examine},
    identity,
    live::{Live, beside},
    migrate, now, open_read_only, open_up_to_date, private_folder,
};
use crate::{
    Adoption, AdoptionTerms, Guard, LedgerError, Schema,
    identity::{Found, Witness, install},
    time::StoreTime,
    upkeep::Restored,
};

/// Accepts what is there; none if it is the ledger that was known.
pub(crate) fn adopt(path: &Path, guard: &Guard, terms: &AdoptionTerms) -> Result<Option<Adoption>, LedgerError> {
    let _alone = alone(path)?;
    let examined = examine(path, guard, true)?;
    accept(path, guard, &examined, terms)
}

/// Puts a copy in place and accepts it.
pub(crate) fn restore(path: &Path, guard: &Guard, from: &Path, terms: &AdoptionTerms) -> Result<Restored, LedgerError> {
    let _alone = alone(path)?;
    let part = beside(path, ".restoring");
    remove(&part)?;
    copy_sound(from, &part)?;
    let before = examine(path, guard, true)?;
    let set_aside = set_aside(path, "before-restore")?;
    let placed = backup::keep(&part, path);
    placed.map_err(|error| LedgerError::Backup { path: path.to_owned(), reason: error.to_string() })?;
    let after = examine(path, guard, true)?;
    // Without a file outside, the ledger that was there knows how far it had come.
    let witness = match (after.witness, before.found) {
        (Witness::Nothing, Found::Ledger { position: Some(position), .. }) => {
            Witness::Known { position, ended_cleanly: false }
        }
        (witness, _) => witness,
    };
    let adoption = accept(path, guard, &Examined { witness, ..after }, terms)?;
    Ok(Restored { set_aside, adoption })
}

fn accept(
    path: &Path,
    guard: &Guard,
    examined: &Examined,
    terms: &AdoptionTerms,
) -> Result<Option<Adoption>, LedgerError> {
    let refused = match examined.judge(path, guard) {
        Ok(()) => return Ok(None),
        Err(LedgerError::Refused(refused)) => refused,
        Err(error) => return Err(error),
    };
    let there = match &examined.found {
        Found::Ledger { position, .. } => position.as_ref(),
        Found::Missing | Found::Empty | Found::Unreadable(_) => {
            set_aside(path, "lost")?;
            None
        }
    };
    // SQLite drops the end of a log that does not fit.
    if examined.log.as_ref().is_some_and(|log| log.stop.is_some()) {
        let log = beside(path, "-wal");
        fs::copy(&log, numbered(&log, "damaged")).map_err(|source| LedgerError::Folder { path: log, source })?;
    }
    let (mut connection, _) = open_up_to_date(path, Schema::Migrate)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let now_ms = now(&transaction, &StoreTime::default())?.now_ms;
    let ledger_id = identity::new_id(&transaction)?;
    let adoption = Adoption::of(terms, refused.to_string(), (refused.known.as_ref(), there), ledger_id, now_ms);
    identity::adopt(&transaction, &adoption)?;
    identity::advance(&transaction, now_ms)?;
    let position = identity::position(&transaction)?;
    transaction.commit()?;
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    if let Some(file) = &guard.position_file {
        install(file, &position).map_err(|source| LedgerError::PositionFile { path: file.clone(), source })?;
    }
    Ok(Some(adoption))
}

fn alone(path: &Path) -> Result<Live, LedgerError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        private_folder(folder).map_err(|source| LedgerError::Folder { path: folder.to_owned(), source })?;
    }
    Live::alone(path)
}

/// Copies a ledger that is one, is sound and is not newer than this servanda.
fn copy_sound(from: &Path, to: &Path) -> Result<(), LedgerError> {
    let failed = |reason: String| LedgerError::Backup { path: to.to_owned(), reason };
    let source = open_read_only(from)?;
    if migrate::check(&source)? == 0 {
        return Err(failed(format!("`{}` holds no ledger", from.display())));
    }
    let found: String = source.query_row("pragma quick_check(1)", [], |row| row.get(0))?;
    if found != "ok" {
        return Err(failed(format!("`{}` is damaged: {found}", from.display())));
    }
    backup::copy(&source, to)
}

/// Renames the ledger and its log; where the ledger is now, if there was one.
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
    (1..1_000).map(name).find(|name| !name.exists()).unwrap_or_else(|| name(1_000))
}

/// Whether there was something to rename.
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
