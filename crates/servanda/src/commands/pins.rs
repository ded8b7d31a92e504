//! `servanda pins`: lists the pins of all tools, and whether each still matches.

use std::path::Path;

use serde::Serialize;
use servanda_config::LoadedConfig;

use crate::{
    cli::PinsArgs,
    commands::{
        next_step,
        pin_review::{PinReview, PinReviewState, ReviewedTool},
    },
    configuration,
    failure::CommandFailure,
    screen::{Screen, TextStyle, lines, paint, table},
    wiring::survey,
};

/// Hex digits that are enough for people to compare.
const DIGEST_CHARS: usize = 12;
/// How many characters of a time are the day.
const DAY_CHARS: usize = "2026-01-31".len();

#[derive(Serialize)]
struct Row {
    tool: String,
    pinned_at: Option<String>,
    digest: Option<String>,
    state: String,
}

pub(crate) async fn run(config: &Path, args: &PinsArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let review = PinReview::open(&loaded).await?;
    let survey = if args.offline { None } else { Some(survey::ask(&loaded, None, screen).await?) };
    let mut rows: Vec<(Row, TextStyle)> = Vec::new();
    let mut all = review.reviewed(survey.as_ref());
    all.extend(survey.iter().flat_map(|survey| review.listed(survey)));
    let hint = next_step::hint(all.iter().filter_map(ReviewedTool::trouble), false);
    for reviewed in all {
        let (pinned_at, digest) = reviewed.pinned.map(|agreed| (agreed.at, agreed.digest)).unzip();
        let (state, style) = match reviewed.state {
            PinReviewState::NotAsked => ("pinned", TextStyle::Quiet),
            state => (state.word(), state.style()),
        };
        rows.push((Row { tool: reviewed.tool, pinned_at, digest, state: state.to_owned() }, style));
    }
    rows.extend(without_contract(&loaded, &review));
    if args.offline {
        rows.extend(agreed_lists(&review));
    }
    if screen.json {
        return screen.json(&rows.iter().map(|(row, _)| row).collect::<Vec<_>>());
    }
    if review.lock.is_none() {
        screen.say(format_args!("there is no {}", loaded.lock_file().display()));
        screen.hint("`servanda pin --all` agrees to what the servers offer now");
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut shown = table(&["tool", "pinned", "digest", "state"]);
    for (row, style) in &rows {
        // The whole digest and the time of day are in the lock file, and in --json.
        let digest = row.digest.as_deref().map_or("-", |digest| digest.trim_start_matches("sha256:"));
        let pinned_at = row.pinned_at.as_deref().unwrap_or("-");
        let (day, digest) = (beginning(pinned_at, DAY_CHARS), beginning(digest, DIGEST_CHARS));
        shown.add_row([row.tool.clone(), day, digest, paint(&row.state, *style)]);
    }
    screen.data(lines(&shown))?;
    if let Some(hint) = hint.filter(|_| review.lock.is_some()) {
        screen.hint(hint);
    }
    Ok(())
}

fn beginning(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

/// The pins of the lists beside the tools.
fn agreed_lists(review: &PinReview) -> Vec<(Row, TextStyle)> {
    let pins = review.lock.iter().flat_map(servanda_catalog::pins::LockFile::listed_pins);
    let rows = pins.map(|(upstream, kind, name, pin)| {
        let tool = format!("{} `{}` of {upstream}", kind.word(), crate::screen::one_line(name));
        let (pinned_at, digest) = (Some(pin.pinned_at.clone()), Some(pin.digest.to_string()));
        (Row { tool, pinned_at, digest, state: "pinned".to_owned() }, TextStyle::Quiet)
    });
    rows.collect()
}

/// Pins whose tool has no contract any more. They stay, so that a tool that returns changed is still noticed.
fn without_contract(loaded: &LoadedConfig, review: &PinReview) -> Vec<(Row, TextStyle)> {
    let pins = review.lock.iter().flat_map(servanda_catalog::pins::LockFile::pins);
    let rows = pins.filter_map(|(upstream, tool, pin)| {
        let name = loaded.config.tool_name(upstream, tool);
        let bound = review.catalog.entry(&name).is_some();
        let (pinned_at, digest) = (Some(pin.pinned_at.clone()), Some(pin.digest.to_string()));
        (!bound).then(|| (Row { tool: name, pinned_at, digest, state: "no contract".to_owned() }, TextStyle::Quiet))
    });
    rows.collect()
}
