//! Reading the ledger: one call by its id, or the latest ones. Read-only, and works beside a running gateway.

use std::{
    path::Path,
    sync::{Mutex, PoisonError},
};

use servanda_contract::CallRecord;
use servanda_gates::{Note, NoteKind};

use crate::{LedgerError, postgres::ServerReader, sqlite::FileReader};

/// Reads records; never writes.
#[derive(Debug)]
pub struct Reader {
    source: Source,
}

#[derive(Debug)]
enum Source {
    File(Mutex<FileReader>),
    Server(ServerReader),
}

/// What to look for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallQuery {
    /// A call id, or the beginning of one.
    Id(String),
    /// The latest call.
    Latest,
}

/// A call in a list.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct CallSummary {
    /// The call.
    pub call_id: String,
    /// The exposed name as called.
    pub tool: String,
    /// How it ended.
    pub outcome: String,
    /// The class of the end.
    pub class: Option<String>,
    /// When, in milliseconds since the epoch.
    pub received_ms: i64,
}

/// An answer that was kept back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quarantined {
    /// How long it was.
    pub bytes_total: i64,
    /// As much of it as is kept.
    pub body: Vec<u8>,
}

impl Reader {
    /// Opens the file of an existing ledger.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self { source: Source::File(Mutex::new(FileReader::open(path)?)) })
    }

    /// Connects to an existing ledger in PostgreSQL.
    pub async fn connect(url: &str) -> Result<Self, LedgerError> {
        Ok(Self { source: Source::Server(ServerReader::connect(url).await?) })
    }

    pub(crate) fn of_server(server: ServerReader) -> Self {
        Self { source: Source::Server(server) }
    }

    /// The records a query means; more than one if the beginning of an id is not enough.
    pub async fn find(&self, query: &CallQuery, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        match &self.source {
            Source::File(file) => in_file(file).find(query, limit),
            Source::Server(server) => server.find(query, limit).await,
        }
    }

    /// The latest calls, newest first.
    pub async fn recent(&self, limit: u32) -> Result<Vec<CallSummary>, LedgerError> {
        match &self.source {
            Source::File(file) => in_file(file).recent(limit),
            Source::Server(server) => server.recent(limit).await,
        }
    }

    /// The answer of a call that was kept back, if it was.
    pub async fn quarantined(&self, call_id: &str) -> Result<Option<Quarantined>, LedgerError> {
        match &self.source {
            Source::File(file) => in_file(file).quarantined(call_id),
            Source::Server(server) => server.quarantined(call_id).await,
        }
    }

    /// The note of that kind and key, expired or not.
    pub async fn note(&self, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
        match &self.source {
            Source::File(file) => in_file(file).note(kind, key),
            Source::Server(server) => server.note(kind, key).await,
        }
    }

    /// How many calls there are.
    pub async fn count(&self) -> Result<i64, LedgerError> {
        match &self.source {
            Source::File(file) => in_file(file).count(),
            Source::Server(server) => server.count().await,
        }
    }
}

/// Commands read a page or two: not worth another thread.
fn in_file(file: &Mutex<FileReader>) -> std::sync::MutexGuard<'_, FileReader> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
