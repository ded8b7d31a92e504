//! The ledger as an auditor finds it: read from its file, beside a running gateway or after one that was killed.

use std::{
    path::Path,
    pin::pin,
    task::{Context, Poll, Waker},
    thread,
    time::Instant,
};

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use servanda_contract::CallRecord;
use servanda_ledger::{CallQuery, LedgerReader};

use crate::{
    sightings::saw,
    world::{PATIENCE, POLL, World, until},
};

/// The most records that are searched.
const RECORDS_MAX: u32 = 10_000;

/// The state of a record, for the message of a failed test.
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
    /// Waits for the record of a call.
    #[track_caller]
    pub(crate) fn record(&self, call_id: &str) -> Value {
        let query = CallQuery::Id(call_id.to_owned());
        let is_meant = |record: &CallRecord| record.call_id.as_str() == call_id && record.finished_at.is_some();
        until(&format!("the record of {call_id}"), || {
            let found = self.find(&query, is_meant);
            if found.is_none() {
                saw(
                    "the unfinished record",
                    format!("{:#?}", self.find(&query, |record| record.call_id.as_str() == call_id)),
                );
            }
            found
        })
    }

    /// Waits for the record of the only call of a tool with this outcome.
    #[track_caller]
    pub(crate) fn record_of(&self, tool: &str, outcome: &str) -> Value {
        self.await_record(tool, outcome, |record| record.outcome.name() == outcome)
    }

    /// Waits until the only call of a tool has ended, however it did: a finished record never changes.
    #[track_caller]
    pub(crate) fn ended_record_of(&self, tool: &str) -> Value {
        self.await_record(tool, "ended", |record| record.finished_at.is_some())
    }

    /// The number of recorded calls.
    pub(crate) fn record_count(&self) -> i64 {
        let count =
            open(&self.ledger()).unwrap().query_row("select count(*) from all_calls", [], |row| row.get(0)).unwrap();
        saw("calls on record", count);
        count
    }

    /// The number of stored sessions.
    pub(crate) fn session_notes(&self) -> i64 {
        let sql = "select count(*) from notes where kind = 'session'";
        let count = open(&self.ledger()).unwrap().query_row(sql, [], |row| row.get(0)).unwrap();
        saw("sessions in the ledger", count);
        count
    }

    /// SQLite's integrity check of the file.
    pub(crate) fn ledger_integrity(&self) -> String {
        let ledger = Connection::open(self.ledger()).unwrap();
        ledger.query_row("pragma integrity_check", [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn ledger(&self) -> std::path::PathBuf {
        self.path(".servanda/ledger.db")
    }

    /// Waits for a record of a tool, and fails with the records that were found instead.
    #[track_caller]
    fn await_record(&self, tool: &str, state: &str, is_meant: impl Fn(&CallRecord) -> bool) -> Value {
        let started = Instant::now();
        loop {
            let found = self.find(&CallQuery::Latest, |record| record.tool == tool && is_meant(record));
            if let Some(record) = found {
                return record;
            }
            let in_time = started.elapsed() < PATIENCE;
            assert!(in_time, "waited in vain for a call of {tool} that is {state}: {:#?}", self.states_of(tool));
            thread::sleep(POLL);
        }
    }

    /// The state of every call of a tool, the latest first.
    fn states_of(&self, tool: &str) -> Vec<State> {
        let state = |record: CallRecord| State {
            outcome: record.outcome.name().to_owned(),
            class: record.class.map(|class| class.name().to_owned()).unwrap_or_default(),
            finished: record.finished_at.is_some(),
            refusal: record.refusal.map(|refusal| refusal.message).unwrap_or_default(),
        };
        let records = self.records(&CallQuery::Latest).into_iter().filter(|record| record.tool == tool);
        records.take(10).map(state).collect()
    }

    /// The newest matching record, as JSON.
    fn find(&self, query: &CallQuery, is_meant: impl Fn(&CallRecord) -> bool) -> Option<Value> {
        let record = self.records(query).into_iter().find(is_meant)?;
        Some(serde_json::to_value(record).unwrap())
    }

    /// No records while the ledger cannot be read.
    fn records(&self, query: &CallQuery) -> Vec<CallRecord> {
        let Ok(reader) = LedgerReader::open(&self.ledger()) else { return Vec::new() };
        // Reading a file never has to wait.
        match pin!(reader.find(query, RECORDS_MAX)).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found.unwrap_or_default(),
            Poll::Pending => Vec::new(),
        }
    }
}

fn open(file: &Path) -> Option<Connection> {
    let ledger = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY).ok()?;
    ledger.busy_timeout(crate::world::PATIENCE).ok()?;
    Some(ledger)
}
