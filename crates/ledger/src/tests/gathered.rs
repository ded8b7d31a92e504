//! What the file's writer puts aside for the index of calls is merged before it is read, by whichever process reads it, and is never lost.

use std::path::Path;

use servanda_contract::{CallRecord, record::Outcome};
use servanda_effects::{
    CallHistory as _, Journal as _,
    call_history::{CallMeasure, CountWidth, CountsQuery, HistoryQuery},
};

use super::samples::record;
use crate::Ledger;

fn query(limit: u32) -> HistoryQuery {
    HistoryQuery { tenant: "local".to_owned(), tool: Some(call(0).tool), limit, ..HistoryQuery::default() }
}

fn call(number: u64) -> CallRecord {
    record(&format!("call_{number:06}"), Outcome::Completed, number * 20)
}

async fn write(ledger: &Ledger, numbers: std::ops::Range<u64>) {
    let written = numbers.map(|number| ledger.record_finished(call(number), None, true));
    for written in futures_util::future::join_all(written).await {
        written.unwrap();
    }
}

/// Rows of the index, and rows that were put aside.
fn rows(path: &Path) -> (i64, i64) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let count =
        |table: &str| connection.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).unwrap();
    (count("call_terms"), count("gathered_index"))
}

async fn completed(ledger: &Ledger) -> u64 {
    let query = CountsQuery { tenant: "local".to_owned(), width: CountWidth::Hour, from_ms: 0, until_ms: u64::MAX };
    let counts = ledger.call_counts(query).await.unwrap();
    let completed = CallMeasure::Outcome(Outcome::Completed);
    counts.iter().filter(|count| count.measure == completed).map(|count| count.amount).sum()
}

#[tokio::test]
async fn the_next_process_finds_what_the_one_before_put_aside() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    write(&ledger, 0..10).await;
    let (terms, aside) = rows(&path);
    assert!(terms == 0 && aside > 0, "{terms} {aside}: a commit adds one row, and none to the index");
    // Another process reads while this one is there, and one after it has ended.
    let other = Ledger::open(&path).unwrap();
    assert_eq!(other.list_calls(query(100)).await.unwrap().calls.len(), 10);
    assert_eq!(rows(&path), (40, 0), "4 terms of 10 spans, and nothing is put aside any more");
    write(&ledger, 10..15).await;
    ledger.close().await;
    assert_eq!((completed(&other).await, rows(&path).1), (15, 0), "counted once");
    assert_eq!(other.list_calls(query(100)).await.unwrap().calls.len(), 15);
}

#[tokio::test]
async fn it_is_merged_when_there_is_much_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    for hundred in 0..6_u64 {
        write(&ledger, hundred * 100..hundred * 100 + 100).await;
    }
    let (terms, aside) = rows(&path);
    assert!(terms >= 4 * 256, "{terms} rows of the index and {aside} aside, although nobody read it");
    assert_eq!(completed(&ledger).await, 600);
}

/// A page that misses a call is better than a ledger that nothing can be written to.
#[tokio::test]
async fn bytes_that_cannot_be_read_stop_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let ledger = Ledger::open(&path).unwrap();
    write(&ledger, 0..3).await;
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("insert into gathered_index (body) values (x'0102'), (x'ff'), (x'')", []).unwrap();
    write(&ledger, 3..5).await;
    assert_eq!(ledger.list_calls(query(100)).await.unwrap().calls.len(), 5);
    assert_eq!(rows(&path).1, 0);
    write(&ledger, 5..6).await;
    assert_eq!(ledger.list_calls(query(100)).await.unwrap().calls.len(), 6);
}
