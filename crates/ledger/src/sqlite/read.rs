//! Reading calls and notes from the file. Read-only, and works beside a running gateway.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use servanda_contract::{CallRecord, Timestamp};
use servanda_gates::{Note, NoteKind};

use super::{migrate, open_read_only};
use crate::{
    LedgerError,
    call_list::{Below, PAGE_MAX, Span, UNDER_WAY_MAX},
    codec::{decode_call, signed, unsigned},
    reader::{CallQuery, Quarantined},
};

const LATEST: &str = include_str!("../../sql/sqlite/latest_calls.sql");

/// The record of a finished call.
pub(super) fn call(connection: &Connection, call_id: &str) -> Result<Option<CallRecord>, LedgerError> {
    let mut statement = connection.prepare_cached("select record from calls where call_id = ?1")?;
    let found: Option<String> = statement.query_row(params![call_id], |row| row.get(0)).optional()?;
    found.map(|text| decode_call(call_id, &text)).transpose()
}

/// Reads records of a file.
#[derive(Debug)]
pub(crate) struct FileReader {
    connection: Connection,
}

impl FileReader {
    pub(crate) fn open(path: &Path) -> Result<Self, LedgerError> {
        let connection = open_read_only(path)?;
        migrate::require(&connection)?;
        Ok(Self { connection })
    }

    pub(crate) fn find(&self, query: &CallQuery, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        let of = |call_id: String, record: String| decode_call(&call_id, &record);
        let CallQuery::Id(id) = query else {
            let mut latest = self.connection.prepare(LATEST)?;
            let rows = latest.query_map(params![limit], |row| Ok((row.get(0)?, row.get(5)?)))?;
            return rows.map(|row| row.map_err(LedgerError::from).and_then(|(id, record)| of(id, record))).collect();
        };
        let sql = include_str!("../../sql/sqlite/calls_of_id.sql");
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map(params![id, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.map(|row| row.map_err(LedgerError::from).and_then(|(id, record)| of(id, record))).collect()
    }

    /// A page of calls that have ended.
    pub(crate) fn ended(&self, span: Span, below: &Below) -> Result<Vec<(Below, CallRecord)>, LedgerError> {
        let mut statement = self.connection.prepare_cached(include_str!("../../sql/sqlite/ended_calls.sql"))?;
        let Below { received_ms, call_id } = below;
        let rows = statement.query_map(params![span.since_ms, received_ms, call_id, PAGE_MAX], placed)?;
        rows.map(|row| row.map_err(LedgerError::from).and_then(decoded)).collect()
    }

    /// The calls that are under way.
    pub(crate) fn under_way(&self, span: Span) -> Result<Vec<CallRecord>, LedgerError> {
        let mut statement = self.connection.prepare_cached(include_str!("../../sql/sqlite/calls_under_way.sql"))?;
        let rows = statement.query_map(params![span.since_ms, span.until_ms, UNDER_WAY_MAX], placed)?;
        rows.map(|row| row.map_err(LedgerError::from).and_then(decoded).map(|(_, record)| record)).collect()
    }

    pub(crate) fn quarantined(&self, call_id: &str) -> Result<Option<Quarantined>, LedgerError> {
        let sql = "select bytes_total, body from quarantine where call_id = ?1";
        let row = self
            .connection
            .query_row(sql, params![call_id], |row| Ok(Quarantined { bytes_total: row.get(0)?, body: row.get(1)? }));
        Ok(row.optional()?)
    }

    pub(crate) fn note(&self, kind: NoteKind, key: &str) -> Result<Option<Note>, LedgerError> {
        note(&self.connection, kind, key)
    }

    pub(crate) fn count(&self) -> Result<i64, LedgerError> {
        Ok(self.connection.query_row("select count(*) from all_calls", [], |row| row.get(0))?)
    }
}

/// Where a record stands in a list, and its text.
fn placed(row: &rusqlite::Row<'_>) -> rusqlite::Result<(Below, String)> {
    Ok((Below { call_id: row.get(0)?, received_ms: row.get(1)? }, row.get(2)?))
}

fn decoded((place, text): (Below, String)) -> Result<(Below, CallRecord), LedgerError> {
    decode_call(&place.call_id, &text).map(|record| (place, record))
}

/// The note of that kind and key, expired or not.
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

/// Notes of that kind behind a key, in the order of their keys.
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
