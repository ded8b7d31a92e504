//! Maintenance of a ledger file from outside a gateway.

mod adopt;
mod probe;
mod verify;

use std::{fs, path::Path};

use super::{backup, examine, file_permissions, identity, migrate, now, open_read_only, process_lock};
use crate::{
    LedgerError, LedgerGuard, LossSettlement,
    identity::{FoundLedger, PositionFile, PositionWitness},
    report::{LedgerStatus, MigrationPlan},
    time::StoreTime,
};
pub(crate) use adopt::{adopt, restore};
pub(crate) use probe::{probe, probe_place};
pub(crate) use verify::verify;

/// The ledger's status.
pub(crate) fn status(path: &Path, guard: &LedgerGuard) -> Result<LedgerStatus, LedgerError> {
    let in_use = process_lock::is_open_for_writing(path);
    let examined = examine::examine(path, guard, !in_use)?;
    let refused = match examined.judge(path, guard) {
        Err(LedgerError::Refused(refused)) => Some(*refused),
        judged => judged.map(|()| None)?,
    };
    let (known, ended_cleanly) = match &examined.witness {
        PositionWitness::Known { position, ended_cleanly } => (Some(position.clone()), Some(*ended_cleanly)),
        PositionWitness::Nothing | PositionWitness::Unreadable(_) => (None, None),
    };
    let mut status = LedgerStatus {
        refused,
        exists: !matches!(examined.found, FoundLedger::Missing | FoundLedger::Empty),
        known,
        ended_cleanly,
        in_use: Some(in_use),
        log: examined.log,
        ..of_any(path)
    };
    if let FoundLedger::Ledger { position, .. } = examined.found {
        let connection = open_read_only(path)?;
        status.schema_version = Some(migrate::check(&connection)?);
        status.adoptions = if position.is_some() { identity::adoptions(&connection)? } else { Vec::new() };
        status.position = position;
    }
    Ok(status)
}

/// Copies the ledger to a new file.
pub(crate) fn backup(path: &Path, to: &Path) -> Result<(), LedgerError> {
    let connection = open_read_only(path)?;
    migrate::check(&connection)?;
    backup::copy(&connection, to)
}

/// Settles the lost windows.
pub(crate) fn settle(path: &Path, guard: &LedgerGuard, settling: &LossSettlement) -> Result<usize, LedgerError> {
    write(path, guard, |transaction, now_ms| identity::settle(transaction, settling, now_ms))
}

/// What a migration would do.
pub(crate) fn plan(path: &Path, guard: &LedgerGuard) -> Result<MigrationPlan, LedgerError> {
    let examined = examine::examine(path, guard, !process_lock::is_open_for_writing(path))?;
    examined.judge(path, guard)?;
    let needed = migrate::newest();
    if !matches!(examined.found, FoundLedger::Ledger { .. }) {
        return Ok(MigrationPlan { found: 0, needed, backup: None, backup_bytes: None });
    }
    let found = migrate::check(&open_read_only(path)?)?;
    let backup = (found < needed).then(|| backup::before_migration(path, found));
    let backup_bytes = backup.as_ref().and_then(|_| fs::metadata(path).ok()).map(|file| file.len());
    Ok(MigrationPlan { found, needed, backup, backup_bytes })
}

/// Runs one transaction, possibly beside a running gateway, on a ledger that is the known one and up to date.
fn write<T>(
    path: &Path,
    guard: &LedgerGuard,
    change: impl FnOnce(&rusqlite::Connection, u64) -> Result<T, LedgerError>,
) -> Result<T, LedgerError> {
    let live = process_lock::LedgerProcessLock::enter(path)?;
    examine::examine(path, guard, live.is_alone())?.judge(path, guard)?;
    let mut connection = open_existing(path)?;
    migrate::require(&connection)?;
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let now_ms = now(&transaction, &StoreTime::default())?.now_ms;
    let changed = change(&transaction, now_ms)?;
    let position = identity::advance(&transaction, now_ms)?;
    let before = identity::position(&transaction)?;
    transaction.commit()?;
    if let Some(file) = &guard.position_file {
        let failed = |source| LedgerError::PositionFile { path: file.clone(), source };
        PositionFile::open(file, &before).map_err(failed)?.advance(position, now_ms);
    }
    drop(live);
    Ok(changed)
}

/// Opens an existing file for writing, and never makes one.
fn open_existing(path: &Path) -> Result<rusqlite::Connection, LedgerError> {
    use rusqlite::OpenFlags;
    let failed = |source| LedgerError::Open { path: path.to_owned(), source };
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = rusqlite::Connection::open_with_flags(path, flags).map_err(failed)?;
    super::configure(&connection).map_err(failed)?;
    Ok(connection)
}

/// The parts of the status that any file has.
fn of_any(path: &Path) -> LedgerStatus {
    let bytes = |path: &Path| fs::metadata(path).ok().map(|file| file.len());
    LedgerStatus {
        refused: None,
        exists: false,
        schema_version: None,
        schema_needed: migrate::newest(),
        position: None,
        known: None,
        ended_cleanly: None,
        in_use: None,
        bytes: bytes(path),
        log_bytes: bytes(&file_permissions::beside(path, "-wal")),
        log: None,
        adoptions: Vec::new(),
    }
}
