//! Named trials of single promises, each with its own seed, each runnable alone (`--trial NAME`), each in a short form and in a
//! long one (`--long`), in which owners may be silent as long as in real deployments. The history checker judges the answers;
//! each trial checks its own promise besides.

mod approvals;
mod away;
mod clocks;
mod damage;
mod deployment;
mod ends;
mod full;
mod grants;
mod k_down;
mod late;
mod orphans;

use std::{future::Future, path::Path, pin::Pin, sync::Arc, time::Instant};

use tokio::{sync::Semaphore, task::JoinSet};

use crate::{checker, history::digest, matrix::Stop, options::Options, world::Store};

pub use deployment::Deployment;

/// How many trials run concurrently: they mostly wait.
const SIDE_BY_SIDE: usize = 4;

type Run = for<'a> fn(&'a mut Deployment) -> Pin<Box<dyn Future<Output = Result<(), Stop>> + Send + 'a>>;

/// A trial.
#[derive(Debug, Clone, Copy)]
struct Named {
    name: &'static str,
    run: Run,
}

const TRIALS: [Named; 10] = [
    Named { name: "away", run: |deployment| Box::pin(away::run(deployment)) },
    Named { name: "late", run: |deployment| Box::pin(late::run(deployment)) },
    Named { name: "k_down", run: |deployment| Box::pin(k_down::run(deployment)) },
    Named { name: "full", run: |deployment| Box::pin(full::run(deployment)) },
    Named { name: "damage", run: |deployment| Box::pin(damage::run(deployment)) },
    Named { name: "orphans", run: |deployment| Box::pin(orphans::run(deployment)) },
    Named { name: "clocks", run: |deployment| Box::pin(clocks::run(deployment)) },
    Named { name: "approvals", run: |deployment| Box::pin(approvals::run(deployment)) },
    Named { name: "grants", run: |deployment| Box::pin(grants::run(deployment)) },
    Named { name: "ends", run: |deployment| Box::pin(ends::run(deployment)) },
];

/// How a trial ended.
#[derive(Debug)]
pub struct Ended {
    pub name: &'static str,
    pub store: Store,
    pub seed: u64,
    pub seconds: u64,
    /// What it did, as figures.
    pub figures: Vec<String>,
    /// The mistakes that it found itself.
    pub wrong: Vec<String>,
    pub checked: Option<checker::Verdict>,
    /// Why it did not run: a feature is missing, or this store does not have it.
    pub not_run: Option<String>,
}

/// The names that `--trial` takes.
pub fn names() -> Vec<&'static str> {
    TRIALS.iter().map(|trial| trial.name).collect()
}

/// Runs the wanted trials on one store.
pub async fn run(options: &Options, store: Store, folder: &Path) -> Vec<Ended> {
    let places = Arc::new(Semaphore::new(SIDE_BY_SIDE));
    let mut running = JoinSet::new();
    for trial in
        TRIALS.into_iter().filter(|trial| options.trials.iter().any(|name| name == "all" || name == trial.name))
    {
        let (options, places) = (options.clone(), places.clone());
        let folder = folder.join(format!("trial-{}", trial.name));
        running.spawn(async move {
            let _place = places.acquire().await;
            one(&options, trial, store, &folder).await
        });
    }
    let mut ended = Vec::new();
    while let Some(one) = running.join_next().await {
        ended.extend(one);
    }
    ended.sort_by_key(|one| names().iter().position(|name| *name == one.name));
    ended
}

async fn one(options: &Options, trial: Named, store: Store, folder: &Path) -> Ended {
    let (started, seed) = (Instant::now(), options.seed ^ (digest(trial.name) % 1_000_000_007));
    let mut ended = Ended {
        name: trial.name,
        store,
        seed,
        seconds: 0,
        figures: Vec::new(),
        wrong: Vec::new(),
        checked: None,
        not_run: None,
    };
    let mut deployment = match Deployment::new(options, trial.name, store, folder, seed).await {
        Ok(deployment) => deployment,
        Err(why) => {
            ended.wrong.push(why);
            return ended;
        }
    };
    match (trial.run)(&mut deployment).await {
        Ok(()) => {}
        Err(Stop::NotYet(why)) => ended.not_run = Some(format!("not yet: {why}")),
        Err(Stop::NotHere(why)) => ended.not_run = Some(format!("not here: {why}")),
        Err(Stop::Broken(why)) => deployment.wrong.push(why),
    }
    match deployment.judge().await {
        Ok(verdict) => ended.checked = Some(verdict).filter(|verdict| verdict.counts.answers > 0),
        Err(why) => ended.wrong.push(why),
    }
    deployment.end().await;
    ended.wrong.append(&mut deployment.wrong);
    ended.figures.append(&mut deployment.figures);
    ended.seconds = started.elapsed().as_secs();
    eprintln!("{} {} took {} s", trial.name, store.name(), ended.seconds);
    ended
}
