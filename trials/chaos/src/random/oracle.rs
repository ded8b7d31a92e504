//! Compares the answers with what happened, when everything is healed and recovery had time: this module judges the end of
//! every key, the checker every single answer.

use std::{net::SocketAddr, path::Path, sync::PoisonError, time::Duration};

use tokio::time::{Instant, sleep};

use super::{
    Scene,
    clients::{KeyLog, Said, replica_name, said_by},
};
use crate::{
    checker,
    effects::{self, Listing},
    history::Asking,
    http::Wire,
    report::RandomFigures,
    rng::Rng,
    upstream::Books,
    world::Class,
};

/// How long recovery may take when nothing fails any more.
const RECOVERY_PATIENCE: Duration = Duration::from_mins(1);
/// How many acknowledged answers are requested again.
const REPLAYS_MAX: usize = 2_000;
/// With more keys than this, only unsettled effects are listed.
const LISTED_MAX: usize = 50_000;
/// The histories of longer schedules are not read back into memory; `chaos check` reads them.
const CHECKED_MAX: usize = 300_000;
const CALL_PATIENCE: Duration = Duration::from_secs(12);

/// Judges a schedule.
pub async fn judge(scene: &Scene, folder: &Path, home: SocketAddr, rng: &mut Rng) -> Result<RandomFigures, String> {
    let logs = std::mem::take(&mut *scene.logs.lock().unwrap_or_else(PoisonError::into_inner));
    let mut figures = RandomFigures::new(scene.store);
    figures.keys = logs.len();
    figures.attempts = logs.iter().map(|log| log.attempts.len()).sum();
    let listing = match recovered(scene, folder, logs.len()).await {
        Ok(listing) => Some(listing),
        Err(why) => {
            figures.wrong.push(why);
            None
        }
    };
    let books = scene.hostile.books()?;
    for log in &logs {
        compare(log, &books, listing.as_ref(), &mut figures);
    }
    replay(scene, &logs, home, rng, &mut figures).await?;
    if figures.attempts < CHECKED_MAX {
        let listing = listing.filter(|listed| listed.whole).map(|listed| serde_json::json!(listed.rows).to_string());
        figures.checked = Some(check(scene, listing.as_deref())?);
    }
    Ok(figures)
}

/// The checker compares every single answer with the upstream's file. Its inputs are kept beside the history.
fn check(scene: &Scene, listing: Option<&str>) -> Result<checker::Verdict, String> {
    let read = |file: &Path| std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()));
    let (history, books) = (read(&scene.history.file)?, read(&scene.hostile.books_file)?);
    if let Some(listing) = listing {
        let kept = std::fs::write(scene.setup.folder.join("listing.json"), listing);
        kept.map_err(|error| error.to_string())?;
    }
    checker::check(&history, &[&books], checker::Listings { effects: listing, grants: None })
}

/// The effects as the gateway lists them.
struct Listed {
    effects: Listing,
    rows: Vec<serde_json::Value>,
    /// Whether the listing is complete; otherwise it has only effects with an unknown end.
    whole: bool,
}

/// Waits until nothing is running any more, and lists the effects.
async fn recovered(scene: &Scene, folder: &Path, keys: usize) -> Result<Listed, String> {
    let started = Instant::now();
    loop {
        let left = effects::list(&scene.setup, folder, &["claimed", "dispatching"], LISTED_MAX).await?;
        if left.is_empty() {
            break;
        }
        if started.elapsed() > RECOVERY_PATIENCE {
            return Err(format!("{} effects are still under way, e.g. {:?}", left.len(), left.keys().next()));
        }
        sleep(Duration::from_millis(500)).await;
    }
    let whole = keys < LISTED_MAX;
    let states: &[&str] = if whole { &[] } else { &["outcome_unknown"] };
    let rows = effects::rows(&scene.setup, folder, states, keys + 1_000).await?;
    let effects = rows.iter().filter_map(effects::seen).collect();
    Ok(Listed { effects, rows, whole })
}

fn compare(log: &KeyLog, books: &Books, listed: Option<&Listed>, figures: &mut RandomFigures) {
    let KeyLog { order, class, attempts } = log;
    if !class.mutates() {
        return;
    }
    let effects = books.effects(&order.business);
    let mut wrong = |what: &str| figures.wrong.push(format!("{}: {what}; {effects} effects; {attempts:?}", order.key));
    if effects > 1 {
        wrong("more than one effect");
        figures.duplicated += 1;
    }
    let succeeded = |other: bool| {
        attempts.iter().filter_map(move |(is_other, said)| match said {
            Said::Success(digest) if *is_other == other => Some(*digest),
            _ => None,
        })
    };
    let acknowledged = succeeded(false).next().or_else(|| succeeded(true).next());
    if acknowledged.is_some() && effects != 1 {
        wrong("a success was acknowledged");
        figures.lost += usize::from(effects == 0);
    }
    if succeeded(false).next().is_some() && succeeded(true).next().is_some() {
        wrong("two payloads succeeded under one key");
    }
    if succeeded(false).any(|digest| Some(digest) != succeeded(false).next()) {
        wrong("one key was answered in two ways");
    }
    if attempts.iter().any(|(_, said)| *said == Said::Happened) && effects == 0 {
        wrong("it says that it happened");
    }
    if !attempts.is_empty() && attempts.iter().all(|(_, said)| *said == Said::NotExecuted) && effects > 0 {
        wrong("it says that it was not executed");
    }
    if let Some(listed) = listed {
        compare_state(log, effects, acknowledged.is_some(), listed, figures);
    }
}

fn compare_state(log: &KeyLog, effects: usize, acknowledged: bool, listed: &Listed, figures: &mut RandomFigures) {
    let key = &log.order.key;
    let seen = listed.effects.get(key);
    let state = seen.map_or("", |seen| seen.state.as_str());
    let agrees = match state {
        // A call that never committed its claim leaves no effect and did nothing.
        "" if listed.whole => effects == 0,
        "failed_retryable" => effects == 0,
        "completed" => effects == 1,
        _ => true,
    };
    let attempts = &log.attempts;
    if !agrees {
        figures.wrong.push(format!("{key}: the state is `{state}`, and there are {effects} effects; {attempts:?}"));
    }
    if acknowledged && (listed.whole || seen.is_some()) && state != "completed" {
        figures.lost += 1;
        figures.wrong.push(format!("{key}: a success was acknowledged, and the state is `{state}`; {attempts:?}"));
    }
    if seen.is_some_and(|seen| log.class == Class::N && seen.dispatches > 1) {
        figures.wrong.push(format!("{key}: class N was dispatched more than once"));
    }
    if let Some(seen) = seen.filter(|_| state == "outcome_unknown") {
        figures.unknown += 1;
        figures.unknown_happened += usize::from(effects > 0);
        *figures.unknown_reasons.entry(format!("{:?}: {}", log.class, seen.reason)).or_default() += 1;
    }
}

/// Acknowledged answers are still there, byte for byte, without asking the upstream.
async fn replay(
    scene: &Scene,
    logs: &[KeyLog],
    home: SocketAddr,
    rng: &mut Rng,
    figures: &mut RandomFigures,
) -> Result<(), String> {
    let acknowledged = |log: &&KeyLog| {
        log.class.mutates() && log.attempts.iter().any(|(other, said)| !other && matches!(said, Said::Success(_)))
    };
    let mut chosen: Vec<&KeyLog> = logs.iter().filter(acknowledged).collect();
    while chosen.len() > REPLAYS_MAX {
        let dropped = rng.index(chosen.len());
        chosen.swap_remove(dropped);
    }
    let before = scene.hostile.books()?;
    let mut wire = Wire::new(home);
    for log in &chosen {
        let attempt = format!("replay-{}", log.order.business);
        let asking = Asking { who: "oracle".to_owned(), gateway: replica_name(0), attempt };
        let answer = scene.history.ask(&asking, &log.order, &mut wire, CALL_PATIENCE).await;
        let first = log
            .attempts
            .iter()
            .find_map(|(other, said)| matches!(said, Said::Success(_)).then_some(*said).filter(|_| !other));
        if first != Some(said_by(&answer).0) {
            figures.lost += 1;
            figures.wrong.push(format!("{}: an acknowledged success is now {}", log.order.key, answer.short()));
        }
    }
    let after = scene.hostile.books()?;
    for log in &chosen {
        if before.calls(&log.order.business) != after.calls(&log.order.business) {
            figures.wrong.push(format!("{}: its replay called the upstream", log.order.key));
        }
    }
    figures.replayed = chosen.len();
    Ok(())
}
