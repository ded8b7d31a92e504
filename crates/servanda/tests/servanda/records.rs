//! The ledger as an auditor finds it: read from its file, beside a running gateway or after one that was killed.

use std::{path::Path, thread, time::Instant};

use rusqlite::{Connection, OpenFlags, OptionalExtension as _};
use serde_json::Value;

use crate::world::{PATIENCE, POLL, World, until};

/// What a record says of how its call stands, for a test that fails.
#[derive(Debug)]
#[expect(dead_code, reason = "only shown")]
struct State {
    outcome: String,
    class: String,
    refusal: String,
    /// A finished record is never overwritten.
    finished: bool,
}

impl World {
    /// The record of a call, once it is there.
    #[track_caller]
    pub(crate) fn record(&self, call_id: &str) -> Value {
        until(&format!("the record of {call_id}"), || self.find("call_id = ?1 and finished_ms is not null", call_id))
    }

    /// The record of the only call of a tool that has this outcome, once it is there.
    #[track_caller]
    pub(crate) fn record_of(&self, tool: &str, outcome: &str) -> Value {
        self.await_record(tool, outcome, &format!("tool = ?1 and outcome = '{outcome}'"))
    }

    /// The record of the only call of a tool once that call has ended, however it did: a finished record never changes.
    #[track_caller]
    pub(crate) fn ended_record_of(&self, tool: &str) -> Value {
        self.await_record(tool, "ended", "tool = ?1 and finished_ms is not null")
    }

    /// Calls on record.
    pub(crate) fn record_count(&self) -> i64 {
        open(&self.ledger()).unwrap().query_row("select count(*) from all_calls", [], |row| row.get(0)).unwrap()
    }

    /// Sessions that are written down.
    pub(crate) fn session_notes(&self) -> i64 {
        let sql = "select count(*) from notes where kind = 'session'";
        open(&self.ledger()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap()
    }

    /// What SQLite says about its own file.
    pub(crate) fn ledger_integrity(&self) -> String {
        let ledger = Connection::open(self.ledger()).unwrap();
        ledger.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn ledger(&self) -> std::path::PathBuf {
        self.path(".servanda/ledger.db")
    }

    /// Waits for a record of a tool, and fails with the records that were found instead.
    #[track_caller]
    fn await_record(&self, tool: &str, state: &str, condition: &str) -> Value {
        let started = Instant::now();
        loop {
            if let Some(record) = self.find(condition, tool) {
                return record;
            }
            let in_time = started.elapsed() < PATIENCE;
            assert!(in_time, "waited in vain for a call of {tool} that is {state}: {:#?}", self.states_of(tool));
            thread::sleep(POLL);
        }
    }

    /// How every call of a tool stands, the latest first.
    fn states_of(&self, tool: &str) -> Vec<State> {
        let sql =
            "select record, finished_ms is not null from all_calls where tool = ?1 order by received_ms desc limit 10";
        let Some(ledger) = open(&self.ledger()) else { return Vec::new() };
        let Ok(mut statement) = ledger.prepare(sql) else { return Vec::new() };
        let Ok(rows) = statement.query_map([tool], |row| Ok((row.get::<_, String>(0)?, row.get(1)?))) else {
            return Vec::new();
        };
        let state = |(text, finished): (String, bool)| {
            let record: Value = serde_json::from_str(&text).unwrap();
            let said = |pointer: &str| record.pointer(pointer).map(Value::to_string).unwrap_or_default();
            State { outcome: said("/outcome"), class: said("/class"), refusal: said("/refusal/message"), finished }
        };
        rows.flatten().map(state).collect()
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
