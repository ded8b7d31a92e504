//! Reads the ledger: one call by its id, lists of calls, or a note. It never writes, and works beside a running
//! gateway. This module chooses between the stores; each store reads its own rows.

mod indexed;

use std::{
    ops::ControlFlow,
    path::Path,
    sync::{Mutex, PoisonError},
};

use servanda_audit::{leaf::LeafSalts, tile::TilePath};
use servanda_contract::CallRecord;
use servanda_effects::{Note, NoteKind, PortFuture};

use self::indexed::IndexedSearch;
use crate::{
    LedgerError,
    call_list::{CallCollector, CallFilter, CallList, CallListCursor, LOOKED_AT_MAX, PAGE_MAX, ReceivedRange},
    call_query::{CallQuery, QuarantinedBody},
    postgres::PostgresReader,
    sqlite::SqliteReader,
};

/// Reads records; never writes.
#[derive(Debug)]
pub struct LedgerReader {
    source: ReaderBackend,
}

#[derive(Debug)]
enum ReaderBackend {
    File(Mutex<SqliteReader>),
    Server(PostgresReader),
}

impl LedgerReader {
    /// Opens the file of an existing ledger.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self::from_sqlite(SqliteReader::open(path)?))
    }

    /// Connects to an existing ledger in PostgreSQL.
    pub fn connect(url: &str) -> PortFuture<'_, Result<Self, LedgerError>> {
        Box::pin(async move { Ok(Self::from_postgres(PostgresReader::connect(url).await?)) })
    }

    pub(crate) fn from_sqlite(file: SqliteReader) -> Self {
        Self { source: ReaderBackend::File(Mutex::new(file)) }
    }

    pub(crate) fn from_postgres(server: PostgresReader) -> Self {
        Self { source: ReaderBackend::Server(server) }
    }

    /// The records that a query matches; more than one if several ids begin with the given text.
    pub fn find<'a>(
        &'a self,
        query: &'a CallQuery,
        limit: u32,
    ) -> PortFuture<'a, Result<Vec<CallRecord>, LedgerError>> {
        Box::pin(async move {
            match &self.source {
                ReaderBackend::File(file) => in_file(file).find(query, limit),
                ReaderBackend::Server(server) => server.find(query, limit).await,
            }
        })
    }

    /// The calls that a filter matches, newest first, including those under way.
    pub fn calls<'a>(&'a self, filter: &'a CallFilter, limit: u32) -> PortFuture<'a, Result<CallList, LedgerError>> {
        Box::pin(async move {
            let mut collected = CallCollector::new(filter, limit, &self.under_way().await?);
            let stopped_at_ms = match self.search(filter, &mut collected).await? {
                IndexedSearch::Done { stopped_at_ms } => stopped_at_ms,
                IndexedSearch::NotByIndex => self.walk(filter.span(), &mut |record| collected.take(&record)).await?,
            };
            Ok(collected.finish(stopped_at_ms))
        })
    }

    /// The same for a short time until now: it is read as a whole, which takes less than asking the index.
    pub fn recent_calls<'a>(
        &'a self,
        filter: &'a CallFilter,
        limit: u32,
    ) -> PortFuture<'a, Result<CallList, LedgerError>> {
        Box::pin(async move {
            let mut collected = CallCollector::new(filter, limit, &self.under_way().await?);
            let stopped_at_ms = self.walk(filter.span(), &mut |record| collected.take(&record)).await?;
            Ok(collected.finish(stopped_at_ms))
        })
    }

    /// Passes on the records of calls that have ended, newest first, until it is told to stop or has passed on
    /// [`LOOKED_AT_MAX`].
    pub fn ended<'a>(
        &'a self,
        filter: &'a CallFilter,
        visit: &'a mut (dyn FnMut(CallRecord) -> ControlFlow<()> + Send),
    ) -> PortFuture<'a, Result<Option<u64>, LedgerError>> {
        Box::pin(async move {
            let mut only = |record: CallRecord| {
                if filter.matches(&record) { visit(record) } else { ControlFlow::Continue(()) }
            };
            self.walk(filter.span(), &mut only).await
        })
    }

    /// Returns when the oldest record that it passed on was received, if there may be more.
    async fn walk(
        &self,
        span: ReceivedRange,
        visit: &mut (dyn FnMut(CallRecord) -> ControlFlow<()> + Send),
    ) -> Result<Option<u64>, LedgerError> {
        let (mut below, mut looked_at) = (CallListCursor::start(span), 0);
        while looked_at < LOOKED_AT_MAX {
            let page = self.page(span, &below).await?;
            let is_last = page.len() < usize::try_from(PAGE_MAX).unwrap_or(usize::MAX);
            if let Some((place, _)) = page.last() {
                below = place.clone();
            }
            for (_, record) in page {
                if visit(record).is_break() {
                    return Ok(None);
                }
            }
            if is_last {
                return Ok(None);
            }
            looked_at += PAGE_MAX;
        }
        Ok(Some(u64::try_from(below.received_ms).unwrap_or_default()))
    }

    async fn page(
        &self,
        span: ReceivedRange,
        below: &CallListCursor,
    ) -> Result<Vec<(CallListCursor, CallRecord)>, LedgerError> {
        match &self.source {
            ReaderBackend::File(file) => in_file(file).ended(span, below),
            ReaderBackend::Server(server) => server.ended(span, below).await,
        }
    }

    async fn under_way(&self) -> Result<Vec<CallRecord>, LedgerError> {
        match &self.source {
            ReaderBackend::File(file) => in_file(file).under_way(),
            ReaderBackend::Server(server) => server.under_way().await,
        }
    }

    /// The quarantined answer of a call, if it has one.
    pub fn quarantined<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<QuarantinedBody>, LedgerError>> {
        Box::pin(async move {
            match &self.source {
                ReaderBackend::File(file) => in_file(file).quarantined(call_id),
                ReaderBackend::Server(server) => server.quarantined(call_id).await,
            }
        })
    }

    /// The note of this kind and key, expired or not.
    pub fn note<'a>(&'a self, kind: NoteKind, key: &'a str) -> PortFuture<'a, Result<Option<Note>, LedgerError>> {
        Box::pin(async move {
            match &self.source {
                ReaderBackend::File(file) => in_file(file).note(kind, key),
                ReaderBackend::Server(server) => server.note(kind, key).await,
            }
        })
    }

    /// The signed checkpoint of the verifiable log, if one was signed.
    pub fn log_checkpoint(&self) -> PortFuture<'_, Result<Option<String>, LedgerError>> {
        Box::pin(async move {
            match &self.source {
                ReaderBackend::File(file) => in_file(file).log_checkpoint(),
                ReaderBackend::Server(server) => server.log_checkpoint().await,
            }
        })
    }

    /// What the commitments of the verifiable log are opened with, if the ledger has a log. To be shown only for what it opens, never itself.
    pub fn log_salts(&self) -> PortFuture<'_, Result<Option<LeafSalts>, LedgerError>> {
        Box::pin(async move {
            match &self.source {
                ReaderBackend::File(file) => in_file(file).log_salts(),
                ReaderBackend::Server(server) => server.log_salts().await,
            }
        })
    }

    /// A file of the verifiable log: a bundle of leaves, or a tile of hashes.
    pub fn log_file<'a>(&'a self, path: &'a TilePath) -> PortFuture<'a, Result<Option<Vec<u8>>, LedgerError>> {
        Box::pin(async move {
            match &self.source {
                ReaderBackend::File(file) => in_file(file).log_file(path),
                ReaderBackend::Server(server) => server.log_file(path).await,
            }
        })
    }

    /// How many calls there are.
    pub fn count(&self) -> PortFuture<'_, Result<i64, LedgerError>> {
        Box::pin(async move {
            match &self.source {
                ReaderBackend::File(file) => in_file(file).count(),
                ReaderBackend::Server(server) => server.count().await,
            }
        })
    }
}

/// Commands read a page or two, which is not worth another thread.
fn in_file(file: &Mutex<SqliteReader>) -> std::sync::MutexGuard<'_, SqliteReader> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
