//! Real processes, a hostile upstream and an oracle: whether one key has one effect, whatever breaks.

mod agent;
mod checker;
mod clock;
mod console;
mod effects;
mod gateway;
mod history;
mod hostile;
mod http;
mod log;
mod matrix;
mod options;
mod people;
mod postgres;
mod random;
mod report;
mod rng;
mod stubborn;
mod trials;
mod upstream;
mod world;

use std::{path::Path, process::ExitCode, sync::Arc, time::Instant};

use hostile::Hostile;
use matrix::Stage;
use options::Options;
use postgres::Postgres;
use report::Report;
use world::{Setup, Store};

/// How many calls the budget pays for per second of a schedule: fewer than are made.
const BUDGET_A_SECOND: u64 = 5;

#[tokio::main]
async fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let done = match args.split_first() {
        Some((command, rest)) if command == "upstream" => upstream(rest).await.map(|()| true),
        Some((command, rest)) if command == "check" => checker::run(rest),
        Some((command, rest)) if command == "stubborn" => stubborn::serve(rest).map(|()| true),
        Some((command, _)) if command == "sleeper" => {
            stubborn::stay();
            Ok(true)
        }
        _ => trial(&args).await,
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(2)
        }
    }
}

/// `chaos upstream ADDRESS BOOKS [--sync]`
async fn upstream(args: &[String]) -> Result<(), String> {
    let [address, books, rest @ ..] = args else { return Err("chaos upstream ADDRESS BOOKS [--sync]".to_owned()) };
    let listener = tokio::net::TcpListener::bind(address).await.map_err(|error| error.to_string())?;
    let syncs = rest.iter().any(|arg| arg == "--sync");
    upstream::serve(listener, Path::new(books), syncs).await.map_err(|error| error.to_string())
}

/// Runs the requested trials, and returns whether all passed.
async fn trial(args: &[String]) -> Result<bool, String> {
    let options = Options::parse(args)?;
    println!("seed {}", options.seed);
    let folder = std::env::temp_dir().join(format!("servanda-chaos-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let mut report = Report::new(options.seed);
    let ran = stores(&options, &folder, &mut report).await;
    let good = ran.is_ok() && report.print(options.expects_violations);
    if good && !options.keeps {
        let _ = std::fs::remove_dir_all(&folder);
    } else {
        eprintln!("kept: {}", folder.display());
    }
    ran.map(|()| good)
}

async fn stores(options: &Options, folder: &Path, report: &mut Report) -> Result<(), String> {
    // Named trials have clusters of their own.
    let schedules = options.random.is_some() || options.budget.is_some() || options.calls.is_some();
    let wants_postgres = options.stores.contains(&Store::Postgres) && (options.matrix || schedules);
    let mut clusters = None;
    if wants_postgres {
        // Cases create many databases, and a cluster with many takes long to recover from a crash.
        let steady = Arc::new(Postgres::start(&folder.join("postgres")).await?);
        clusters = Some((steady, Arc::new(Postgres::start(&folder.join("postgres-crashing")).await?)));
    }
    for store in &options.stores {
        let folder = folder.join(store.name());
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let (steady, crashing) = clusters.clone().filter(|_| *store == Store::Postgres).unzip();
        if options.matrix {
            report.add_matrix(&matrix_on(options, *store, &folder, (steady, crashing.clone())).await?);
        }
        if !options.trials.is_empty() {
            report.add_trials(&trials::run(options, *store, &folder).await);
        }
        if options.random.is_some() || options.calls.is_some() {
            let hostile = Arc::new(Hostile::start(&folder, options.calls.is_none()).await?);
            let setup = Setup::probe(&options.servanda, &folder, hostile.address).await?;
            report.add_random(&random::run(options, *store, &setup, &hostile, crashing.as_deref()).await?);
        }
        if let Some(seconds) = options.budget {
            let folder = folder.join("budget");
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let hostile = Arc::new(Hostile::start(&folder, true).await?);
            let setup = Setup::probe(&options.servanda, &folder, hostile.address).await?;
            let setup = Setup { budget: Some(seconds * BUDGET_A_SECOND), ..setup };
            // A read leaves no effect that its cost could be compared with.
            let classes = "nnnkkq".to_owned();
            let options = Options { random: Some(seconds), calls: None, classes, ..options.clone() };
            report.add_random(&random::run(&options, *store, &setup, &hostile, crashing.as_deref()).await?);
        }
    }
    Ok(())
}

async fn matrix_on(
    options: &Options,
    store: Store,
    folder: &Path,
    (postgres, crashing): (Option<Arc<Postgres>>, Option<Arc<Postgres>>),
) -> Result<Vec<matrix::Verdict>, String> {
    let started = Instant::now();
    let folder = folder.join("matrix");
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let hostile = Arc::new(Hostile::start(&folder, true).await?);
    let setup = Setup::probe(&options.servanda, &folder, hostile.address).await?;
    let stage = Arc::new(Stage { setup: setup.clone(), hostile: hostile.clone(), store, postgres });
    let crashing = Arc::new(Stage { setup, hostile, store, postgres: crashing });
    let verdicts = matrix::run(&stage, &crashing, options.only.as_deref()).await;
    eprintln!("the matrix on {} took {} s", store.name(), started.elapsed().as_secs());
    Ok(verdicts)
}
