//! Reads beside the writer: on connections of its own, so that a reader never waits for a commit, and off the
//! runtime's threads. There are several connections, so that one slow read does not hold up the others.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use servanda_effects::JournalError;
use tokio::sync::Semaphore;

use super::open_read_only;
use crate::LedgerError;

/// Connections that read.
const READERS: usize = 4;

/// Reads; never writes.
#[derive(Debug)]
pub(crate) struct SqliteReadPool {
    readers: Arc<SqliteIdleConnections>,
}

#[derive(Debug)]
struct SqliteIdleConnections {
    idle: Mutex<Vec<Connection>>,
    places: Arc<Semaphore>,
}

/// A connection in use. It goes back when this is dropped, also after a panic.
struct SqliteBorrowedConnection {
    connection: Option<Connection>,
    readers: Arc<SqliteIdleConnections>,
}

impl SqliteReadPool {
    /// Opens an existing, up-to-date ledger.
    pub(crate) fn open(path: &Path) -> Result<Self, LedgerError> {
        let idle = (0..READERS).map(|_| open_read_only(path)).collect::<Result<Vec<_>, _>>()?;
        let readers = SqliteIdleConnections { idle: Mutex::new(idle), places: Arc::new(Semaphore::new(READERS)) };
        Ok(Self { readers: Arc::new(readers) })
    }

    /// Runs a query.
    pub(crate) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let closed = || JournalError::new("the ledger is closed");
        let place = Arc::clone(&self.readers.places).acquire_owned().await.map_err(|_| closed())?;
        let readers = Arc::clone(&self.readers);
        let asked = tokio::task::spawn_blocking(move || {
            let reading = SqliteBorrowedConnection::take(readers);
            let answer = reading.connection.as_ref().map(question);
            drop(reading);
            drop(place);
            answer
        });
        match asked.await {
            Ok(Some(answer)) => answer.map_err(|error| JournalError::new(error.to_string())),
            Ok(None) => Err(closed()),
            Err(error) => Err(JournalError::new(error.to_string())),
        }
    }
}

impl SqliteBorrowedConnection {
    fn take(readers: Arc<SqliteIdleConnections>) -> Self {
        let connection = readers.idle().pop();
        Self { connection, readers }
    }
}

impl Drop for SqliteBorrowedConnection {
    fn drop(&mut self) {
        self.readers.idle().extend(self.connection.take());
    }
}

impl SqliteIdleConnections {
    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
