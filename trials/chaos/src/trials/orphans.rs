//! A4: recovery is fair. A gateway dies with many calls at an upstream that is dead from then on, and with a few at one that
//! lives. The few are settled, and their accounts are open again, within a small multiple of the owner's silence, however many
//! of the others wait. (Class Q is not among them: the gateway asks about it only when its time is over.)

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::time::sleep;

use super::Deployment;
use crate::{
    agent::{Answer, Order},
    effects,
    gateway::Launch,
    hostile::Hostile,
    matrix::Stop,
};

/// How many calls the dead upstream has, in the long form and in the short one.
const DEAD: (usize, usize) = (1_000, 200);
const LIVE: usize = 8;
/// Calls at once: a gateway limits the calls in flight for each upstream. For more, several gateways die one after the other.
const BATCH: usize = 200;
const BATCHES_MAX: usize = 20;
/// The owner's silence in the long form: longer than the batches take, so that they are not recovered before.
const LONG_SILENCE_MS: u64 = 10_000;
/// The bound, in multiples of the owner's silence, and how long the trial watches.
const OPEN_SILENCES: u32 = 8;
const LOOK_SILENCES: u32 = 12;
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(15);
/// What an upstream does with every such call; when it is sent again, the upstream behaves correctly.
const HELD: &str = "effect,hold,answer";
/// How long recovery of everything may take once the dead upstream is back.
const WHOLE_PATIENCE: Duration = Duration::from_mins(1);
const WHOLE_SILENCES: u32 = 20;
const LISTED_MAX: usize = 5_000;

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    let dead = Hostile::start_with_books(deployment.setup.folder.join("dead-books.jsonl"), false).await?;
    let dead = Arc::new(dead);
    deployment.setup.others.push(("dead".to_owned(), dead.address));
    deployment.setup.long_ms_max = 240_000;
    if deployment.long {
        deployment.setup.silence_ms = LONG_SILENCE_MS;
    }
    deployment.others.push(dead.clone());
    deployment.start_gateways(1).await?;
    let count = if deployment.long { DEAD.0 } else { DEAD.1 };
    let live = leave_orphans(deployment, &dead, count).await?;
    let orphans = left(deployment).await?.saturating_sub(LIVE);
    deployment.expect(orphans >= count * 9 / 10, || format!("only {orphans} orphans of {count} were made"));
    let started = Instant::now();
    deployment.start(0, &Launch::default()).await?;
    let opened = open_accounts(deployment, &live, started).await;
    let bound = deployment.silence() * OPEN_SILENCES;
    let open = opened.iter().flatten().count();
    let slowest = opened.iter().flatten().max().copied().unwrap_or_default();
    deployment.figures.push(format!(
        "{orphans} orphans of a dead upstream, {open} of {LIVE} accounts of the live one open, the last after {:.1} s (bound {:.0} s)",
        slowest.as_secs_f64(),
        bound.as_secs_f64()
    ));
    deployment.expect(open == LIVE && slowest <= bound, || {
        format!("{open} of {LIVE} accounts are open, the last after {slowest:?}; the bound is {bound:?}")
    });
    for order in &live {
        let answer = deployment.persist(0, order, deployment.silence()).await;
        let settled = answer.is_success() || answer.is_unknown() || answer.says_it_happened();
        deployment.expect(settled, || format!("{}: it is not settled: {}", order.key, answer.short()));
    }
    dead.restart().await?;
    all_settled(deployment).await
}

/// Makes calls at both upstreams, kills their gateway and one upstream. Returns the calls of the other.
async fn leave_orphans(deployment: &mut Deployment, dead: &Hostile, count: usize) -> Result<Vec<Order>, Stop> {
    let held = |order: Order| Order { script: HELD.to_owned(), ..order };
    let (mut calls, mut waiting, mut live) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BATCHES_MAX {
        let missing = count.saturating_sub(left(deployment).await?);
        if missing == 0 {
            break;
        }
        if !waiting.is_empty() {
            deployment.kill(0).await;
            deployment.start(0, &Launch::default()).await?;
        }
        let mut batch = Vec::new();
        for _ in 0..missing.min(BATCH) {
            let order = held(deployment.order("dead.long_k", None));
            calls.push(deployment.begin(0, &order));
            batch.push(order);
        }
        // Calls that do not arrive, because recovery is busy with earlier ones, are replaced by others.
        let _ = arrived(dead, &batch).await;
        waiting.append(&mut batch);
    }
    for number in 0..LIVE {
        let order = deployment.order(["turn_k", "turn_n"][number % 2], Some(&format!("open-{number}")));
        live.push(held(order));
        calls.push(deployment.begin(0, &live[number]));
    }
    arrived(&deployment.hostile, &live).await?;
    deployment.kill(0).await;
    dead.kill().await;
    for call in calls {
        let _ = call.await;
    }
    Ok(live)
}

async fn arrived(upstream: &Hostile, orders: &[Order]) -> Result<(), Stop> {
    let started = Instant::now();
    loop {
        let there = there(upstream, orders)?;
        if there == orders.len() {
            return Ok(());
        }
        if started.elapsed() > ARRIVAL_PATIENCE {
            return Err(Stop::Broken(format!("{there} of {} calls reached the upstream", orders.len())));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// How many effects are running, by the gateway's listing.
async fn left(deployment: &Deployment) -> Result<usize, Stop> {
    let folder = &deployment.members[0].folder;
    Ok(effects::list(&deployment.setup, folder, &["claimed", "dispatching"], LISTED_MAX).await?.len())
}

/// How many of these the upstream has performed.
fn there(upstream: &Hostile, orders: &[Order]) -> Result<usize, Stop> {
    let books = upstream.books()?;
    Ok(orders.iter().filter(|order| books.effects(&order.business) > 0).count())
}

/// When each account accepted a new call. The orphans' own keys are not requested meanwhile, because that would settle them.
async fn open_accounts(deployment: &Deployment, live: &[Order], started: Instant) -> Vec<Option<Duration>> {
    let mut opened = vec![None; live.len()];
    while opened.contains(&None) && started.elapsed() < deployment.silence() * LOOK_SILENCES {
        let mut calls = Vec::new();
        for (number, order) in live.iter().enumerate().filter(|(number, _)| opened[*number].is_none()) {
            let fresh = deployment.order("turn_k", order.account.as_deref());
            calls.push((number, deployment.begin(0, &fresh)));
        }
        for (number, call) in calls {
            if call.await.is_ok_and(|answer: Answer| answer.is_success()) {
                opened[number] = Some(started.elapsed());
            }
        }
        sleep(Duration::from_millis(100)).await;
    }
    opened
}

/// When the dead upstream is back, every orphan is settled.
async fn all_settled(deployment: &mut Deployment) -> Result<(), Stop> {
    let started = Instant::now();
    let patience = WHOLE_PATIENCE.max(deployment.silence() * WHOLE_SILENCES);
    loop {
        let left = left(deployment).await?;
        if left == 0 {
            deployment
                .figures
                .push(format!("all settled {} s after the dead one is back", started.elapsed().as_secs()));
            return Ok(());
        }
        if started.elapsed() > patience {
            deployment.is_listed = false;
            deployment.wrong.push(format!("{left} orphans are not settled although their upstream is back"));
            return Ok(());
        }
        sleep(Duration::from_secs(1)).await;
    }
}
