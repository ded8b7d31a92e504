//! Reading the ledger: one call by its id, or the latest ones. Read-only, and works beside a running gateway.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension as _, params};
use servanda_contract::{CallRecord, record::RECORD_VERSION};

use crate::{LedgerError, migrate, open_read_only};

/// Reads records; never writes.
#[derive(Debug)]
pub struct Reader {
    connection: Connection,
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
    /// Opens an existing ledger.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        let connection = open_read_only(path)?;
        migrate::check(&connection)?;
        Ok(Self { connection })
    }

    /// The records a query means; more than one if the beginning of an id is not enough.
    pub fn find(&self, query: &CallQuery, limit: u32) -> Result<Vec<CallRecord>, LedgerError> {
        let (sql, text) = match query {
            CallQuery::Id(id) => {
                let sql = "select call_id, record from calls where call_id >= ?1 and call_id < ?1 || '~' order by call_id limit ?2";
                (sql, id.clone())
            }
            CallQuery::Latest => {
                let sql =
                    "select call_id, record from calls where ?1 = '' order by received_ms desc, call_id desc limit ?2";
                (sql, String::new())
            }
        };
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map(params![text, limit], |row| Ok((row.get(0)?, row.get(1)?)))?;
        rows.map(|row| {
            let (call_id, record): (String, String) = row?;
            decode(&call_id, &record)
        })
        .collect()
    }

    /// The latest calls, newest first.
    pub fn recent(&self, limit: u32) -> Result<Vec<CallSummary>, LedgerError> {
        let sql = "select call_id, tool, outcome, class, received_ms from calls order by received_ms desc, call_id desc limit ?1";
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map(params![limit], |row| {
            Ok(CallSummary {
                call_id: row.get(0)?,
                tool: row.get(1)?,
                outcome: row.get(2)?,
                class: row.get(3)?,
                received_ms: row.get(4)?,
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The answer of a call that was kept back, if it was.
    pub fn quarantined(&self, call_id: &str) -> Result<Option<Quarantined>, LedgerError> {
        let sql = "select bytes_total, body from quarantine where call_id = ?1";
        let row = self
            .connection
            .query_row(sql, params![call_id], |row| Ok(Quarantined { bytes_total: row.get(0)?, body: row.get(1)? }));
        Ok(row.optional()?)
    }

    /// How many calls there are.
    pub fn count(&self) -> Result<i64, LedgerError> {
        Ok(self.connection.query_row("select count(*) from calls", [], |row| row.get(0))?)
    }
}

fn decode(call_id: &str, text: &str) -> Result<CallRecord, LedgerError> {
    #[derive(serde::Deserialize)]
    struct Version {
        record_version: u32,
    }
    let failed = |reason: String| LedgerError::Record { call_id: call_id.to_owned(), reason };
    let Version { record_version } = serde_json::from_str(text).map_err(|error| failed(error.to_string()))?;
    if record_version > RECORD_VERSION {
        return Err(failed(format!("it has version {record_version}, this servanda knows up to {RECORD_VERSION}")));
    }
    serde_json::from_str(text).map_err(|error| failed(error.to_string()))
}
