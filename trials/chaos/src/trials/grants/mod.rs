//! T2: a grant for some calls, drawn on by more of them at once over all gateways, while gateways are killed, paused longer than an owner may be
//! silent, or die at their failpoints, and while a person takes the grant back.
//!
//! Every call is another payload with a key of its own below the grant's folder; a part of them comes twice at once, and all come again at
//! other gateways until their answer is final. The trial says in the history what people allowed and when they took it back; the checker
//! (`checker/grants.rs`) judges it by the upstream's file, by every answer, and by the uses that the gateway lists.

mod trouble;

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::sleep};

use super::Deployment;
use crate::{
    agent::{Answer, Order},
    console::PersonAtConsole,
    history::Allowed,
    matrix::Stop,
    people::{self, Keys},
    world::ApprovalTimes,
};
use trouble::Trouble;

const REPLICAS: usize = 3;
/// Every trouble once.
const ROUNDS: usize = Trouble::ALL.len();
const LONG_ROUNDS: usize = 8 * ROUNDS;
const HOUR_SEC: u64 = 3_600;
const PATIENCE: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// What the approved call pays; the grant is for no more.
const PAYMENT_MAX: i64 = 1_000;
/// Calls that pay more, and so are none of the grant's.
const CALLS_BEYOND: u64 = 3;
/// Calls that begin when the grant has been taken back.
const LATE_CALLS: usize = 8;

/// A grant and the calls that draw on it.
#[derive(Debug)]
struct Round {
    ticket: String,
    folder: String,
    tool: &'static str,
    uses: u64,
    calls: Vec<Order>,
    /// The uses that were listed when the grant had just been taken back.
    draws_at_revocation: Option<Value>,
}

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    let times = ApprovalTimes { decide_within_sec: HOUR_SEC, use_within_sec: HOUR_SEC };
    let keys = deployment.start_with_people(REPLICAS, times).await?;
    let rounds = if deployment.long { LONG_ROUNDS } else { ROUNDS };
    let (mut ended, mut calls) = (Vec::new(), 0);
    for number in 0..rounds {
        let trouble = Trouble::ALL[number % ROUNDS];
        let mut round = allow(deployment, &keys, number, trouble).await?;
        storm(deployment, &keys, &mut round, trouble).await?;
        settle(deployment, &round, trouble).await?;
        calls += round.calls.len();
        ended.push((round, trouble));
    }
    let mut listed = Vec::new();
    let (mut allowed, mut drawn) = (0, 0);
    for (round, trouble) in &ended {
        let uses = draws(deployment, &round.ticket).await?;
        let count = uses.as_array().map_or(0, Vec::len) as u64;
        let asked = round.calls.iter().filter(|call| call.amount <= PAYMENT_MAX).count() as u64;
        deployment.expect(trouble.revokes() || count == round.uses.min(asked), || {
            format!("{trouble:?}: {count} uses of {} were drawn, and {asked} calls asked", round.uses)
        });
        listed.push(json!({
            "ticket": round.ticket, "draws": uses, "draws_at_revocation": round.draws_at_revocation,
        }));
        (allowed, drawn) = (allowed + round.uses, drawn + count);
    }
    let file = deployment.setup.folder.join("grants.json");
    std::fs::write(&file, json!(listed).to_string()).map_err(|error| error.to_string())?;
    deployment.grants = Some(file);
    let (gateways, all) = (gateways(deployment)?, deployment.members.len());
    deployment.expect(gateways == all, || format!("only {gateways} of {all} gateways performed calls under grants"));
    let revoked = ended.iter().filter(|(_, trouble)| trouble.revokes()).count();
    deployment.figures.push(format!(
        "{rounds} grants for {allowed} calls, asked for by {calls}: {drawn} drawn by {gateways} gateways; {revoked} grants \
         taken back meanwhile"
    ));
    Ok(())
}

/// How many gateways sent calls under grants, by the upstream's file.
fn gateways(deployment: &Deployment) -> Result<usize, Stop> {
    let books = std::fs::read_to_string(&deployment.hostile.books_file).map_err(|error| error.to_string())?;
    let entries = books.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let sent = entries.filter(|entry| entry["call"].as_str().is_some_and(|name| name.contains("/call-")));
    Ok(sent.filter_map(|entry| entry["gateway"].as_str().map(str::to_owned)).collect::<BTreeSet<_>>().len())
}

/// People approve a call, which is performed, and then allow calls like it in the console.
async fn allow(deployment: &mut Deployment, keys: &Keys, number: usize, trouble: Trouble) -> Result<Round, Stop> {
    // Eight rounds later, a trouble meets another class.
    let tool = ["filed_n", "filed_k", "filed_q"][number % 3];
    let folder = format!("/{}/{number}/", deployment.store.name());
    for gateway in 0..deployment.members.len() {
        // A gateway that met a hostile upstream leaves it alone for a while.
        deployment.greet(gateway).await?;
    }
    let first = Order { amount: PAYMENT_MAX, ..order(deployment, tool, &folder, "first") };
    let asked = deployment.ask(0, &first).await;
    let Some(ticket) = ticket_of(&asked) else {
        return Err(Stop::Broken(format!("a call that needs an approval: {}", asked.short())));
    };
    people::approve(&deployment.setup, &deployment.members[0].folder, &ticket, &keys.approver).await?;
    let done = deployment.persist(0, &first, PATIENCE).await;
    if !done.is_success() {
        return Err(Stop::Broken(format!("the approved call: {}", done.short())));
    }
    let ((uses, calls), at) = (trouble.numbers(&mut deployment.rng), deployment.somewhere());
    let person = PersonAtConsole::sign_in(deployment.gateway(at)?.address, &keys.approver).await?;
    person.make_grant(&ticket, uses).await?;
    let (first, payload_max) = (&*first.business, PAYMENT_MAX);
    deployment.history()?.grant(&Allowed { ticket: &ticket, folder: &folder, first, payload_max, uses });
    let mut round = Round { ticket, folder, tool, uses, calls: Vec::new(), draws_at_revocation: None };
    for call in 0..calls {
        let amount = i64::try_from(deployment.rng.between(0, PAYMENT_MAX.unsigned_abs() + 1)).unwrap_or(0);
        let amount = if call < CALLS_BEYOND { PAYMENT_MAX + 1 + amount } else { amount };
        round.calls.push(Order { amount, ..another(deployment, &round) });
    }
    Ok(round)
}

/// All calls at once, a part of them twice, with trouble meanwhile; then all of them at other gateways.
async fn storm(deployment: &mut Deployment, keys: &Keys, round: &mut Round, trouble: Trouble) -> Result<(), Stop> {
    for call in &round.calls {
        if deployment.rng.permille(300) {
            let script = *deployment.rng.pick(trouble.scripts());
            deployment.hostile.plan(&call.business, script).await?;
        }
    }
    trouble.prepare(deployment).await?;
    let mut wave = Vec::new();
    for (number, call) in round.calls.iter().enumerate() {
        let wait = Duration::from_millis(deployment.rng.between(0, trouble.begin_ms()));
        let gateway = number % deployment.members.len();
        wave.push(deployment.begin_after(gateway, call, wait));
        if deployment.rng.permille(300) {
            wave.push(deployment.begin_after(deployment.other(gateway), call, wait));
        }
    }
    trouble.befall(deployment, keys, round, &mut wave).await?;
    if trouble.revokes() {
        for _ in 0..LATE_CALLS {
            round.calls.push(another(deployment, round));
        }
    }
    for (number, call) in round.calls.iter().enumerate() {
        wave.push(deployment.begin(deployment.other(number % deployment.members.len()), call));
    }
    for call in wave {
        let _ = call.await;
    }
    Ok(())
}

/// Asks for every call until its answer is final.
async fn settle(deployment: &mut Deployment, round: &Round, trouble: Trouble) -> Result<(), Stop> {
    let (started, mut done) = (Instant::now(), 0);
    let mut open: Vec<&Order> = round.calls.iter().collect();
    let mut last = String::new();
    while !open.is_empty() && started.elapsed() < PATIENCE {
        let mut asked: Vec<(&Order, JoinHandle<Answer>)> = Vec::new();
        for call in open {
            let gateway = deployment.somewhere();
            asked.push((call, deployment.begin(gateway, call)));
        }
        open = Vec::new();
        for (call, asked) in asked {
            let answer = asked.await.map_err(|error| error.to_string())?;
            done += usize::from(answer.is_success());
            let is_final = answer.is_success() || answer.is_unknown_for_good() || answer.says_it_happened();
            if !is_final && ticket_of(&answer).is_none() {
                last = format!("{}: {}", call.key, answer.short());
                open.push(call);
            }
        }
        sleep(if open.is_empty() { Duration::ZERO } else { LOOK_AGAIN }).await;
    }
    let left = open.len();
    deployment.expect(left == 0, || format!("{trouble:?}: {left} calls get no final answer, e.g. {last}"));
    deployment.expect(trouble != Trouble::None || done > 0, || format!("{trouble:?}: no call of the grant is done"));
    Ok(())
}

/// A call of a round, of its own name and key.
fn another(deployment: &Deployment, round: &Round) -> Order {
    order(deployment, round.tool, &round.folder, "call")
}

fn order(deployment: &Deployment, tool: &str, folder: &str, name: &str) -> Order {
    let order = deployment.order(tool, None);
    Order { business: format!("{folder}{name}-{}", order.business), ..order }
}

/// The ticket of a call that waits for people.
fn ticket_of(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Refused(refusal) if refusal.message.contains("waits for approval") => refusal.handle.clone(),
        _ => None,
    }
}

/// The uses of a grant that the gateway lists.
async fn draws(deployment: &Deployment, ticket: &str) -> Result<Value, Stop> {
    draws_of(&people::grant(&deployment.setup, &deployment.members[0].folder, ticket).await?)
}

fn draws_of(shown: &Value) -> Result<Value, Stop> {
    // Without uses there is no such member.
    let draws = if shown["used"] == 0 { json!([]) } else { shown["draws"].clone() };
    if draws.is_array() { Ok(draws) } else { Err(Stop::Broken(format!("`grants show` lists no uses: {shown}"))) }
}
