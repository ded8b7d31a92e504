//! The ledger as an auditor finds it: read from its file, beside a running gateway or after one that was killed.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde_json::Value;

use crate::world::{World, until};

impl World {
    /// The record of a call, once it is there.
    #[track_caller]
    pub(crate) fn record(&self, call_id: &str) -> Value {
        until(&format!("the record of {call_id}"), || self.find("call_id = ?1 and finished_ms is not null", call_id))
    }

    /// The record of the only call of a tool that has this outcome, once it is there.
    #[track_caller]
    pub(crate) fn record_of(&self, tool: &str, outcome: &str) -> Value {
        until(&format!("a call of {tool} that is {outcome}"), || {
            self.find(&format!("tool = ?1 and outcome = '{outcome}'"), tool)
        })
    }

    /// Calls on record.
    pub(crate) fn record_count(&self) -> i64 {
        open(&self.ledger()).unwrap().query_row("select count(*) from all_calls", [], |row| row.get(0)).unwrap()
    }

    /// What SQLite says about its own file.
    pub(crate) fn ledger_integrity(&self) -> String {
        let ledger = Connection::open(self.ledger()).unwrap();
        ledger.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn ledger(&self) -> std::path::PathBuf {
        self.path(".servanda/ledger.db")
    }

    fn find(&self, condition: &str, value: &str) -> Option<Value> {
        let sql = format!("select record from all_calls where {condition} order by received_ms desc limit 1");
        let text: Option<String> = open(&self.ledger())?.query_row(&sql, [value], |row| row.get(0)).optional().ok()?;
        Some(serde_json::from_str(&text?).unwrap())
    }
}

fn open(file: &Path) -> Option<Connection> {
    let ledger = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    ledger.busy_timeout(crate::world::PATIENCE).ok()?;
    Some(ledger)
}
