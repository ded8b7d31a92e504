//! A8: a gateway under a supervisor that sends SIGTERM and kills after ten seconds. The gateway ends by itself before that,
//! with calls in flight, with its store away and with a stdio server that ignores signals. No process of its servers is left,
//! not even after the gateway itself was killed.

use std::{
    fs,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::time::sleep;

use super::{Deployment, deployment::Outage};
use crate::{agent::Order, gateway::Launch, matrix::Stop, world::Store};

/// After this time a supervisor kills.
const SUPERVISOR: Duration = Duration::from_secs(10);
/// How long the trial waits for the end.
const LOOK: Duration = Duration::from_secs(20);
/// How long processes of a dead gateway may take to end.
const LEFT_PATIENCE: Duration = Duration::from_secs(3);
const HOLD_PATIENCE: Duration = Duration::from_secs(5);
const CALLS: usize = 4;

/// The difficulty while it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum While {
    Idle,
    CallsInFlight,
    StoreAway(Outage),
    Killed,
}

pub async fn run(deployment: &mut Deployment) -> Result<(), Stop> {
    deployment.is_listed = false;
    deployment.setup.long_ms_max = 120_000;
    let marker = format!("chaos-marker-{}-{}", std::process::id(), deployment.store.name());
    let own = std::env::current_exe().map_err(|error| error.to_string())?.display().to_string();
    // Signals that a shell ignores are also ignored by the program that it executes.
    let script = "trap '' TERM HUP INT PIPE; exec \"$0\" stubborn \"$1\"".to_owned();
    let program = vec!["/bin/sh".to_owned(), "-c".to_owned(), script, own, marker.clone()];
    deployment.setup.stdio.push(("stubborn".to_owned(), program));
    let mut cases = vec![While::Idle, While::CallsInFlight, While::StoreAway(Outage::Crash), While::Killed];
    if deployment.store == Store::Postgres {
        cases.push(While::StoreAway(Outage::Freeze));
    }
    deployment.start_gateways(1).await?;
    for (number, case) in cases.into_iter().enumerate() {
        let ended = one_end(deployment, number, case, &marker).await;
        for process in left(&marker) {
            let _ = kill_process(process, Signal::KILL);
        }
        ended?;
        deployment.add_gateway()?;
    }
    Ok(())
}

async fn one_end(deployment: &mut Deployment, number: usize, case: While, marker: &str) -> Result<(), Stop> {
    if deployment.members[number].gateway.is_none() {
        deployment.start(number, &Launch::default()).await?;
    }
    // A call starts the server, if nothing did before.
    deployment.ask(number, &deployment.order("stubborn.read_r", None)).await;
    let before = left(marker).len();
    deployment.expect(before >= 2, || format!("{case:?}: the server and its child do not run: {before} processes"));
    let calls = if case == While::Idle { Vec::new() } else { in_flight(deployment, number).await? };
    if let While::StoreAway(outage) = case {
        deployment.take_store_away_of(number, outage).await?;
    }
    let took = if case == While::Killed {
        deployment.kill(number).await;
        None
    } else {
        Some(terminated(deployment, number).await?)
    };
    sleep(LEFT_PATIENCE).await;
    let after = left(marker).len();
    deployment.expect(after == 0, || format!("{case:?}: {after} processes of its servers are left"));
    if let Some(took) = took {
        deployment.expect(took < SUPERVISOR, || {
            format!("{case:?}: it took {took:?} to end; its supervisor kills after {SUPERVISOR:?}")
        });
    }
    let shown = took.map_or_else(String::new, |took| format!("{:.2} s, ", took.as_secs_f64()));
    deployment.figures.push(format!("{case:?}: {shown}{after} processes left"));
    if let (While::StoreAway(outage), Some(_)) = (case, &deployment.postgres) {
        deployment.bring_store_back(outage).await?;
    }
    deployment.kill(number).await;
    for call in calls {
        call.abort();
    }
    Ok(())
}

/// Calls that their upstream holds.
async fn in_flight(
    deployment: &mut Deployment,
    number: usize,
) -> Result<Vec<tokio::task::JoinHandle<crate::agent::Answer>>, Stop> {
    let mut calls = Vec::new();
    for count in 0..CALLS {
        let order = deployment.order(if count % 2 == 0 { "long_k" } else { "long_n" }, None);
        let order = Order { script: "effect,hold,answer".to_owned(), ..order };
        calls.push(deployment.begin(number, &order));
        if !deployment.hostile.holds(&order.business, HOLD_PATIENCE).await? {
            return Err(Stop::Broken(format!("{} did not reach the upstream", order.key)));
        }
    }
    Ok(calls)
}

/// How long it takes to end after SIGTERM.
async fn terminated(deployment: &mut Deployment, number: usize) -> Result<Duration, Stop> {
    let member = &mut deployment.members[number];
    let gateway = member.gateway.as_mut().ok_or_else(|| Stop::Broken("there is no gateway to end".to_owned()))?;
    let started = Instant::now();
    gateway.terminate();
    gateway.ended(LOOK).await;
    Ok(started.elapsed())
}

/// The processes with the marker in their command line, except the trial itself.
fn left(marker: &str) -> Vec<Pid> {
    let carries = |process: fs::DirEntry| {
        let number = process.file_name().to_str()?.parse::<i32>().ok()?;
        let line = fs::read(process.path().join("cmdline")).ok()?;
        let has = String::from_utf8_lossy(&line).split('\0').any(|word| word == marker);
        has.then(|| Pid::from_raw(number)).flatten()
    };
    fs::read_dir("/proc").map(|all| all.filter_map(Result::ok).filter_map(carries).collect()).unwrap_or_default()
}
