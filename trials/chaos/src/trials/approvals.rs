//! T2, T5: an approval is used once, however many calls redeem it at once and whichever gateway dies; and no time, restart or clock approves.
//!
//! The redeeming calls have the same bytes and keys of their own, so that only the approval stands between them. The upstream's books judge:
//! they are asked directly, not by way of the gateways.

use std::time::Duration;

use tokio::{task::JoinSet, time::sleep};

use super::Deployment;
use crate::{
    agent::{Answer, Order, Refusal},
    gateway::{Launch, faketime},
    matrix::Stop,
    people::{self, Keys},
    world::ApprovalTimes,
};

const REPLICAS: usize = 3;
const REDEEMERS: usize = 100;
const ROUNDS: usize = 4;
const LONG_ROUNDS: usize = 40;
const PATIENCE: Duration = Duration::from_secs(20);
/// A time to decide that the trial waits for.
const SHORT_SEC: u64 = 4;
const HOUR_SEC: u64 = 3_600;

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    let times = ApprovalTimes { decide_within_sec: HOUR_SEC / 2, use_within_sec: HOUR_SEC / 2 };
    let keys = deployment.start_with_people(REPLICAS, times).await?;
    redemptions(deployment, &keys).await?;
    clock_forward(deployment, &keys).await?;
    stopped_over_the_deadline(deployment, &keys).await
}

/// Many calls redeem one approval at once; in every other round a gateway is killed in the middle.
async fn redemptions(deployment: &mut Deployment, keys: &Keys) -> Result<(), Stop> {
    let rounds = if deployment.long { LONG_ROUNDS } else { ROUNDS };
    let (mut performed, mut lost) = (0, 0);
    for round in 0..rounds {
        // Calls that wait for their turn would not redeem at once.
        let order = deployment.order("filed_n", None);
        // Not in the history: the checker takes it for granted that a payload has one key.
        let asked = order.call(deployment.gateway(0)?.address, PATIENCE).await;
        approve(deployment, keys, &waits(asked)?).await?;
        let mut calls = JoinSet::new();
        for number in 0..REDEEMERS {
            let gateway = number % deployment.members.len();
            let address = deployment.gateway(gateway)?.address;
            let order = Order { key: format!("{}-{number}", order.key), ..order.clone() };
            calls.spawn(async move { order.call(address, PATIENCE).await });
        }
        let is_killed = round % 2 == 1;
        if is_killed {
            let (victim, after_ms) = (deployment.somewhere(), deployment.rng.between(0, 40));
            sleep(Duration::from_millis(after_ms)).await;
            deployment.kill(victim).await;
            deployment.start(victim, &Launch::default()).await?;
        }
        let answers: Vec<Answer> = calls.join_all().await;
        let done = answers.iter().filter(|answer| answer.is_success()).count();
        let effects = deployment.hostile.account(&order.business).await?.receipts.len();
        deployment.expect(effects <= 1, || format!("one approval had {effects} effects"));
        deployment
            .expect(done <= effects, || format!("{done} calls were told that they are done, of {effects} effects"));
        deployment.expect(is_killed || (effects, done) == (1, 1), || {
            format!("without a kill, an approved call was performed {effects} times, and {done} calls were told")
        });
        let strange = answers.iter().find(|answer| matches!(answer, Answer::Strange(_)));
        deployment.expect(strange.is_none(), || strange.map(Answer::short).unwrap_or_default());
        (performed, lost) = (performed + effects, lost + usize::from(effects == 0));
    }
    deployment.figures.push(format!(
        "{rounds} approvals, each redeemed {REDEEMERS} times at once: {performed} effects, {lost} without one because of a kill"
    ));
    Ok(())
}

/// The store's clock jumps an hour forward: what waits and what is approved are over, and nothing is sent.
async fn clock_forward(deployment: &mut Deployment, keys: &Keys) -> Result<(), Stop> {
    if faketime().is_none() {
        deployment.figures.push("libfaketime is not installed: the clock was not moved".to_owned());
        return Ok(());
    }
    let (undecided, is_approved) = (deployment.order("pay_n", None), deployment.order("pay_n", None));
    let waiting = pending(deployment, 0, &undecided).await?;
    let approved = pending(deployment, 0, &is_approved).await?;
    approve(deployment, keys, &approved).await?;
    move_clock(deployment, "+1h").await?;
    let late =
        people::approve(&deployment.setup, &deployment.members[0].folder, &handle(&waiting)?, &keys.approver).await;
    if deployment.postgres.is_some() {
        // The clock of the command is not the store's, which decides.
        deployment.expect(late.is_err(), || "a ticket was approved after its time".to_owned());
    }
    for (order, words) in [(&is_approved, "lapsed"), (&undecided, "nobody decided")] {
        let answer = deployment.ask(0, order).await;
        let told = matches!(&answer, Answer::Refused(refusal) if refusal.gate == "confirmation");
        deployment.expect(told, || format!("after an hour: {}", answer.short()));
        let is_expected = deployment.postgres.is_none() && late.is_ok() || answer.short().contains(words);
        deployment.expect(is_expected, || format!("it was not told `{words}`: {}", answer.short()));
        no_effect(deployment, order, "after an hour").await?;
    }
    move_clock(deployment, "+0h").await
}

/// The gateways are down when the time to decide, or the time to use an approval, ends.
async fn stopped_over_the_deadline(deployment: &mut Deployment, keys: &Keys) -> Result<(), Stop> {
    let short = ApprovalTimes { decide_within_sec: SHORT_SEC, use_within_sec: SHORT_SEC };
    stop_all(deployment).await;
    deployment.setup.approvals = Some(short);
    deployment.write_again()?;
    start_all(deployment).await?;
    let (undecided, is_approved) = (deployment.order("pay_n", None), deployment.order("pay_n", None));
    let approved = pending(deployment, 0, &is_approved).await?;
    approve(deployment, keys, &approved).await?;
    let waiting = pending(deployment, 0, &undecided).await?;
    stop_all(deployment).await;
    sleep(Duration::from_secs(SHORT_SEC + 1)).await;
    let late =
        people::approve(&deployment.setup, &deployment.members[0].folder, &handle(&waiting)?, &keys.approver).await;
    deployment.expect(late.is_err(), || "a ticket was approved after its time, while no gateway ran".to_owned());
    start_all(deployment).await?;
    for (order, words) in [(&undecided, "nobody decided"), (&is_approved, "lapsed")] {
        let answer = deployment.ask(0, order).await;
        deployment.expect(answer.short().contains(words), || format!("it was not told `{words}`: {}", answer.short()));
        no_effect(deployment, order, "after the deadline").await?;
        // It may ask again, and that call can be approved.
        let again = pending(deployment, 0, order).await?;
        approve(deployment, keys, &again).await?;
        let done = deployment.persist(0, order, PATIENCE).await;
        deployment.expect(done.is_success(), || format!("approved at last: {}", done.short()));
    }
    deployment
        .figures
        .push("gateways down over both deadlines: nothing was approved, and both could be asked for again".to_owned());
    Ok(())
}

/// Calls, and gets a ticket.
async fn pending(deployment: &Deployment, number: usize, order: &Order) -> Result<Refusal, Stop> {
    waits(deployment.ask(number, order).await)
}

/// The refusal of a call that waits for people.
fn waits(answer: Answer) -> Result<Refusal, Stop> {
    match answer {
        Answer::Refused(refusal)
            if refusal.gate == "confirmation" && refusal.message.contains("waits for approval") =>
        {
            Ok(refusal)
        }
        answer => Err(Stop::Broken(format!("a call that needs an approval: {}", answer.short()))),
    }
}

fn handle(refusal: &Refusal) -> Result<String, Stop> {
    refusal.handle.clone().ok_or_else(|| Stop::Broken(format!("no ticket: {}", refusal.text)))
}

async fn approve(deployment: &Deployment, keys: &Keys, waiting: &Refusal) -> Result<(), Stop> {
    let (folder, ticket) = (&deployment.members[0].folder, handle(waiting)?);
    let approved = people::approve(&deployment.setup, folder, &ticket, &keys.approver).await;
    approved.map_err(|why| Stop::Broken(format!("a person's approval: {why}")))
}

async fn no_effect(deployment: &mut Deployment, order: &Order, when: &str) -> Result<(), Stop> {
    let account = deployment.hostile.account(&order.business).await?;
    deployment.expect(account.calls == 0, || format!("{when}: {} calls reached the upstream", account.calls));
    Ok(())
}

async fn stop_all(deployment: &mut Deployment) {
    for number in 0..deployment.members.len() {
        deployment.kill(number).await;
    }
}

async fn start_all(deployment: &mut Deployment) -> Result<(), Stop> {
    for number in 0..deployment.members.len() {
        deployment.start(number, &Launch::default()).await?;
    }
    Ok(())
}

/// Moves the store's clock: PostgreSQL's own, or for SQLite that of its gateway.
async fn move_clock(deployment: &mut Deployment, clock: &str) -> Result<(), Stop> {
    stop_all(deployment).await;
    let mut launch = Launch::default();
    match &deployment.postgres {
        Some(postgres) => {
            postgres.crash().await?;
            postgres.up(Some(clock)).await?;
        }
        None => launch.clock = Some(clock.to_owned()),
    }
    for number in 0..deployment.members.len() {
        deployment.start(number, &launch).await?;
    }
    Ok(())
}
