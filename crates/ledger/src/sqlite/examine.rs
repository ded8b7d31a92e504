//! Examines what is in the ledger's place before SQLite can change anything: SQLite deletes the log of an empty
//! file, and drops the end of a log whose checksums do not fit. Read-only.

use std::{
    fs,
    io::{self, BufReader},
    path::Path,
};

use rusqlite::{Connection, ErrorCode, OptionalExtension as _};

use super::{file_permissions, identity, open_read_only, wal};
use crate::{
    LedgerError,
    identity::{FoundLedger, LedgerGuard, PositionWitness, RefusedLedger, judge},
    report::LogReport,
};

/// What was found, and what its write-ahead log holds.
#[derive(Debug)]
pub(super) struct SqliteExamination {
    pub(super) witness: PositionWitness,
    pub(super) found: FoundLedger,
    pub(super) log: Option<LogReport>,
}

/// Examines a ledger and its position file. The log is only read while no process writes it.
pub(super) fn examine(path: &Path, guard: &LedgerGuard, alone: bool) -> Result<SqliteExamination, LedgerError> {
    // First the position file, then the ledger: a commit is in the ledger before it is in the file.
    file_permissions::require_plain(path)?;
    let witness = guard.witness();
    let log = if alone { log(path) } else { None };
    Ok(SqliteExamination { witness, found: find(path)?, log })
}

impl SqliteExamination {
    /// Refuses a ledger that is not the known one.
    pub(super) fn judge(&self, path: &Path, guard: &LedgerGuard) -> Result<(), LedgerError> {
        let Err(damage) = judge(&self.witness, &self.found) else { return Ok(()) };
        let log = self.log.as_ref().filter(|log| log.stop.is_some()).map(ToString::to_string);
        let known = self.witness.position().cloned();
        let (place, position_file) =
            (path.display().to_string(), guard.position_file.clone().unwrap_or_else(|| path.to_owned()));
        Err(LedgerError::Refused(Box::new(RefusedLedger { place, position_file, damage, known, log })))
    }
}

/// What the write-ahead log holds, if there is one that can be read.
pub(super) fn log(path: &Path) -> Option<LogReport> {
    let file = servanda_files::open(&file_permissions::beside(path, "-wal")).ok()?;
    wal::read(BufReader::with_capacity(1 << 20, file)).ok()
}

fn find(path: &Path) -> Result<FoundLedger, LedgerError> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(FoundLedger::Missing),
        Err(source) => return Err(LedgerError::NotWritable { path: path.to_owned(), source }),
        Ok(file) if file.len() == 0 => return Ok(FoundLedger::Empty),
        Ok(_) => {}
    }
    match open_read_only(path).and_then(|connection| found_in(&connection)) {
        Err(LedgerError::Sql(error) | LedgerError::Open { source: error, .. }) if is_broken(&error) => {
            Ok(FoundLedger::Unreadable(error.to_string()))
        }
        found => found,
    }
}

fn found_in(connection: &Connection) -> Result<FoundLedger, LedgerError> {
    let table = "select 1 from sqlite_schema where type = 'table' and name = ?1";
    let has = |name: &str| connection.query_row(table, [name], |_| Ok(())).optional();
    if has("calls")?.is_none() {
        return Ok(FoundLedger::Empty);
    }
    let (position, former_ids) = if has("ledger_identity")?.is_some() {
        (Some(identity::position(connection)?), identity::former_ids(connection)?)
    } else {
        (None, Vec::new())
    };
    Ok(FoundLedger::Ledger { position, former_ids })
}

fn is_broken(error: &rusqlite::Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}
