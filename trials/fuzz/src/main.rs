//! `make fuzz` and `make fuzz-short`: a number of texts, or of seconds, for every reader; then a table.

#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "a trial prints, and says how long it took")]

use std::{
    hash::{BuildHasher as _, RandomState},
    io::Write as _,
    path::PathBuf,
    process::ExitCode,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use servanda_fuzz::{
    CURRENT, Failure, Figures, on_a_small_stack, read_one,
    readers::{self, NotReady, Reader},
    run,
};

const USAGE: &str =
    "servanda-fuzz [--inputs N] [--seconds S for each reader] [--seed N] [--only READER] [--each] [--text FILE]";
/// Texts between two lines of progress.
const BATCH: u64 = 20_000;
/// A reader with this many failures is not run further.
const FAILURES_MAX: usize = 20;
/// How long one text may take before the trial gives up on its reader.
const LOST_AFTER: Duration = Duration::from_mins(1);
/// The folder for texts that failed.
const FOUND: &str = "target/fuzz";

struct Wanted {
    inputs: u64,
    seconds: Option<u64>,
    seed: u64,
    only: Option<String>,
    batch: u64,
    text: Option<String>,
}

fn main() -> Result<ExitCode, NotReady> {
    let wanted = Wanted::of(std::env::args().skip(1))?;
    let timed = !cfg!(debug_assertions);
    let mut all = readers::all()?;
    all.retain(|reader| wanted.only.as_deref().is_none_or(|only| reader.name == only));
    if let Some(file) = &wanted.text {
        return one(&all, &std::fs::read(file)?);
    }
    let shares: u64 = all.iter().map(|reader| reader.share).sum();
    println!("seed {}; time is {}", wanted.seed, if timed { "judged" } else { "not judged: not a release build" });
    std::thread::spawn(watch);
    let mut whole = true;
    let mut table = Vec::new();
    for reader in &all {
        let count = (wanted.inputs.saturating_mul(reader.share)).div_ceil(shares.max(1));
        let figures = many(reader, &wanted, count, timed)?;
        whole &= figures.failures.is_empty();
        for failure in &figures.failures {
            keep(reader, failure)?;
        }
        table.push(line(reader, &figures, wanted.seed));
        println!("{}", table.last().map_or("", String::as_str));
    }
    println!(
        "\n| reader | texts | MB | texts a second | slowest, ms per 64 KB | failures | first seed | slowest seed |"
    );
    println!("|---|---|---|---|---|---|---|---|\n{}", table.join("\n"));
    println!("{}", if whole { "passed" } else { "FAILED" });
    Ok(if whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Wanted {
    fn of(mut words: impl Iterator<Item = String>) -> Result<Self, NotReady> {
        let seed = RandomState::new().hash_one(0) >> 16;
        let mut wanted = Self { inputs: 100_000, seconds: None, seed, only: None, batch: BATCH, text: None };
        while let Some(word) = words.next() {
            let mut number = || words.next().and_then(|number| number.parse().ok()).ok_or(USAGE);
            match word.as_str() {
                "--inputs" => wanted.inputs = number()?,
                "--seconds" => wanted.seconds = Some(number()?),
                "--seed" => wanted.seed = number()?,
                "--only" => wanted.only = words.next(),
                "--text" => wanted.text = words.next(),
                // The last line before the end of the process then names the text.
                "--each" => wanted.batch = 1,
                _ => return Err(USAGE.into()),
            }
        }
        Ok(wanted)
    }
}

/// Gives the text of a file to every wanted reader.
fn one(all: &[Reader], text: &[u8]) -> Result<ExitCode, NotReady> {
    for reader in all {
        let figures = on_a_small_stack(|| read_one(reader, text))?;
        println!(
            "{}: {:.1} ms, {} failures",
            reader.name,
            figures.slowest.0.as_secs_f64() * 1_000.0,
            figures.failures.len()
        );
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs batch after batch, and prints the name of each before it begins, because a stack overflow ends the process.
fn many(reader: &Reader, wanted: &Wanted, count: u64, timed: bool) -> Result<Figures, NotReady> {
    let mut figures = Figures::default();
    let until = wanted.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let batch = if until.is_some() { wanted.batch.min(200) } else { wanted.batch };
    let mut done = 0;
    while until.map_or(done < count, |until| Instant::now() < until) && figures.failures.len() < FAILURES_MAX {
        let first = wanted.seed.wrapping_add(done);
        let size = if until.is_some() { batch } else { batch.min(count - done) };
        print!("\r{} --seed {first} ({size} texts)   ", reader.name);
        std::io::stdout().flush()?;
        figures.add(on_a_small_stack(|| run(reader, first, size, timed))?);
        done += size;
    }
    print!("\r{:60}\r", "");
    Ok(figures)
}

/// Ends the process when a reader takes too long for one text.
fn watch() {
    let mut before = None;
    loop {
        let current = CURRENT.load(Ordering::Relaxed);
        if before == Some(current) {
            println!("\nthe reader does not come back from the text of --seed {current} --inputs 1");
            std::process::abort();
        }
        before = Some(current);
        std::thread::sleep(LOST_AFTER);
    }
}

fn keep(reader: &Reader, failure: &Failure) -> Result<(), NotReady> {
    std::fs::create_dir_all(FOUND)?;
    let file = PathBuf::from(FOUND).join(format!("{}-{}.txt", reader.name, failure.seed));
    std::fs::write(&file, &failure.text)?;
    let begin: String =
        String::from_utf8_lossy(failure.text.get(..200).unwrap_or(&failure.text)).escape_debug().collect();
    println!("{}: {}, seed {}, in {}: {begin}", reader.name, failure.what, failure.seed, file.display());
    Ok(())
}

/// A line of the table.
fn line(reader: &Reader, figures: &Figures, seed: u64) -> String {
    let milliseconds = figures.slowest.0.as_secs_f64() * 1_000.0;
    let a_second = figures.inputs * 1_000 / u64::try_from(figures.took.as_millis()).unwrap_or(u64::MAX).max(1);
    format!(
        "| {} | {} | {} | {a_second} | {milliseconds:.1} | {} | {seed} | {} |",
        reader.name,
        figures.inputs,
        figures.bytes >> 20,
        figures.failures.len(),
        figures.slowest.1,
    )
}
