//! A4: recovery is fair. A gateway dies with many calls at an upstream that is dead from then on, and with a few at one that
//! lives. The few are settled, and the accounts that they change are open again, within a small multiple of the owner's silence,
//! however many of the others wait. (Class Q is not among them: it is asked about only when its time is over.)

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
/// The bound, in times that an owner may be silent, and how long is looked in all.
const OPEN_SILENCES: u32 = 8;
const LOOK_SILENCES: u32 = 12;
const ARRIVAL_PATIENCE: Duration = Duration::from_mins(1);
/// How long recovery of everything may take once the dead upstream is back.
const WHOLE_PATIENCE: Duration = Duration::from_mins(1);
const LISTED_MAX: usize = 5_000;

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    let dead = Hostile::start_with_books(deployment.setup.folder.join("dead-books.jsonl"), false).await?;
    let dead = Arc::new(dead);
    deployment.setup.others.push(("dead".to_owned(), dead.address));
    deployment.setup.long_ms_max = 240_000;
    deployment.others.push(dead.clone());
    deployment.start_gateways(1).await?;
    let count = if deployment.long { DEAD.0 } else { DEAD.1 };
    let live = leave_orphans(deployment, &dead, count).await?;
    let started = Instant::now();
    deployment.start(0, &Launch::default()).await?;
    let opened = open_accounts(deployment, &live, started).await;
    let bound = deployment.silence() * OPEN_SILENCES;
    let open = opened.iter().flatten().count();
    let slowest = opened.iter().flatten().max().copied().unwrap_or_default();
    deployment.figures.push(format!(
        "{count} orphans of a dead upstream, {open} of {LIVE} accounts of the live one open, the last after {:.1} s (bound {:.0} s)",
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

/// Calls of both upstreams whose gateway dies, and one of the upstreams with it. Gives those of the other.
async fn leave_orphans(deployment: &mut Deployment, dead: &Hostile, count: usize) -> Result<Vec<Order>, Stop> {
    let held = |order: Order| Order { script: "effect,hold,answer".to_owned(), ..order };
    let (mut calls, mut waiting, mut live) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let order = held(deployment.order("dead.long_k", None));
        calls.push(deployment.begin(0, &order));
        waiting.push(order);
    }
    arrived(dead, &waiting).await?;
    for number in 0..LIVE {
        let order = deployment.order(["long_k", "long_n"][number % 2], Some(&format!("open-{number}")));
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
        let books = upstream.books()?;
        let there = orders.iter().filter(|order| books.effects(&order.business) > 0).count();
        if there == orders.len() {
            return Ok(());
        }
        if started.elapsed() > ARRIVAL_PATIENCE {
            return Err(Stop::Broken(format!("{there} of {} calls reached the upstream", orders.len())));
        }
        sleep(Duration::from_millis(200)).await;
    }
}

/// When each account took a new call. The orphans' own keys are not asked for meanwhile: that would settle them.
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

/// With the dead upstream back, nothing stays behind.
async fn all_settled(deployment: &mut Deployment) -> Result<(), Stop> {
    let (started, folder) = (Instant::now(), deployment.members[0].folder.clone());
    loop {
        let left = effects::list(&deployment.setup, &folder, &["claimed", "dispatching"], LISTED_MAX).await?.len();
        if left == 0 {
            deployment
                .figures
                .push(format!("all settled {} s after the dead one is back", started.elapsed().as_secs()));
            return Ok(());
        }
        if started.elapsed() > WHOLE_PATIENCE {
            deployment.is_listed = false;
            deployment.wrong.push(format!("{left} orphans are not settled although their upstream is back"));
            return Ok(());
        }
        sleep(Duration::from_secs(1)).await;
    }
}
