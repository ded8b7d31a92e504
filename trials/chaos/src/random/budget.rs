//! Compares what was spent with what happened: after every schedule with a budget, the books of the gateways are compared with
//! those of the upstream. A call costs one unit of money, so that money counts effects.

use std::{collections::BTreeSet, path::Path, time::Duration};

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Scene;
use crate::{
    agent::KEY_PREFIX,
    effects::{self, Listing},
    report::RandomFigures,
};

/// What one call costs, in millionths.
const COST_MICROS: u64 = 1_000_000;
/// How long the sweep may take when nothing fails any more.
const PATIENCE: Duration = Duration::from_mins(1);
const LISTED_MAX: usize = 100_000;

/// The balance of the one account.
#[derive(Debug, Default, PartialEq, Eq)]
struct Stands {
    spent: u64,
    reserved: u64,
    leased: u64,
    over: u64,
    /// The effects that money is reserved for; calls without an effect have empty names.
    held: Vec<String>,
}

/// Judges the books, settles unknown effects by the upstream's books, and judges them again.
pub async fn judge(scene: &Scene, folder: &Path, limit: u64, figures: &mut RandomFigures) -> Result<String, String> {
    let performed = u64::try_from(scene.hostile.books()?.all_effects()).unwrap_or(u64::MAX);
    if performed > limit {
        figures.wrong.push(format!("{performed} effects were performed, and {limit} could be paid for"));
    }
    let listing = effects::list(&scene.setup, folder, &[], LISTED_MAX).await?;
    let ended = count(&listing, &["completed", "failed_final"]);
    let unknown: BTreeSet<&String> =
        listing.values().filter(|seen| seen.state == "outcome_unknown").map(|seen| &seen.id).collect();
    let kept = u64::try_from(unknown.len()).unwrap_or(u64::MAX);
    let before = rested(scene, folder, |stands| stands.reserved == kept && stands.spent == ended).await?;
    let held: BTreeSet<&String> = before.held.iter().collect();
    let mut check = |good: bool, what: String| figures.wrong.extend((!good).then_some(what));
    check(before.spent == ended, format!("{} are spent, and {ended} calls were made: {before:?}", before.spent));
    check(before.reserved == kept, format!("{} are reserved, but {kept} effects are unknown", before.reserved));
    check(
        held == unknown,
        "something is reserved for an effect that is over, or nothing for an unknown one".to_owned(),
    );
    check(before.spent + before.reserved <= limit, format!("more than {limit} are drawn: {before:?}"));
    check(before.over == 0, format!("{} were used without a reservation", before.over));
    check(performed <= before.spent + before.reserved, format!("{performed} were performed: {before:?}"));
    settle_all(scene, folder, &listing).await?;
    let after = rested(scene, folder, |stands| stands.reserved == 0).await?;
    check(after.reserved == 0 && after.held.is_empty(), format!("after settling, something is kept back: {after:?}"));
    check(after.spent == performed, format!("after settling {} are spent, {performed} were performed", after.spent));
    check(after.leased == 0, format!("money is never leased: {after:?}"));
    Ok(format!(
        "of {limit}: {performed} performed, {} spent and {} kept back before settling, {} spent and {} kept back after",
        before.spent, before.reserved, after.spent, after.reserved
    ))
}

fn count(listing: &Listing, states: &[&str]) -> u64 {
    let ended = listing.values().filter(|seen| states.contains(&seen.state.as_str())).count();
    u64::try_from(ended).unwrap_or(u64::MAX)
}

/// The balance as soon as it is right, or after a timeout.
async fn rested(scene: &Scene, folder: &Path, is_right: impl Fn(&Stands) -> bool) -> Result<Stands, String> {
    let started = Instant::now();
    loop {
        let stands = stands(scene, folder).await?;
        if is_right(&stands) || started.elapsed() > PATIENCE {
            return Ok(stands);
        }
        sleep(Duration::from_millis(500)).await;
    }
}

async fn stands(scene: &Scene, folder: &Path) -> Result<Stands, String> {
    let shown = effects::run(&scene.setup, folder, &["budgets", "--json"]).await?;
    let accounts = shown["accounts"].as_array().ok_or("`budgets` shows no accounts")?;
    let Some(account) = accounts.iter().find(|one| one["account"]["dimension"] == "financial") else {
        return Ok(Stands::default());
    };
    let calls = |member: &str| account[member].as_u64().unwrap_or(u64::MAX) / COST_MICROS;
    let reservations = shown["reservations"].as_array().ok_or("`budgets` shows no reservations")?;
    let held = |hold: &Value| hold["effect"].as_str().unwrap_or_default().to_owned();
    Ok(Stands {
        spent: calls("spent"),
        reserved: calls("reserved"),
        leased: calls("leased"),
        over: calls("over"),
        held: reservations.iter().map(held).collect(),
    })
}

/// Plays the person who looks into the upstream's books and settles each effect.
async fn settle_all(scene: &Scene, folder: &Path, listing: &Listing) -> Result<(), String> {
    let books = scene.hostile.books()?;
    for (key, seen) in listing.iter().filter(|(_, seen)| seen.state == "outcome_unknown") {
        let settle_as = if books.effects(business(key)) > 0 { "completed" } else { "not-executed" };
        let args = ["effects", "settle", &seen.id, "--as", settle_as, "--evidence", "the upstream's books", "--json"];
        effects::run(&scene.setup, folder, &args).await?;
    }
    Ok(())
}

/// The business id that a key was made for.
fn business(key: &str) -> &str {
    key.strip_prefix(KEY_PREFIX).unwrap_or(key)
}
