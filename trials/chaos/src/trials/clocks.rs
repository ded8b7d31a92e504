//! A6: the store's clock jumps an hour forward and an hour back while its gateway does not run. Calls that were left behind are
//! still recovered, accounts open again, and keys that were acknowledged within their window are still answered.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Deployment;
use crate::{
    agent::{Answer, Order},
    gateway::{Launch, faketime},
    matrix::Stop,
};

/// The default window of contracts.
const WINDOW_SEC: u64 = 3_600;
const KEYS: usize = 6;
const HOLD_PATIENCE: Duration = Duration::from_secs(5);
/// The bound, in multiples of the owner's silence, and how long the trial watches.
const OPEN_SILENCES: u32 = 8;
const LOOK_SILENCES: u32 = 12;

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    if faketime().is_none() {
        return Err(Stop::NotYet("libfaketime is not installed; hint: apt-get install faketime".to_owned()));
    }
    deployment.setup.ttl_sec = WINDOW_SEC;
    deployment.start_gateways(1).await?;
    for (jump, clock) in [("an hour forward", "+1h"), ("an hour back", "+0h")] {
        let (acknowledged, orphans) = leave(deployment).await?;
        move_clock(deployment, clock).await?;
        let started = Instant::now();
        let opened = accounts_open(deployment, &orphans, started).await;
        let bound = deployment.silence() * OPEN_SILENCES;
        deployment.expect(opened.is_some_and(|opened| opened <= bound), || match opened {
            Some(opened) => format!("{jump}: accounts of orphans opened after {opened:?}; the bound is {bound:?}"),
            None => format!("{jump}: accounts of orphans are not open after {:?}", started.elapsed()),
        });
        // Expiry has had time to run.
        sleep(deployment.silence()).await;
        let mut lost = 0;
        for (order, content) in &acknowledged {
            let answer = deployment.ask(0, order).await;
            let same = matches!(&answer, Answer::Success { content: again, .. } if again == content);
            lost += usize::from(!same);
        }
        deployment
            .expect(lost == 0, || format!("{jump}: {lost} of {} acknowledged answers are gone", acknowledged.len()));
        let shown =
            opened.map_or_else(|| "not at all".to_owned(), |opened| format!("after {:.1} s", opened.as_secs_f64()));
        deployment
            .figures
            .push(format!("{jump}: accounts open {shown}, {lost} of {} answers gone", acknowledged.len()));
    }
    Ok(())
}

/// Makes calls that are acknowledged and calls that are at the upstream, then kills their gateway.
async fn leave(deployment: &mut Deployment) -> Result<(Vec<(Order, String)>, Vec<Order>), Stop> {
    let (mut acknowledged, mut orphans, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..KEYS {
        let order = deployment.order(["pay_n", "pay_k", "pay_q"][number % 3], None);
        match deployment.ask(0, &order).await {
            Answer::Success { content, .. } => acknowledged.push((order, content)),
            answer => return Err(Stop::Broken(format!("before the clock jumps: {}", answer.short()))),
        }
    }
    for number in 0..KEYS {
        let order = deployment.order(["turn_k", "turn_n"][number % 2], None);
        let order = Order { script: "effect,hold,answer".to_owned(), ..order };
        calls.push(deployment.begin(0, &order));
        orphans.push(order);
    }
    for order in &orphans {
        if !deployment.hostile.holds(&order.business, HOLD_PATIENCE).await? {
            return Err(Stop::Broken(format!("{} did not reach the upstream", order.key)));
        }
    }
    deployment.kill(0).await;
    for call in calls {
        let _ = call.await;
    }
    Ok((acknowledged, orphans))
}

/// Moves the store's clock: PostgreSQL's own, or for SQLite that of its gateway.
async fn move_clock(deployment: &mut Deployment, clock: &str) -> Result<(), Stop> {
    let mut launch = Launch::default();
    match &deployment.postgres {
        Some(postgres) => {
            postgres.crash().await?;
            postgres.up(Some(clock)).await?;
        }
        None => launch.clock = Some(clock.to_owned()),
    }
    deployment.start(0, &launch).await
}

/// The time until every orphan's account accepted a new call.
async fn accounts_open(deployment: &Deployment, orphans: &[Order], started: Instant) -> Option<Duration> {
    let mut closed: Vec<&Order> = orphans.iter().collect();
    while started.elapsed() < deployment.silence() * LOOK_SILENCES {
        let calls: Vec<_> = closed
            .iter()
            .map(|order| (*order, deployment.begin(0, &deployment.order("turn_k", order.account.as_deref()))))
            .collect();
        closed.clear();
        for (order, call) in calls {
            if !call.await.is_ok_and(|answer| answer.is_success()) {
                closed.push(order);
            }
        }
        if closed.is_empty() {
            return Some(started.elapsed());
        }
        sleep(Duration::from_millis(100)).await;
    }
    None
}
