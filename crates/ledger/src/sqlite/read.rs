//! Reading calls and notes from the file. Read-only, and works beside a running gateway.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use servanda_audit::{leaf::LeafSalts, tile::TilePath};
use servanda_contract::{CallRecord, Timestamp};
use servanda_effects::{
    Note, NoteKind,
    call_history::{HistoryPage, HistoryQuery},
};

use super::{audit_log, dictionary::SqliteDictionaryLookup, history, history::stored, migrate, open_read_only};
use crate::{
    LedgerError,
    call_index::{CallIndexBatch, Term},
    call_list::{CallListCursor, PAGE_MAX, ReceivedRange, UNDER_WAY_MAX, newest},
    call_query::{CallQuery, QuarantinedBody},
    codec::{signed, unsigned},
};

/// The record of a finished call.
pub(super) fn call(connection: &Connection, call_id: &str) -> Result<Option<CallRecord>, LedgerError> {
    let mut statement = connection.prepare_cached("select call_id, record, body from calls where call_id = ?1")?;
    let found = statement.query_row(params![call_id], stored).optional()?;
    found.map(|stored| SqliteDictionaryLookup::default().decode(connection, &stored)).transpose()
}

/// Reads records of a file.
#[derive(Debug)]
pub(crate) struct SqliteReader {
    connection: Connection,
    lookup: SqliteDictionaryLookup,
}

impl SqliteReader {
    pub(crate) fn open(path: &Path) -> Result<Self, LedgerError> {
        let connection = open_read_only(path)?;
        migrate::require(&connection)?;
        Ok(Self { connection, lookup: SqliteDictionaryLookup::default() })
    }

    pub(crate) fn log_checkpoint(&self) -> Result<Option<String>, LedgerError> {
        audit_log::checkpoint(&self.connection)
    }

    pub(crate) fn log_salts(&self) -> Result<Option<LeafSalts>, LedgerError> {
        audit_log::known_salts(&self.connection)
    }

    pub(crate) fn log_file(&self, path: &TilePath) -> Result<Option<Vec<u8>>, LedgerError> {
        audit_log::file(&self.connection, path)
    }

    pub(crate) fn find(&self, query: &CallQuery, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        let CallQuery::Id(id) = query else {
            let under_way = self.under_way()?;
            let ended = self.records(include_str!("../../sql/sqlite/latest_calls.sql"), params![limit])?;
            return Ok(newest(under_way, ended, limit));
        };
        self.records(include_str!("../../sql/sqlite/calls_of_id.sql"), params![id, limit])
    }

    /// A page of calls that have ended.
    pub(crate) fn ended(
        &self,
        span: ReceivedRange,
        below: &CallListCursor,
    ) -> Result<Vec<(CallListCursor, CallRecord)>, LedgerError> {
        let CallListCursor { received_ms, call_id } = below;
        let page = params![span.since_ms, received_ms, call_id, PAGE_MAX];
        let records = self.records(include_str!("../../sql/sqlite/ended_calls.sql"), page)?;
        Ok(records.into_iter().map(|record| (CallListCursor::after_call(&record), record)).collect())
    }

    /// The calls that are under way.
    pub(crate) fn under_way(&self) -> Result<Vec<CallRecord>, LedgerError> {
        self.records(include_str!("../../sql/sqlite/calls_under_way.sql"), params![UNDER_WAY_MAX])
    }

    fn records(&self, sql: &str, params: impl rusqlite::Params) -> Result<Vec<CallRecord>, LedgerError> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, stored)?;
        rows.map(|row| self.lookup.decode(&self.connection, &row?)).collect()
    }

    /// What the index of calls does not have yet, if that is not too much.
    pub(crate) fn pending_index(&self) -> Result<Option<CallIndexBatch>, LedgerError> {
        history::pending(&self.connection)
    }

    /// A page of calls that have ended, by the index and by what it does not have yet.
    pub(crate) fn history_page(
        &self,
        query: &HistoryQuery,
        pending: &CallIndexBatch,
    ) -> Result<HistoryPage, LedgerError> {
        history::list_with(&self.connection, query, pending)
    }

    pub(crate) fn first_span(&self, term: Term) -> Result<Option<i64>, LedgerError> {
        history::first_span(&self.connection, term)
    }

    pub(crate) fn next_tenant(&self, from: &[u8]) -> Result<Option<Vec<u8>>, LedgerError> {
        history::next_tenant(&self.connection, from)
    }

    pub(crate) fn quarantined(&self, call_id: &str) -> Result<Option<QuarantinedBody>, LedgerError> {
        let sql = "select bytes_total, body from quarantine where call_id = ?1";
        let row = self.connection.query_row(sql, params![call_id], |row| {
            Ok(QuarantinedBody { bytes_total: row.get(0)?, body: row.get(1)? })
        });
        Ok(row.optional()?)
    }

    pub(crate) fn note(&self, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
        note(&self.connection, kind, key)
    }

    pub(crate) fn count(&self) -> Result<i64, LedgerError> {
        Ok(self.connection.query_row("select count(*) from all_calls", [], |row| row.get(0))?)
    }
}

/// The note of this kind and key, expired or not.
pub(super) fn note(connection: &Connection, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
    let mut statement =
        connection.prepare_cached("select value, expires_ms from notes where kind = ?1 and key = ?2")?;
    let row = statement.query_row(params![kind.as_str(), key], |row| {
        let expires_ms: Option<i64> = row.get(1)?;
        let expires_at = expires_ms.map(|ms| Timestamp::from_unix_ms(unsigned(ms)));
        Ok(Note { kind, key: key.to_owned(), value: row.get(0)?, expires_at })
    });
    Ok(row.optional()?)
}

/// Notes of this kind after a key, in the order of their keys.
pub(super) fn notes(
    connection: &Connection,
    kind: NoteKind,
    after: &str,
    limit: u32,
    now: Timestamp,
) -> Result<Vec<Note>, LedgerError> {
    let mut statement = connection.prepare_cached(include_str!("../../sql/sqlite/list_notes.sql"))?;
    let rows = statement.query_map(params![kind.as_str(), after, signed(now.unix_ms()), limit], |row| {
        let expires_ms: Option<i64> = row.get(2)?;
        let expires_at = expires_ms.map(|ms| Timestamp::from_unix_ms(unsigned(ms)));
        Ok(Note { kind, key: row.get(0)?, value: row.get(1)?, expires_at })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
