//! The crash-point matrix of `durable-execution.md`: every row with every class, on every store, as named cases.

mod approvals;
mod crashes;
mod keys;
mod replicas;
mod stores;
mod trial;

use std::{future::Future, pin::Pin, sync::Arc, time::Instant};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    postgres::Postgres,
    world::{Class, Store},
};

pub use trial::{Stage, Stop, Trial};

/// How many cases run concurrently: they mostly wait.
const SIDE_BY_SIDE: usize = 8;

type Run = for<'a> fn(&'a mut Trial) -> Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>>;
type Disruption =
    for<'a> fn(&'a mut Trial, &'a Postgres) -> Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>>;

/// A way to reach a row.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    pub number: u8,
    /// Which of several ways; empty for the first.
    pub way: &'static str,
    pub how: How,
}

/// How a row is reached.
#[derive(Debug, Clone, Copy)]
pub enum How {
    /// Beside other cases.
    Beside(Run),
    /// Alone, because it stops the database for all cases; on PostgreSQL only.
    Alone(Disruption),
    /// Not possible yet, and the reason.
    NotYet(&'static str),
}

/// How a case ended.
#[derive(Debug)]
pub struct Verdict {
    pub name: String,
    pub store: Store,
    pub row: u8,
    pub outcome: Outcome,
    /// Whether its key had more than one effect.
    pub duplicated: bool,
    /// Set if its end stayed unknown: whether it had happened.
    pub unknown: Option<bool>,
    pub ms: u128,
}

/// The result of a case.
#[derive(Debug)]
pub enum Outcome {
    Passed,
    Failed(Vec<String>),
    NotYet(String),
    /// The store has no such thing.
    NotHere(String),
}

/// Every way to every row.
fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    rows.extend(crashes::ROWS);
    rows.extend(keys::ROWS);
    rows.extend(replicas::ROWS);
    rows.extend(stores::ROWS);
    rows.extend(approvals::ROWS);
    rows.sort_by_key(|row| (row.number, row.way));
    rows
}

/// Runs the matrix on one store. Cases that stop the database have their own stage. `only` is a part of a case's name.
pub async fn run(stage: &Arc<Stage>, crashing: &Arc<Stage>, only: Option<&str>) -> Vec<Verdict> {
    let (mut beside, mut verdicts) = (JoinSet::new(), Vec::new());
    let places = Arc::new(Semaphore::new(SIDE_BY_SIDE));
    let wanted = |name: &str| only.is_none_or(|only| name.contains(only));
    let cases: Vec<(Row, Class, String)> = rows().into_iter().flat_map(named).filter(|case| wanted(&case.2)).collect();
    for (row, class, name) in &cases {
        let (stage, places, class, name) = (stage.clone(), places.clone(), *class, name.clone());
        let (number, how) = (row.number, row.how);
        if let How::Beside(run) = how {
            beside.spawn(async move {
                let _place = places.acquire().await;
                judge(&stage, class, &name, number, run).await
            });
        }
    }
    while let Some(verdict) = beside.join_next().await {
        verdicts.extend(verdict);
    }
    for (row, class, name) in cases {
        match (row.how, &crashing.postgres) {
            (How::Alone(disrupt), Some(postgres)) => {
                verdicts.push(judge_alone(crashing, postgres, class, &name, row.number, disrupt).await);
            }
            (How::NotYet(why), _) => {
                let outcome = Outcome::NotYet(why.to_owned());
                let (store, row) = (stage.store, row.number);
                verdicts.push(Verdict { name, store, row, outcome, duplicated: false, unknown: None, ms: 0 });
            }
            _ => {}
        }
    }
    verdicts.sort_by(|one, other| one.name.cmp(&other.name));
    verdicts
}

fn named(row: Row) -> impl Iterator<Item = (Row, Class, String)> {
    Class::ALL.into_iter().map(move |class| {
        let way = if row.way.is_empty() { String::new() } else { format!("_{}", row.way) };
        (row, class, format!("row{:02}_{}{way}", row.number, class.letter()))
    })
}

async fn judge(stage: &Arc<Stage>, class: Class, name: &str, row: u8, run: Run) -> Verdict {
    let started = Instant::now();
    let mut trial = match Trial::new(stage, class, name).await {
        Ok(trial) => trial,
        Err(why) => return broken(stage, name, row, why),
    };
    let ended = run(&mut trial).await;
    conclude(trial, row, ended, started).await
}

async fn judge_alone(
    stage: &Arc<Stage>,
    postgres: &Postgres,
    class: Class,
    name: &str,
    row: u8,
    disrupt: Disruption,
) -> Verdict {
    let started = Instant::now();
    let mut trial = match Trial::new(stage, class, name).await {
        Ok(trial) => trial,
        Err(why) => return broken(stage, name, row, why),
    };
    let ended = disrupt(&mut trial, postgres).await;
    conclude(trial, row, ended, started).await
}

/// Checks what holds for every case: a key has at most one effect, and its state agrees.
async fn conclude(mut trial: Trial, row: u8, ended: Result<(), Stop>, started: Instant) -> Verdict {
    let effects = trial.account().await.map_or(0, |account| account.receipts.len());
    trial.expect(effects <= 1, || format!("{effects} effects of one key"));
    let state = trial.seen().await.ok().flatten().map(|seen| seen.state);
    let unknown = state.is_some_and(|state| state == "outcome_unknown").then_some(effects > 0);
    let outcome = match ended {
        Err(Stop::NotYet(why)) if trial.wrong.is_empty() => Outcome::NotYet(why),
        Err(Stop::NotHere(why)) if trial.wrong.is_empty() => Outcome::NotHere(why),
        Err(Stop::NotYet(why) | Stop::NotHere(why) | Stop::Broken(why)) => {
            trial.wrong.push(why);
            Outcome::Failed(std::mem::take(&mut trial.wrong))
        }
        Ok(()) if trial.wrong.is_empty() => Outcome::Passed,
        Ok(()) => Outcome::Failed(std::mem::take(&mut trial.wrong)),
    };
    if let (Outcome::Failed(wrong), Some(victim)) = (&outcome, &trial.victim)
        && std::env::var_os("CHAOS_VERBOSE").is_some()
    {
        eprintln!("{}: {wrong:?}\n  the gateway said: {}", trial.name, victim.said());
    }
    for mut gateway in [trial.victim.take(), trial.other.take()].into_iter().flatten() {
        gateway.resume();
        gateway.kill().await;
    }
    let (store, ms) = (trial.stage.store, started.elapsed().as_millis());
    Verdict { name: trial.name, store, row, outcome, duplicated: effects > 1, unknown, ms }
}

fn broken(stage: &Stage, name: &str, row: u8, why: String) -> Verdict {
    let outcome = Outcome::Failed(vec![why]);
    Verdict { name: name.to_owned(), store: stage.store, row, outcome, duplicated: false, unknown: None, ms: 0 }
}
