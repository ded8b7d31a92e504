//! Why the ledger cannot be used.

use std::path::PathBuf;

use servanda_contract::faults::InjectedFault;
use servanda_effects::JournalError;
use tokio_postgres::error::SqlState;

use crate::{identity::RefusedLedger, tls_failure::TlsFailure};

/// SQLite wrote something, and the system could not say that it is on the disk.
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
    /// Others can read the ledger, and its permissions cannot be changed.
    #[error(
        "others can read the ledger `{path}`, and that cannot be changed: {source}; have its owner run `chmod 600`"
    )]
    OpenToOthers {
        /// Which file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A link, a pipe or something else that is no regular file is in the place of one of its files.
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
    /// It is not the ledger that is known, or not all of it.
    #[error("{0}")]
    Refused(Box<RefusedLedger>),
    /// The file that knows how far the ledger has come cannot be written.
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
    /// A file is no copy of a ledger that could be put in its place.
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
    /// This store cannot do it by itself.
    #[error("{0}")]
    NotHere(&'static str),
    /// A statement failed.
    #[error("the ledger failed: {0}")]
    Sql(#[from] rusqlite::Error),
    /// A stored record is not one.
    #[error("the record of `{call_id}` cannot be read: {reason}")]
    Record {
        /// Whose.
        call_id: String,
        /// Why.
        reason: String,
    },
    /// A newer Servanda wrote a record.
    #[error(
        "the record of `{call_id}` has encoding {found}, this servanda knows up to {known}: use the newer servanda"
    )]
    RecordNewer {
        /// Whose.
        call_id: String,
        /// In the record.
        found: u8,
        /// Known here.
        known: u8,
    },
    /// A stored effect is not one, or not the one that was read.
    #[error("the effect `{effect_id}` cannot be used: {reason}")]
    Effect {
        /// Which.
        effect_id: String,
        /// Why.
        reason: String,
    },
    /// What is stored about a budget is not what it should be.
    #[error("the books of budgets cannot be read at `{key}`: {reason}")]
    Books {
        /// Which account or hold.
        key: String,
        /// Why.
        reason: String,
    },
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
    /// The text that says where PostgreSQL is cannot be used.
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
    /// TLS to PostgreSQL did not come about.
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
    /// PostgreSQL took too long; whether it still did it nobody knows.
    #[error("the ledger's database did not answer within {0} ms; nobody knows what it did")]
    Silent(u64),
    /// A trial let it fail.
    #[error(transparent)]
    Fault(#[from] InjectedFault),
}

impl LedgerError {
    /// What to do next, where the reason alone says it.
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

    /// Whether nothing could have been written, whatever it says; if not, what was written is at fault.
    pub(crate) fn is_store_failure(&self) -> bool {
        match self {
            Self::Record { .. } | Self::RecordNewer { .. } | Self::Effect { .. } | Self::Books { .. } => false,
            Self::Sql(error) => error.sqlite_error_code() != Some(rusqlite::ErrorCode::ConstraintViolation),
            // Data, integrity, program limits.
            Self::Server(error) => {
                !error.code().is_some_and(|code| ["22", "23", "54"].iter().any(|class| code.code().starts_with(class)))
            }
            _ => true,
        }
    }

    /// Whether the database undid everything because of somebody else's transaction: it may simply be tried again.
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

    /// Whether something is there already that was to be new.
    pub(crate) fn is_duplicate(&self) -> bool {
        matches!(self, Self::Server(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// For whoever asked: whether it may have been done all the same is part of it.
    pub(crate) fn to_journal_error(&self) -> JournalError {
        match self {
            doubtful if doubtful.leaves_doubt() => JournalError::in_doubt(self.to_string()),
            of_the_store if of_the_store.is_store_failure() => JournalError::new(self.to_string()),
            _ => JournalError::bad_content(self.to_string()),
        }
    }

    /// Whether what was asked for may have been done all the same.
    fn leaves_doubt(&self) -> bool {
        match self {
            Self::Server(error) => error.as_db_error().is_none() || self.is_connection_failure(),
            Self::Fault(InjectedFault(point)) => *point == "ledger.after_commit",
            Self::Silent(_) => true,
            // A commit whose sync failed may be in the file all the same.
            Self::Sql(error) => error.sqlite_error().is_some_and(|error| error.extended_code == SYNC_FAILED),
            _ => false,
        }
    }

    /// Whether the connection is of no use any more.
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

/// The server's own words; the driver alone only says that there was an error.
pub(crate) fn server_message(error: &tokio_postgres::Error) -> String {
    if let Some(answer) = error.as_db_error() {
        return format!("{} (SQLSTATE {})", answer.message(), answer.code().code());
    }
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
