//! What durability costs: raw group-committed inserts against whole mutating calls (begin and settle, each a commit), in the
//! same run, through the same style of writer. A reporter, not a test.
//!
//!     cargo run --release -p servanda-ledger --example durable -- FOLDER [POSTGRES-URL]
//!
//! `raw` puts rows of about the size of an effect with its record into one table with one key, a batch per transaction, as
//! fast as the store takes them: what any durable record costs at the least. FOLDER is where the SQLite files are made.
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

use servanda_ledger::Ledger;
use tokio::task::JoinSet;

use call::call;
use raw::Raw;

const IN_FLIGHT: usize = 64;
const ROUND: Duration = Duration::from_secs(4);
const ROUNDS: usize = 3;
const SINGLES: usize = 500;

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let place = folder.join(format!("durable-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    report("SQLite", &Raw::file(&place.join("raw.db")), Ledger::open(&place.join("ledger.db")).unwrap()).await;
    std::fs::remove_dir_all(&place).unwrap();
    if let Some(url) = arguments.next() {
        let ledger = Ledger::connect(&url).await.unwrap();
        if let Some(reason) = ledger.may_lose_commits() {
            println!("note: {reason}");
        }
        report("PostgreSQL", &Raw::server(&url).await, ledger).await;
    }
}

/// Rounds of both, one after the other, so that both meet the same machine.
async fn report(name: &str, raw: &Raw, ledger: Ledger) {
    let ledger = Arc::new(ledger);
    let (mut inserts, mut calls, mut insert_us, mut call_us) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        inserts.push(per_second(|| raw.insert()).await);
        calls.push(per_second(|| call(ledger.clone())).await);
        insert_us.push(each_us(|| raw.insert()).await);
        call_us.push(each_us(|| call(ledger.clone())).await);
    }
    let [inserts, calls, insert_us, call_us] = [inserts, calls, insert_us, call_us].map(middle);
    println!("{name}, middle of {ROUNDS} rounds");
    println!(
        "  {IN_FLIGHT} in flight:  {inserts:.0} raw inserts/s, {calls:.0} durable calls/s, ratio {:.2}",
        calls / inserts
    );
    println!(
        "  1 in flight: p50 {insert_us:.0} us a commit, {call_us:.0} us begin and settle, ratio {:.2}",
        call_us / insert_us
    );
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
        if started.elapsed() < ROUND {
            tasks.spawn(make());
        }
    }
    f64::from(done) / started.elapsed().as_secs_f64()
}

async fn each_us<F: Future<Output = ()>>(make: impl Fn() -> F) -> f64 {
    let mut took = Vec::new();
    for _ in 0..SINGLES {
        let started = Instant::now();
        make().await;
        took.push(started.elapsed().as_secs_f64() * 1e6);
    }
    middle(took)
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
