//! A1, the other half: gateways that are late. One is paused for longer than an owner may be silent while its call is at the
//! upstream; others take over what they can; then it wakes up and gets its answer. Another only reports late, but never too
//! late, that it lives: none of its calls may be reported as unknown.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Deployment;
use crate::{agent::Order, gateway::Launch, matrix::Stop};

const CALLS: usize = 8;
/// How long the upstream works on a call that was sent again, after its first owner has its answer.
const OUTLASTS_MS: u64 = 2_500;
/// The time after a stalled commit within which the upstream answers the first owner.
const ANSWERS_WITHIN_MS: u64 = 1_500;

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    if deployment.long {
        deployment.take_usual_silence();
        deployment.setup.long_ms_max = 120_000;
    }
    deployment.start_gateways(3).await?;
    let rounds = if deployment.long { 3 } else { 2 };
    let mut orders = Vec::new();
    for _ in 0..rounds {
        orders.append(&mut paused_too_long(deployment).await?);
        orders.append(&mut stalled_too_long(deployment).await?);
        orders.append(&mut beats_late(deployment).await?);
    }
    for order in &orders {
        let number = deployment.somewhere();
        deployment.persist(number, order, deployment.silence()).await;
    }
    deployment.figures.push(format!(
        "{} keys, {rounds} pauses and {rounds} stalled commits longer than the silence, {rounds} rounds of late beats",
        orders.len()
    ));
    Ok(())
}

/// The owner is paused, and its upstream answers before it wakes up or right after.
async fn paused_too_long(deployment: &mut Deployment) -> Result<Vec<Order>, Stop> {
    let silence_ms = deployment.setup.silence_ms;
    let pause_ms = silence_ms * 13 / 10 + deployment.rng.between(0, silence_ms / 2);
    let (mut orders, mut calls) = (Vec::new(), Vec::new());
    for number in 0..CALLS {
        let tool = ["long_k", "long_n", "long_k", "long_q"][number % 4];
        let order = deployment.order(tool, None);
        let wait_ms = if number < CALLS / 2 { pause_ms / 2 } else { pause_ms + deployment.rng.between(300, 900) };
        // If the call is sent again, the second answer is slow or missing, while the first is on its way to its owner. The call
        // may be sent again as soon as the silence is over.
        let slow = slow(pause_ms - silence_ms);
        let again = if number % 8 < 4 { &slow } else { "effect,rpc_error" };
        let script = format!("effect,delay:{wait_ms},answer|{again}|{slow}");
        let order = Order { script, ..order };
        calls.push(deployment.begin(0, &order));
        orders.push(order);
    }
    sleep(Duration::from_millis(400)).await;
    deployment.pause(0);
    sleep(Duration::from_millis(silence_ms * 11 / 10)).await;
    // To another gateway; on SQLite to the paused one, which finds them when it wakes up.
    for order in &orders {
        calls.push(deployment.begin(deployment.other(0), order));
    }
    sleep(Duration::from_millis(pause_ms.saturating_sub(silence_ms * 11 / 10))).await;
    deployment.resume(0);
    // What its callers are told now must stay true at every other gateway.
    for _ in 0..6 {
        sleep(Duration::from_millis(150)).await;
        for order in &orders {
            calls.push(deployment.begin(deployment.other(0), order));
        }
    }
    for call in calls {
        let _ = call.await;
    }
    Ok(orders)
}

/// The upstream's script for a call that is sent again this long before its first owner has its answer.
fn slow(before_ms: u64) -> String {
    format!("delay:{},effect,answer", before_ms + OUTLASTS_MS)
}

/// The commit by which one gateway reports that it lives stalls for longer than the silence, while the rest of the gateway
/// runs: when the commit succeeds, it is outdated.
async fn stalled_too_long(deployment: &mut Deployment) -> Result<Vec<Order>, Stop> {
    let silence_ms = deployment.setup.silence_ms;
    let (late, stall_ms) = (deployment.members.len() - 1, silence_ms * 13 / 10);
    deployment.kill(late).await;
    let faults = Some(format!("ledger.before_commit=pause:{stall_ms}@1"));
    let launch = Launch { faults, waits_for_arm: true, seed: deployment.rng.next(), clock: None };
    deployment.start(late, &launch).await?;
    let (mut orders, mut calls, began) = (Vec::new(), Vec::new(), Instant::now());
    for number in 0..CALLS {
        let order = deployment.order(if number % 2 == 0 { "long_k" } else { "long_n" }, None);
        let wait_ms = silence_ms / 3 + stall_ms + deployment.rng.between(400, ANSWERS_WITHIN_MS);
        let slow = slow(silence_ms / 2);
        let script = format!("effect,delay:{wait_ms},answer|{slow}|{slow}|{slow}");
        let order = Order { script, ..order };
        calls.push(deployment.begin(late, &order));
        orders.push(order);
    }
    sleep(Duration::from_millis(300)).await;
    // Owners report three times within the silence that they live, so the fault hits one such commit.
    deployment.gateway(late)?.arm()?;
    sleep(Duration::from_millis(silence_ms / 3 + 100)).await;
    deployment.gateway(late)?.disarm()?;
    sleep(Duration::from_millis(stall_ms * 9 / 10)).await;
    let answered = Duration::from_millis(silence_ms / 3 + stall_ms + ANSWERS_WITHIN_MS + 800);
    while began.elapsed() < answered {
        for order in &orders {
            calls.push(deployment.begin(deployment.other(late), order));
        }
        sleep(Duration::from_millis(150)).await;
    }
    for call in calls {
        let _ = call.await;
    }
    Ok(orders)
}

/// One gateway is paused repeatedly, each time for less than the silence, and its commits sometimes wait: it lives, and reports
/// so late.
async fn beats_late(deployment: &mut Deployment) -> Result<Vec<Order>, Stop> {
    let silence_ms = deployment.setup.silence_ms;
    let late = deployment.members.len() - 1;
    deployment.kill(late).await;
    let faults = Some(format!("ledger.before_commit=pause:{}@0.1", silence_ms / 6));
    let launch = Launch { faults, waits_for_arm: true, seed: deployment.rng.next(), clock: None };
    deployment.start(late, &launch).await?;
    deployment.gateway(late)?.arm()?;
    let (mut orders, mut calls) = (Vec::new(), Vec::new());
    for number in 0..CALLS {
        let order = deployment.order(if number % 2 == 0 { "long_n" } else { "long_k" }, None);
        let script = format!("effect,delay:{},answer", silence_ms / 2 + deployment.rng.between(0, silence_ms));
        let order = Order { script, ..order };
        calls.push(deployment.begin(late, &order));
        orders.push(order);
    }
    for _ in 0..3 {
        sleep(Duration::from_millis(silence_ms / 3)).await;
        deployment.pause(late);
        sleep(Duration::from_millis(silence_ms / 4)).await;
        for order in &orders {
            calls.push(deployment.begin(deployment.other(late), order));
        }
        deployment.resume(late);
    }
    deployment.gateway(late)?.disarm()?;
    for call in calls {
        let _ = call.await;
    }
    Ok(orders)
}
