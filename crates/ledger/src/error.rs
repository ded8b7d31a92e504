//! Why the ledger cannot be used.

use std::path::PathBuf;

use servanda_contract::faults::InjectedFault;
use servanda_effects::JournalError;
use tokio_postgres::error::SqlState;

use crate::{identity::RefusedLedger, tls_failure::TlsFailure};

/// SQLite wrote something, and the system could not confirm that it is on disk.
const SYNC_FAILED: i32 = rusqlite::ffi::SQLITE_IOERR_FSYNC;

/// Why the ledger cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The file cannot be opened or is not a database.
    #[error("cannot open the ledger `{path}`: {source}")]
    Open {
        /// Which file.
        path: PathBuf,
        /// SQLite's reason.
        source: rusqlite::Error,
    },
    /// The folder cannot be made.
    #[error("cannot make the ledger's folder `{path}`: {source}")]
    Folder {
        /// Which folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Other users can read the ledger, and its permissions cannot be changed.
    #[error(
        "others can read the ledger `{path}`, and that cannot be changed: {source}; have its owner run `chmod 600`"
    )]
    OpenToOthers {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// One of its files is a link, a pipe or something else that is not a regular file.
    #[error("cannot use the ledger's file `{path}`: {source}")]
    NotPlain {
        /// Which file.
        path: PathBuf,
        /// What it is.
        source: std::io::Error,
    },
    /// A newer Servanda wrote it.
    #[error("the ledger has schema version {found}, this servanda knows up to {known}: use the newer servanda")]
    Newer {
        /// In the database.
        found: u32,
        /// Known here.
        known: u32,
    },
    /// An earlier Servanda wrote it.
    #[error("the ledger has schema version {found}, and this servanda needs version {needed}")]
    Older {
        /// In the database.
        found: u32,
        /// Needed here.
        needed: u32,
    },
    /// It is not the ledger that the position file knows, or a part of it is missing.
    #[error("{0}")]
    Refused(Box<RefusedLedger>),
    /// The position file cannot be written.
    #[error("cannot write the ledger's position file `{path}`: {source}")]
    PositionFile {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Another process has it open for writing.
    #[error("the ledger `{path}` is in use by another process")]
    InUse {
        /// Which file.
        path: PathBuf,
    },
    /// Nothing can be written where it is.
    #[error("the ledger `{path}` cannot be written to: {source}")]
    NotWritable {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A file cannot replace the ledger, because it is not a copy of one.
    #[error("`{path}` cannot be put in the ledger's place: {reason}")]
    NoCopy {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A copy could not be made.
    #[error("cannot copy the ledger to `{path}`: {reason}")]
    Backup {
        /// Where to.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// This store cannot do it by itself. The text says how to do it with the database's own tools.
    #[error("{0}")]
    NotHere(&'static str),
    /// A statement failed.
    #[error("the ledger failed: {0}")]
    Sql(#[from] rusqlite::Error),
    /// A stored record cannot be read.
    #[error("the record of `{call_id}` cannot be read: {reason}")]
    Record {
        /// The call of the record.
        call_id: String,
        /// Why.
        reason: String,
    },
    /// A newer Servanda wrote a record.
    #[error(
        "the record of `{call_id}` has encoding {found}, this servanda knows up to {known}: use the newer servanda"
    )]
    RecordNewer {
        /// The call of the record.
        call_id: String,
        /// In the record.
        found: u8,
        /// Known here.
        known: u8,
    },
    /// A stored effect cannot be read, or changed after it was read.
    #[error("the effect `{effect_id}` cannot be used: {reason}")]
    Effect {
        /// Which.
        effect_id: String,
        /// Why.
        reason: String,
    },
    /// A stored ticket cannot be read or written.
    #[error("the ticket `{ticket_id}` cannot be used: {reason}")]
    Ticket {
        /// Which.
        ticket_id: String,
        /// Why.
        reason: String,
    },
    /// The stored state of a budget cannot be read.
    #[error("the books of budgets cannot be read at `{key}`: {reason}")]
    Books {
        /// Which account or hold.
        key: String,
        /// Why.
        reason: String,
    },
    /// A leaf of the verifiable log cannot be written.
    #[error("the log's leaf about `{about}` cannot be written: {reason}")]
    Leaf {
        /// What it is about.
        about: String,
        /// Why.
        reason: String,
    },
    /// The verifiable log cannot be read or extended.
    #[error("the verifiable log is damaged: {0}; run `servanda ledger verify`")]
    Log(String),
    /// The file was deleted or replaced while it was in use.
    #[error(
        "the ledger `{path}` was deleted or replaced while in use: stop the gateway, put the ledger back, and start it again"
    )]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// The writer thread could not be started.
    #[error("cannot start the ledger's writer: {0}")]
    Thread(std::io::Error),
    /// The database URL cannot be used.
    #[error("the ledger's database URL cannot be used: {0}")]
    Url(String),
    /// PostgreSQL cannot be reached, or cannot keep a ledger.
    #[error("cannot use the ledger's database at {server}: {reason}")]
    Connect {
        /// Which one, without the password.
        server: String,
        /// Why.
        reason: String,
    },
    /// The TLS connection to PostgreSQL failed.
    #[error("cannot use the ledger's database at {server}: {failure}")]
    Tls {
        /// Which one, without the password.
        server: String,
        /// Why.
        failure: TlsFailure,
    },
    /// PostgreSQL refused a statement, or the connection was lost.
    #[error("the ledger's database failed: {}", server_message(.0))]
    Server(#[from] tokio_postgres::Error),
    /// PostgreSQL took too long. Whether it carried out the statement is unknown.
    #[error("the ledger's database did not answer within {0} ms; it is unknown whether it carried out the statement")]
    Silent(u64),
    /// A trial injected this failure.
    #[error(transparent)]
    Fault(#[from] InjectedFault),
}

impl LedgerError {
    /// What to do next, if the kind of error alone says it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Tls { failure, .. } => Some(failure.hint()),
            _ => None,
        }
    }

    /// Whether another process holds the file.
    pub(crate) fn is_busy(&self) -> bool {
        let busy = [rusqlite::ErrorCode::DatabaseBusy, rusqlite::ErrorCode::DatabaseLocked];
        matches!(self, Self::Sql(error) if error.sqlite_error_code().is_some_and(|code| busy.contains(&code)))
    }

    /// Whether the store could have written nothing at all, whatever the content. If not, the content is at
    /// fault.
    pub(crate) fn is_store_failure(&self) -> bool {
        match self {
            Self::Record { .. }
            | Self::RecordNewer { .. }
            | Self::Effect { .. }
            | Self::Ticket { .. }
            | Self::Books { .. }
            | Self::Leaf { .. }
            | Self::Log(_) => false,
            Self::Sql(error) => error.sqlite_error_code() != Some(rusqlite::ErrorCode::ConstraintViolation),
            // Data, integrity, program limits.
            Self::Server(error) => {
                !error.code().is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.code().starts_with(class)))
            }
            _ => true,
        }
    }

    /// Whether the database rolled everything back because of another transaction. The same transaction may
    /// simply be retried.
    pub(crate) fn is_contention(&self) -> bool {
        let undone = [&SqlState::T_R_DEADLOCK_DETECTED, &SqlState::T_R_SERIALIZATION_FAILURE];
        matches!(self, Self::Server(error) if error.code().is_some_and(|code| undone.contains(&code)))
    }

    /// Whether there is no room left.
    pub(crate) fn is_out_of_space(&self) -> bool {
        match self {
            Self::Sql(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            Self::Server(error) => error.code() == Some(&SqlState::DISK_FULL),
            _ => false,
        }
    }

    /// Whether a row that should be new exists already.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// The error for the caller. It says whether the change may have been made in spite of the error.
    pub(crate) fn to_journal_error(&self) -> JournalError {
        match self {
            doubtful if doubtful.leaves_doubt() => JournalError::in_doubt(self.to_string()),
            of_the_store if of_the_store.is_store_failure() => JournalError::new(self.to_string()),
            _ => JournalError::bad_content(self.to_string()),
        }
    }

    /// Whether the change may have been made in spite of the error.
    fn leaves_doubt(&self) -> bool {
        match self {
            Self::Server(error) => error.as_db_error().is_none() || self.is_connection_failure(),
            Self::Fault(InjectedFault(point)) => *point == "ledger.after_commit",
            Self::Silent(_) => true,
            // A commit whose sync failed may still be in the file.
            Self::Sql(error) => error.sqlite_error().is_some_and(|error| error.extended_code == SYNC_FAILED),
            _ => false,
        }
    }

    /// Whether the connection cannot be used any more.
    pub(crate) fn is_connection_failure(&self) -> bool {
        match self {
            Self::Server(error) => {
                let fatal = |class: &str| error.code().is_some_and(|code| code.code().starts_with(class));
                error.is_closed() || error.as_db_error().is_none() || fatal("57P") || fatal("08") || fatal("25")
            }
            Self::Silent(_) | Self::Connect { .. } | Self::Tls { .. } | Self::Fault(_) => true,
            _ => false,
        }
    }
}

/// The server's own message; the driver alone only says that there was an error.
pub(crate) fn server_message(error: &tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", answer.message(), answer.code().code());
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
