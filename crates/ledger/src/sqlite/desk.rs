//! Reading beside the writer: on a connection of its own, so that nobody waits for a commit, and off the runtime's threads.

use std::{
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use rusqlite::Connection;
use servanda_gates::JournalError;

use super::open_read_only;
use crate::LedgerError;

/// Reads; never writes.
#[derive(Debug)]
pub(super) struct Desk {
    connection: Arc<Mutex<Connection>>,
}

impl Desk {
    /// Opens an existing, up-to-date ledger.
    pub(super) fn open(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self { connection: Arc::new(Mutex::new(open_read_only(path)?)) })
    }

    /// Asks a question of the database.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let connection = Arc::clone(&self.connection);
        let asked = tokio::task::spawn_blocking(move || {
            let connection = connection.lock().unwrap_or_else(PoisonError::into_inner);
            question(&connection)
        });
        match asked.await {
            Ok(answer) => answer.map_err(|error| JournalError::new(error.to_string())),
            Err(error) => Err(JournalError::new(error.to_string())),
        }
    }
}
