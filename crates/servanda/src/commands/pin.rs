//! `servanda pin`: agrees to tools' definitions as their servers offer them now, after showing what changed.

use std::path::Path;

use serde_json::json;
use servanda_config::LoadedConfig;
use servanda_contract::time::Clock as _;
use servanda_engine::SystemClock;

use super::diff;
use crate::{
    cli::PinArgs,
    commands::{
        next_step,
        pin_review::{PinReview, PinReviewState, ReviewedTool},
    },
    configuration,
    contracts::lock,
    failure::CommandFailure,
    screen::{Screen, count},
};

pub(crate) async fn run(config: &Path, args: &PinArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let review = PinReview::open(&loaded).await?;
    let reviewed = review.live(&loaded, &args.names, screen).await?;
    let to_pin: Vec<&ReviewedTool> = reviewed.iter().filter(|reviewed| reviewed.can_be_pinned()).collect();
    let problems: Vec<&ReviewedTool> = reviewed
        .iter()
        .filter(|reviewed| !reviewed.can_be_pinned() && reviewed.state != PinReviewState::Identical)
        .collect();
    if !screen.json {
        for one in to_pin.iter().chain(&problems) {
            screen.say(diff::describe(one));
        }
    }
    if !to_pin.is_empty() {
        agree(args, to_pin.len(), screen).await?;
        // Read again: the person may have taken a while, and another pin may have been made meanwhile.
        let mut lock = lock::read(&loaded.lock_file())?.unwrap_or_default();
        let now = SystemClock.now();
        for reviewed in &to_pin {
            let Some(live) = &reviewed.live else { continue };
            match reviewed.listed {
                None => lock.set(&reviewed.upstream, live, now),
                Some(kind) => lock.set_listed(&reviewed.upstream, kind, live, now),
            };
        }
        lock::write(&loaded.lock_file(), &lock)?;
    }
    if screen.json {
        let names = |reviewed: &[&ReviewedTool]| reviewed.iter().map(|one| one.tool.clone()).collect::<Vec<_>>();
        screen.json(&json!({
            "file": loaded.lock_file(), "pinned": names(&to_pin), "not_pinned": problems,
            "unchanged": reviewed.len() - to_pin.len() - problems.len(),
        }))?;
    } else {
        let file = loaded.lock_file();
        match to_pin.len() {
            0 => screen.say(format_args!("{} has nothing to be changed", file.display())),
            pinned => screen.say(format_args!("pinned {} in {}", count(pinned, "definition"), file.display())),
        }
        if let Some(waiting) = waiting(&loaded, &review, &to_pin) {
            screen.say(waiting);
            screen.hint("`servanda pin --all` agrees to the others, too");
        }
        if to_pin.iter().any(|reviewed| !reviewed.misfits.is_empty()) {
            screen.hint("a tool that does not fit its contract stays held back until the contract is corrected");
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let failure = CommandFailure::failed(format!("{} could not be pinned", count(problems.len(), "definition")));
    Err(match next_step::hint(problems.iter().filter_map(|reviewed| reviewed.trouble()), true) {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// The first pin turns pinning on: from then on, tools without a pin are held back. This warns the operator before agents notice.
fn waiting(loaded: &LoadedConfig, review: &PinReview, pinned: &[&ReviewedTool]) -> Option<String> {
    if review.lock.is_some() || pinned.is_empty() || loaded.config.pins.missing.is_some() {
        return None;
    }
    let tools = pinned.iter().filter(|reviewed| reviewed.listed.is_none()).count();
    let waiting = review.catalog.entries().count().saturating_sub(tools);
    let verb = if waiting == 1 { "waits" } else { "wait" };
    (waiting > 0).then(|| format!("note: {} {verb} now until a person agrees to it", count(waiting, "other tool")))
}

async fn agree(args: &PinArgs, definitions: usize, screen: Screen) -> Result<(), CommandFailure> {
    let question = crate::screen::consent::ConsentQuestion {
        asked: format!("agree to {}?", count(definitions, "definition")),
        nothing: "nothing was pinned",
        hint: "read what is shown, then say --yes",
    };
    crate::screen::consent::agree(question, args.yes, screen).await
}
