//! Durable state. The only crate with SQL; statements live in `sql/`.
//!
//! Today it keeps the record of every call in an embedded SQLite database. It decides nothing: what a record says is the
//! engine's business, when a call may be sent is the fence's.

mod migrate;
mod notes;
mod read;
mod writer;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use rusqlite::{Connection, OpenFlags};
use servanda_contract::{CallRecord, Timestamp};
use servanda_gates::{Journal, JournalError, Note, NoteKind, Notebook, PortFuture};

use notes::NoteReader;
pub use read::{CallQuery, CallSummary, Quarantined, Reader};
use writer::{Write, Writer};

/// The embedded ledger: one file, one writer thread, group commit.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    writer: Writer,
    notes: NoteReader,
}

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
    /// A newer Servanda wrote it.
    #[error("the ledger has schema version {found}, this servanda knows up to {known}: use the newer servanda")]
    Newer {
        /// In the file.
        found: u32,
        /// Known here.
        known: u32,
    },
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
    /// The file was deleted or replaced while it was in use.
    #[error("the ledger `{path}` was deleted or replaced while in use: restart the gateway")]
    Gone {
        /// Where it was.
        path: PathBuf,
    },
    /// The writer thread could not be started.
    #[error("cannot start the ledger's writer: {0}")]
    Thread(std::io::Error),
}

impl LedgerError {
    /// Whether another process holds the file.
    fn is_busy(&self) -> bool {
        let busy = [rusqlite::ErrorCode::DatabaseBusy, rusqlite::ErrorCode::DatabaseLocked];
        matches!(self, Self::Sql(error) if error.sqlite_error_code().is_some_and(|code| busy.contains(&code)))
    }

    /// Whether no record could have been written, whatever it says.
    fn is_of_the_store(&self) -> bool {
        !matches!(self, Self::Record { .. })
            && !matches!(self, Self::Sql(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::ConstraintViolation))
    }
}

impl Ledger {
    /// Opens the ledger for writing, making it or bringing it up to date first.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private_folder(folder).map_err(|source| LedgerError::Folder { path: folder.to_owned(), source })?;
        }
        private_file(path);
        let mut connection =
            Connection::open(path).map_err(|source| LedgerError::Open { path: path.to_owned(), source })?;
        configure(&connection).map_err(|source| LedgerError::Open { path: path.to_owned(), source })?;
        migrate::to_newest(&mut connection)?;
        let notes = NoteReader::open(path)?;
        Ok(Self { path: path.to_owned(), writer: Writer::start(connection, path)?, notes })
    }

    /// Waits until everything handed in so far is durable, then stops the writer.
    pub async fn close(&self) {
        self.writer.close().await;
    }

    /// Forgets the notes that may be forgotten by now.
    pub async fn forget_expired(&self, now: Timestamp) -> Result<(), JournalError> {
        self.writer.write(Write::Forgetting { now }, true).await
    }

    /// How many records could not be kept since the start.
    pub fn lost_count(&self) -> u64 {
        self.writer.lost_count()
    }

    /// A reader of the same file.
    pub fn reader(&self) -> Result<Reader, LedgerError> {
        Reader::open(&self.path)
    }
}

impl Ledger {
    /// Puts the record of a call that is about to be dispatched where a crash cannot lose it, then returns.
    pub async fn dispatching(&self, record: CallRecord) -> Result<(), JournalError> {
        self.writer.write(Write::Call { record: Box::new(record), quarantine: None }, true).await
    }
}

impl Journal for Ledger {
    fn finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.write(Write::Call { record: Box::new(record), quarantine }, durable))
    }
}

impl Notebook for Ledger {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.write(Write::Note(note), true))
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async move {
            let (kind, key) = (note.kind, note.key.clone());
            self.writer.write(Write::FirstNote(note), true).await?;
            let kept = self.notes.read(kind, &key).await?;
            kept.ok_or_else(|| JournalError(format!("a {} note that was just written is gone", kind.as_str())))
        })
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move { Ok(self.notes.read(kind, &key).await?.filter(|note| !note.is_expired(now))) })
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.write(Write::Erasure { kind, key: key.to_owned() }, true))
    }
}

/// Makes a folder that only its owner may look into, and those above it; what is there stays as it is.
fn private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

/// Makes an empty file that only its owner may read: it will say who called what. SQLite makes its other files alike. One
/// that is there stays as it is, and one that cannot be made is complained about by whoever opens it.
fn private_file(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.write(true).create_new(true).open(path);
}

/// WAL so that readers never wait, `FULL` because `NORMAL` may forget acknowledged effects when the power goes, a busy
/// wait because the command line may write to the same file as a running gateway.
fn configure(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.busy_timeout(std::time::Duration::from_secs(10))
}

fn open_read_only(path: &Path) -> Result<Connection, LedgerError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        Ok(connection)
    };
    open().map_err(|source| LedgerError::Open { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests;
