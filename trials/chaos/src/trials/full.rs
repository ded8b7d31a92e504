//! A2 (b): the disk is full, for several lengths of time, under load. Acknowledged keys are requested again meanwhile: no
//! answer may say that nothing was sent.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Deployment, deployment::Outage};
use crate::{agent::Order, matrix::Stop, world::Store};

const ACKNOWLEDGED: usize = 12;
const EVERY: Duration = Duration::from_millis(60);

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    if deployment.store == Store::Postgres {
        return Err(Stop::NotHere("the disk is the database's; `away` is about that".to_owned()));
    }
    deployment.start_gateways(1).await?;
    let silence_ms = deployment.setup.silence_ms;
    let mut lengths_ms = vec![silence_ms / 4, silence_ms, silence_ms * 3 / 2];
    if deployment.long {
        lengths_ms.extend([5_000, 15_000, 30_000, 60_000, 1_000, 20_000]);
    }
    let (mut orders, mut asked) = (Vec::new(), 0);
    for length_ms in &lengths_ms {
        let mut acknowledged = Vec::new();
        for number in 0..ACKNOWLEDGED {
            let order = deployment.order(["pay_n", "pay_k", "turn_n", "pay_q"][number % 4], None);
            deployment.ask(0, &order).await;
            acknowledged.push(order);
        }
        asked += full_for(deployment, &acknowledged, Duration::from_millis(*length_ms), &mut orders).await?;
        orders.append(&mut acknowledged);
    }
    for order in &orders {
        let answer = deployment.persist(0, order, deployment.silence()).await;
        let answered = answer.is_success() || answer.is_unknown() || answer.says_it_happened();
        deployment.expect(answered, || format!("{}: with room on the disk again: {}", order.key, answer.short()));
    }
    deployment
        .figures
        .push(format!("disk full {lengths_ms:?} ms, {} keys, asked {asked} times meanwhile", orders.len()));
    Ok(())
}

/// Fills the disk for this long. Returns how often acknowledged keys were requested.
async fn full_for(
    deployment: &mut Deployment,
    acknowledged: &[Order],
    lasts: Duration,
    orders: &mut Vec<Order>,
) -> Result<usize, Stop> {
    deployment.take_store_away(Outage::Crash).await?;
    let (started, mut calls, mut asked) = (Instant::now(), Vec::new(), 0);
    while started.elapsed() < lasts {
        let order = deployment.rng.pick(acknowledged).clone();
        calls.push(deployment.begin(0, &order));
        asked += 1;
        if deployment.rng.permille(300) {
            let fresh = deployment.order("slow_n", None);
            calls.push(deployment.begin(0, &fresh));
            orders.push(fresh);
        }
        sleep(EVERY).await;
    }
    deployment.bring_store_back(Outage::Crash).await?;
    for call in calls {
        let _ = call.await;
    }
    Ok(asked)
}
