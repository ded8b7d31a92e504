//! Random schedules: clients that retry like impatient agents, and everything under them fails as a seed decides. Then
//! everything is healed, recovery gets time, and the oracle compares the answers with what happened.

mod budget;
mod clients;
mod disasters;
mod oracle;
mod paths;

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::{task::JoinSet, time::sleep};

use crate::{
    history::History,
    hostile::Hostile,
    log,
    options::Options,
    postgres::Postgres,
    report::RandomFigures,
    rng::Rng,
    world::{Setup, Store},
};
use clients::{Client, KeyLog, replica_name};
use disasters::{Disasters, Replica};

/// A schedule that ends by its number of keys has a time limit too.
const CALLS_SECONDS_MAX: u64 = 6 * 3600;
const PROGRESS: Duration = Duration::from_secs(10);

/// What clients and disasters share.
#[derive(Debug)]
pub struct Scene {
    pub store: Store,
    pub setup: Setup,
    pub hostile: Arc<Hostile>,
    /// Where each replica listens now.
    pub addresses: RwLock<Vec<Option<std::net::SocketAddr>>>,
    pub over: AtomicBool,
    /// Keys begun so far, and how many there may be.
    pub begun: AtomicU64,
    pub keys_max: u64,
    /// How many calls in a thousand meet a hostile script.
    pub hostile_permille: u64,
    pub logs: Mutex<Vec<KeyLog>>,
    /// Everything that clients were told, for the checker.
    pub history: History,
}

impl Scene {
    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed) || self.begun.load(Ordering::Relaxed) >= self.keys_max
    }

    pub fn keep(&self, log: KeyLog) {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner).push(log);
    }
}

/// One run on one store.
pub async fn run(
    options: &Options,
    store: Store,
    setup: &Setup,
    hostile: &Arc<Hostile>,
    postgres: Option<&Postgres>,
) -> Result<RandomFigures, String> {
    let mut rng = Rng::new(options.seed ^ (store as u64));
    let database = match postgres {
        Some(postgres) => Some(postgres.database(if setup.budget.is_some() { "budget" } else { "random" }).await?),
        None => None,
    };
    let mut replicas = Vec::new();
    for number in 0..if postgres.is_some() { 3 } else { 1 } {
        let folder = setup.folder.join(replica_name(number));
        setup.write(&folder, database.as_deref()).map_err(|error| error.to_string())?;
        replicas.push(Replica::new(folder));
    }
    let trial = if setup.budget.is_some() { "budget" } else { "random" };
    let history = History::begin(&setup.folder, trial, options.seed, store, setup.silence_ms);
    let scene = Arc::new(Scene {
        history: history.map_err(|error| error.to_string())?,
        store,
        setup: setup.clone(),
        hostile: hostile.clone(),
        addresses: RwLock::new(vec![None; replicas.len()]),
        over: AtomicBool::new(false),
        begun: AtomicU64::new(0),
        keys_max: options.calls.unwrap_or(u64::MAX),
        hostile_permille: if options.calm {
            0
        } else if options.calls.is_some() {
            20
        } else {
            400
        },
        logs: Mutex::default(),
    });
    let folder = setup.folder.join("replica-0");
    let mut disasters = Disasters::new(scene.clone(), replicas, rng.fork(), postgres, options.calm);
    disasters.start_all().await?;
    let watcher = tokio::spawn(paths::watch(scene.clone(), folder.clone()));
    let mut clients = JoinSet::new();
    for number in 0..options.clients {
        let classes = options.classes.clone();
        clients.spawn(Client::new(scene.clone(), rng.fork(), number, classes).run());
    }
    let started = Instant::now();
    let seconds = options.random.unwrap_or(CALLS_SECONDS_MAX);
    drive(&scene, &mut disasters, &mut clients, Duration::from_secs(seconds)).await;
    let seconds = started.elapsed().as_secs();
    let count = disasters.counts();
    disasters.heal().await?;
    let mut wrong = watcher.await.unwrap_or_else(|error| vec![error.to_string()]);
    let addresses = scene.addresses.read().unwrap_or_else(PoisonError::into_inner).clone();
    let home = addresses.into_iter().flatten().next().ok_or("no replica is left")?;
    let mut figures = oracle::judge(&scene, &folder, home, &mut rng).await?;
    figures.wrong.append(&mut wrong);
    if let Some(limit) = setup.budget {
        figures.budget = Some(budget::judge(&scene, &folder, limit, &mut figures).await?);
    }
    figures.seconds = seconds;
    figures.disasters = count;
    disasters.end().await;
    match log::verify(setup, &setup.folder.join("replica-0")).await {
        Ok(leaves) => eprintln!("{}: {leaves} leaves of the log hold", store.name()),
        Err(error) => figures.wrong.push(format!("the verifiable log: {error}")),
    }
    Ok(figures)
}

async fn drive(scene: &Arc<Scene>, disasters: &mut Disasters<'_>, clients: &mut JoinSet<()>, lasts: Duration) {
    let (started, mut told) = (Instant::now(), Instant::now());
    while !clients.is_empty() {
        if started.elapsed() > lasts {
            scene.over.store(true, Ordering::Relaxed);
        }
        if told.elapsed() > PROGRESS {
            told = Instant::now();
            let begun = scene.begun.load(Ordering::Relaxed);
            eprintln!("{}: {} s, {begun} keys", scene.store.name(), started.elapsed().as_secs());
        }
        disasters.tick().await;
        while clients.try_join_next().is_some() {}
        sleep(Duration::from_millis(20)).await;
    }
    scene.over.store(true, Ordering::Relaxed);
}
