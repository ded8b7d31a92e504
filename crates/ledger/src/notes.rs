//! Reading notes: on a connection of its own, so that nobody waits for the writer, and off the runtime's threads.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::{Connection, OptionalExtension as _, params};
use servanda_contract::Timestamp;
use servanda_gates::{JournalError, Note, NoteKind};

use crate::{LedgerError, open_read_only};

/// Reads notes; never writes.
#[derive(Debug)]
pub(crate) struct NoteReader {
    connection: Arc<Mutex<Connection>>,
}

impl NoteReader {
    /// Opens an existing, up-to-date ledger.
    pub(crate) fn open(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self { connection: Arc::new(Mutex::new(open_read_only(path)?)) })
    }

    /// The note of that kind and key, expired or not.
    pub(crate) async fn read(&self, kind: NoteKind, key: &str) -> Result<Option<Note>, JournalError> {
        let (connection, key) = (Arc::clone(&self.connection), key.to_owned());
        let found = tokio::task::spawn_blocking(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            find(&connection, kind, &key)
        });
        match found.await {
            Ok(found) => found.map_err(|error| JournalError(error.to_string())),
            Err(error) => Err(JournalError(error.to_string())),
        }
    }
}

fn find(connection: &Connection, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
    let mut statement =
        connection.prepare_cached("select value, expires_ms from notes where kind = ?1 and key = ?2")?;
    let row = statement.query_row(params![kind.as_str(), key], |row| {
        let expires_ms: Option<i64> = row.get(1)?;
        let expires_at = expires_ms.map(|ms| Timestamp::from_unix_ms(u64::try_from(ms).unwrap_or_default()));
        Ok(Note { kind, key: key.to_owned(), value: row.get(0)?, expires_at })
    });
    Ok(row.optional()?)
}
