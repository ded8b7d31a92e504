//! A1: the store is away for longer than an owner may be silent, and every owner lives. The upstream answers calls before,
//! during and after the outage. When the store is back, and before owners could report that they live, the same keys arrive at
//! other gateways, and new calls begin with duplicates elsewhere. Some of them change accounts that other calls change too.

use std::time::{Duration, Instant};

use tokio::{task::JoinHandle, time::sleep};

use super::{Deployment, deployment::Outage};
use crate::{
    agent::{Answer, Order},
    matrix::Stop,
};

/// Calls that are acknowledged before an outage, and calls that are running when it begins.
const ACKNOWLEDGED: usize = 4;
const UNDER_WAY: usize = 10;
/// Accounts that several calls change.
const ACCOUNTS: u64 = 4;
/// How often something is sent while owners have not yet reported that they live.
const BURST_EVERY: Duration = Duration::from_millis(70);
/// How often each key is requested when everything is over.
const LOOKS: usize = 2;

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    if deployment.long {
        deployment.take_usual_silence();
        deployment.setup.long_ms_max = 200_000;
    }
    deployment.start_gateways(3).await?;
    let rounds = if deployment.long { 4 } else { 2 };
    let (mut orders, mut outages) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let away = draw_outage(deployment, round);
        outages.push(format!("{:.1}", away.as_secs_f64()));
        let outage = if round % 2 == 0 { Outage::Crash } else { Outage::Freeze };
        orders.append(&mut one_outage(deployment, outage, away).await?);
    }
    for _ in 0..LOOKS {
        for order in &orders {
            let number = deployment.somewhere();
            deployment.persist(number, order, deployment.silence()).await;
        }
    }
    deployment.figures.push(format!("store away {} s", outages.join(", ")));
    deployment.figures.push(format!("{} keys", orders.len()));
    Ok(())
}

/// From 5 to 60 s if owners may be silent for 15 s, and every other time longer than that; otherwise in the same proportion.
fn draw_outage(deployment: &mut Deployment, round: usize) -> Duration {
    let silence_ms = deployment.setup.silence_ms;
    let (low, high) = match (deployment.long, round % 2) {
        (true, 0) => (silence_ms * 11 / 10, silence_ms * 4),
        (true, _) => (silence_ms / 3, silence_ms * 2),
        (false, _) => (silence_ms * 5 / 4, silence_ms * 2),
    };
    Duration::from_millis(deployment.rng.between(low, high))
}

/// One outage, and all calls around it. Returns the calls.
async fn one_outage(deployment: &mut Deployment, outage: Outage, away: Duration) -> Result<Vec<Order>, Stop> {
    let mut orders = Vec::new();
    for _ in 0..ACKNOWLEDGED {
        let tool = *deployment.rng.pick(&["pay_n", "pay_k"]);
        let order = deployment.order(tool, None);
        let number = deployment.somewhere();
        deployment.ask(number, &order).await;
        orders.push(order);
    }
    let mut calls = Vec::new();
    let mut owners = Vec::new();
    for number in 0..UNDER_WAY {
        let order = under_way(deployment, number, away);
        let owner = deployment.somewhere();
        calls.push(deployment.begin(owner, &order));
        owners.push((owner, order.clone()));
        orders.push(order);
    }
    sleep(Duration::from_millis(500)).await;
    let began = Instant::now();
    deployment.take_store_away(outage).await?;
    while began.elapsed() + Duration::from_millis(400) < away {
        let order = orders[deployment.rng.index(ACKNOWLEDGED)].clone();
        let number = deployment.somewhere();
        calls.push(deployment.begin(number, &order));
        sleep(Duration::from_millis(300)).await;
    }
    sleep(away.saturating_sub(began.elapsed())).await;
    deployment.bring_store_back(outage).await?;
    orders.append(&mut burst(deployment, &owners, &mut calls).await);
    for call in calls {
        let _ = call.await;
    }
    Ok(orders)
}

/// A call that the upstream answers during the outage or after it, after its effect or before it.
fn under_way(deployment: &mut Deployment, number: usize, away: Duration) -> Order {
    let away_ms = u64::try_from(away.as_millis()).unwrap_or(u64::MAX);
    let class = if number.is_multiple_of(2) { "long_k" } else { "long_n" };
    let wait_ms = 500 + if number % 4 < 2 { away_ms / 2 } else { away_ms + deployment.rng.between(200, 3_000) };
    let order = deployment.order(class, None);
    let script = if deployment.rng.permille(500) {
        format!("effect,delay:{wait_ms},answer|effect,delay:1500,answer")
    } else {
        format!("delay:{wait_ms},effect,answer|delay:1500,effect,answer")
    };
    Order { script, ..order }
}

/// Until every owner has reported that it lives: running keys arrive at other gateways, and new calls begin, with duplicates
/// elsewhere and with other calls that change the same account.
async fn burst(
    deployment: &mut Deployment,
    owners: &[(usize, Order)],
    calls: &mut Vec<JoinHandle<Answer>>,
) -> Vec<Order> {
    let lasts = deployment.silence() / 3 + Duration::from_millis(500);
    // The same pressure on owners that may be silent for longer.
    let every = BURST_EVERY.max(lasts / 40);
    let (started, mut fresh) = (Instant::now(), Vec::new());
    while started.elapsed() < lasts {
        let (owner, order) = deployment.rng.pick(owners).clone();
        calls.push(deployment.begin(deployment.other(owner), &order));
        let account = format!("shared-{}", deployment.rng.between(0, ACCOUNTS));
        let shared = deployment.rng.permille(500).then_some(account.as_str());
        let tool = *deployment.rng.pick(&["turn_n", "turn_k", "slow_n", "slow_k"]);
        let order = deployment.order(tool, shared.filter(|_| tool.starts_with("turn")));
        let order = Order { script: "delay:900,effect,answer|delay:300,effect,answer".to_owned(), ..order };
        let number = deployment.somewhere();
        calls.push(deployment.begin(number, &order));
        sleep(every).await;
        calls.push(deployment.begin(deployment.other(number), &order));
        fresh.push(order);
    }
    fresh
}
