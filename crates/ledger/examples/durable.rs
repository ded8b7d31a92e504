//! Measures what durability costs: raw group-committed inserts against whole mutating calls (begin and settle,
//! each a commit), in the same run, through the same style of writer. It prints a report and asserts nothing.
//!
//!     cargo run --release -p servanda-ledger --example durable -- FOLDER [POSTGRES-URL]
//!
//! A raw insert puts an effect and a record into tables like the ledger's, one batch per transaction, as fast
//! as the store takes them. A call is two such commits, one after the other: if reading, deciding and comparing
//! cost nothing, calls would reach half the rate of raw inserts. The SQLite files are made in FOLDER.
#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a command for people; what fails is a finding")]

#[path = "durable/call.rs"]
mod call;
#[path = "durable/raw.rs"]
mod raw;

use std::{
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use servanda_ledger::{Ledger, LedgerGuard};
use tokio::task::JoinSet;

use call::{call, encoded};
use raw::Raw;

const IN_FLIGHT: usize = 64;
const TURN: Duration = Duration::from_millis(1_500);
const TURNS: usize = 7;
const SINGLES: usize = 1_000;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let place = folder.join(format!("durable-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    // Opened as a gateway opens it, with a position file.
    let guard = LedgerGuard { position_file: Some(place.join("servanda.position")), ..LedgerGuard::default() };
    let ledger = Ledger::open_guarded(&place.join("ledger.db"), &guard).unwrap();
    let encoded = encoded(&place).await;
    report("SQLite", &Raw::file(&place.join("raw.db"), encoded.clone()).await, ledger).await;
    std::fs::remove_dir_all(&place).unwrap();
    if let Some(url) = arguments.next() {
        let ledger = Ledger::connect(&url).await.unwrap();
        if let Some(reason) = ledger.may_lose_commits() {
            println!("note: {reason}");
        }
        report("PostgreSQL", &Raw::server(&url, encoded).await, ledger).await;
    }
}

/// Measures raw inserts and calls in turns, so that both meet the same machine. The ratio is the median over
/// the turns.
async fn report(name: &str, raw: &Raw, ledger: Ledger) {
    let ledger = Arc::new(ledger);
    let (mut rates, mut singles) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        rates.push((per_second(|| raw.insert()).await, per_second(|| call(ledger.clone())).await));
    }
    for _ in 0..SINGLES {
        singles.push((took_us(raw.insert()).await, took_us(call(ledger.clone())).await));
    }
    let (inserts, calls, ratio) = middles(&rates);
    println!("{name}");
    println!("  {IN_FLIGHT} in flight:  {inserts:.0} raw inserts/s, {calls:.0} durable calls/s, ratio {ratio:.2}");
    let (insert_us, call_us, _) = middles(&singles);
    let ratio = call_us / insert_us;
    println!("  1 in flight: p50 {insert_us:.0} us a commit, {call_us:.0} us begin and settle, ratio {ratio:.2}");
}

async fn per_second<F: Future<Output = ()> + Send + 'static>(make: impl Fn() -> F) -> f64 {
    let started = Instant::now();
    let (mut tasks, mut done) = (JoinSet::new(), 0_u32);
    for _ in 0..IN_FLIGHT {
        tasks.spawn(make());
    }
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
        done += 1;
        if started.elapsed() < TURN {
            tasks.spawn(make());
        }
    }
    f64::from(done) / started.elapsed().as_secs_f64()
}

async fn took_us(work: impl Future<Output = ()>) -> f64 {
    let started = Instant::now();
    work.await;
    started.elapsed().as_secs_f64() * 1e6
}

fn middles(pairs: &[(f64, f64)]) -> (f64, f64, f64) {
    let of = |value: fn(&(f64, f64)) -> f64| middle(pairs.iter().map(value).collect());
    (of(|pair| pair.0), of(|pair| pair.1), of(|pair| pair.1 / pair.0))
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
