//! A1, the other half: gateways that are late. One is paused for longer than an owner may be silent while its call is at the
//! upstream, others take over what can be taken over, and then it wakes up and has its answer. Another only says late that it
//! lives, and never too late: of its calls nothing may be called unknown.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::Deployment;
use crate::{agent::Order, gateway::Launch, matrix::Stop};

const CALLS: usize = 8;
/// How long the upstream goes on with a call that was sent again when its first owner has its answer.
const OUTLASTS_MS: u64 = 2_500;
/// Within what time after a stalled commit the upstream answers the first owner.
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
        // Where it is sent again, the second answer is slow or is none, while the first is on its way to its owner.
        // From when the silence is over, the call may be sent again.
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
    // To another gateway; on SQLite to the one that is paused, which finds them when it wakes up.
    for order in &orders {
        calls.push(deployment.begin(deployment.other(0), order));
    }
    sleep(Duration::from_millis(pause_ms.saturating_sub(silence_ms * 11 / 10))).await;
    deployment.resume(0);
    // What its callers are told now has to stay true at every other gateway.
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

/// What the upstream does with a call that is sent again, so long before its first owner has its answer.
fn slow(before_ms: u64) -> String {
    format!("delay:{},effect,answer", before_ms + OUTLASTS_MS)
}

/// The commit by which one gateway says that it lives stalls for longer than the silence, while all else of it goes on: when the
/// commit is there, what it says is old.
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
    // Owners say three times within the silence that they live: one such commit is met.
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

/// One gateway is paused again and again, each time for less than the silence, and its commits wait at times: it lives, and says
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
