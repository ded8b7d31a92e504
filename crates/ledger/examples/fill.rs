//! Fills a ledger with keys through the store's own code, with or without the verifiable log, or lets keys come and go for a while under a
//! short retention. For the trials `trials/growth` and `trials/audit`; it prints a report and asserts nothing.
//!
//!     cargo run --release -p servanda-ledger --example fill -- FILE-OR-URL KEYS [--log]
//!     cargo run --release -p servanda-ledger --example fill -- FILE-OR-URL --churn SECONDS
#![allow(
    clippy::print_stdout,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a command for people; what fails is a finding"
)]
#![allow(clippy::disallowed_methods, reason = "a trial reads the machine's clock")]

#[path = "durable/call.rs"]
#[allow(dead_code, reason = "shared with `durable`, which uses the rest")]
mod call;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use servanda_contract::Timestamp;
use servanda_effects::AuditLog as _;
use servanda_ledger::{Ledger, PruneReport, Retention};
use tokio::task::JoinSet;

use call::{Terms, call_on};

const IN_FLIGHT: usize = 512;
/// While keys come and go: how long each key is remembered, and how long its tombstone and record are kept
/// after that.
const SHORT_MS: u64 = 2_000;
/// Calls in flight while keys come and go. With the pause between rounds this makes a few hundred calls a
/// second, as a gateway might have.
const CHURN_IN_FLIGHT: usize = 16;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [place, rest @ ..] = &arguments[..] else { panic!("usage: fill FILE-OR-URL KEYS | --churn SECONDS") };
    let ledger = if place.starts_with("postgres") {
        Ledger::connect(place).await.unwrap()
    } else {
        Ledger::open(&PathBuf::from(place)).unwrap()
    };
    let ledger = Arc::new(ledger);
    match rest {
        [keys] => fill(&ledger, keys.parse().unwrap()).await,
        [keys, log] if log == "--log" => {
            ledger.switch_log(true);
            let growing = tokio::spawn(grow_log(Arc::clone(&ledger)));
            fill(&ledger, keys.parse().unwrap()).await;
            growing.abort();
            let began = Instant::now();
            while ledger.extend_tree().await.unwrap().is_behind {}
            let leaves = ledger.extend_tree().await.unwrap().size;
            println!(
                "{leaves} leaves; the last of them got their places {} ms after the last call",
                began.elapsed().as_millis()
            );
        }
        [_, seconds] => churn(&ledger, Path::new(place), Duration::from_secs(seconds.parse().unwrap())).await,
        _ => panic!("usage: fill FILE-OR-URL KEYS | --churn SECONDS"),
    }
    ledger.close().await;
}

async fn fill(ledger: &Arc<Ledger>, keys: usize) {
    let began = Instant::now();
    let terms = Terms { received_ms: now_ms(), dedup_window_ms: 86_400_000 };
    let mut tasks = JoinSet::new();
    for number in 0..keys {
        while tasks.len() >= IN_FLIGHT {
            tasks.join_next().await.unwrap().unwrap();
        }
        tasks.spawn(call_on(ledger.clone(), Terms { received_ms: now_ms(), ..terms }));
        if number % 100_000 == 99_999 {
            println!("{} keys after {} s", number + 1, began.elapsed().as_secs());
        }
    }
    while tasks.join_next().await.is_some() {}
    println!("{keys} keys in {:.1} s", began.elapsed().as_secs_f64());
}

/// Takes leaves into the tree once a second, as a gateway does.
async fn grow_log(ledger: Arc<Ledger>) {
    loop {
        while ledger.extend_tree().await.unwrap().is_behind {}
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Makes calls and prunes at the same time. Prints the pages of the file as it goes, and what was pruned.
async fn churn(ledger: &Arc<Ledger>, place: &Path, time: Duration) {
    let until = Instant::now() + time;
    let pruning = tokio::spawn({
        let ledger = ledger.clone();
        async move {
            let retention = Retention { records_ms: Some(SHORT_MS), tombstones_ms: Some(SHORT_MS) };
            let mut sum = PruneReport::default();
            while Instant::now() < until {
                let pruned = ledger.prune(retention, Timestamp::from_unix_ms(now_ms())).await.unwrap();
                sum.records += pruned.records;
                sum.expired += pruned.expired;
                sum.tombstones += pruned.tombstones;
                let pause_ms = if pruned.is_behind { 10 } else { 200 };
                tokio::time::sleep(Duration::from_millis(pause_ms)).await;
            }
            sum
        }
    });
    let (mut tasks, mut calls, mut told) = (JoinSet::new(), 0u64, Instant::now());
    while Instant::now() < until {
        while tasks.len() >= CHURN_IN_FLIGHT {
            tasks.join_next().await.unwrap().unwrap();
        }
        let terms = Terms { received_ms: now_ms(), dedup_window_ms: SHORT_MS };
        tasks.spawn(call_on(ledger.clone(), terms));
        calls += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
        if told.elapsed() > time / 10 {
            told = Instant::now();
            println!("{calls} calls, {} pages", pages(place));
        }
    }
    while tasks.join_next().await.is_some() {}
    let PruneReport { records, expired, tombstones, .. } = pruning.await.unwrap();
    println!("pruned: {records} records, {expired} expired, {tombstones} tombstones");
}

fn pages(place: &Path) -> i64 {
    let Ok(connection) = rusqlite::Connection::open(place) else { return 0 };
    connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap_or_default()
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}
