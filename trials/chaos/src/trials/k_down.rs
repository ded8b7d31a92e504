//! A2 (a): a call was executed, its connection was lost, and then its upstream is down, first refusing connections, then with
//! its breaker open. No answer may say about that key that nothing was sent. When the upstream is back, the key is answered
//! with its result.

use std::time::Duration;

use tokio::time::sleep;

use super::Deployment;
use crate::{
    agent::{Answer, Order},
    matrix::Stop,
};

/// How often the keys are requested while the upstream is down: more often than the failures that open a breaker.
const ROUNDS_DOWN: usize = 4;
const HOLD_PATIENCE: Duration = Duration::from_secs(5);
/// A breaker that has opened repeatedly stays open for thirty seconds.
const BREAKER_PATIENCE: Duration = Duration::from_secs(45);

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    deployment.start_gateways(2).await?;
    let rounds = if deployment.long { 6 } else { 2 };
    let (mut asked, mut keys) = (0, 0);
    for _ in 0..rounds {
        let orders = executed_and_lost(deployment).await?;
        keys += orders.len();
        for _ in 0..ROUNDS_DOWN {
            for order in &orders {
                let number = deployment.somewhere();
                deployment.ask(number, order).await;
                asked += 1;
            }
        }
        deployment.hostile.restart().await?;
        for order in orders {
            let number = deployment.somewhere();
            let answer = deployment.persist(number, &order, BREAKER_PATIENCE).await;
            let is_k = order.tool.ends_with('k');
            let told = answer.is_success() || !is_k && (answer.says_it_happened() || answer.is_unknown());
            deployment.expect(told, || format!("{}: when its upstream is back: {}", order.key, answer.short()));
        }
        // The next round begins when no gateway's breaker is open any more.
        for number in 0..deployment.members.len() {
            let order = deployment.order("pay_k", None);
            let answer = deployment.persist(number, &order, BREAKER_PATIENCE).await;
            deployment.expect(answer.is_success(), || format!("gateway {number} after a round: {}", answer.short()));
        }
    }
    deployment.figures.push(format!("{keys} keys executed and lost, asked {asked} times with the upstream down"));
    Ok(())
}

/// Calls that are executed and whose upstream dies before it answers.
async fn executed_and_lost(deployment: &mut Deployment) -> Result<Vec<Order>, Stop> {
    let (mut orders, mut calls) = (Vec::new(), Vec::new());
    for tool in ["slow_k", "slow_k", "turn_k", "slow_q", "slow_n"] {
        let order = deployment.order(tool, None);
        let order = Order { script: "effect,hold,answer".to_owned(), ..order };
        let number = deployment.somewhere();
        calls.push(deployment.begin(number, &order));
        orders.push(order);
    }
    for order in &orders {
        if !deployment.hostile.holds(&order.business, HOLD_PATIENCE).await? {
            return Err(Stop::Broken(format!("{} did not reach the upstream", order.key)));
        }
    }
    deployment.hostile.kill().await;
    for call in calls {
        let told = call.await.unwrap_or_else(|error| Answer::Nothing(error.to_string()));
        deployment.expect(!told.is_success(), || format!("a lost call was told done: {}", told.short()));
    }
    sleep(Duration::from_millis(100)).await;
    Ok(orders)
}
