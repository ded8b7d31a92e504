//! `servanda diff`: shows what changed in tools' definitions since they were agreed to, word by word.

use std::{fmt::Write as _, path::Path};

use servanda_catalog::pins::{Definition, Difference};
use servanda_contract::legibility::reveal;

use crate::{
    cli::DiffArgs,
    commands::{
        next_step,
        pin_review::{PinReview, PinReviewState, ReviewedTool},
    },
    configuration,
    failure::CommandFailure,
    screen::{Screen, TextStyle, count, paint},
};

/// How much of the description of a tool that is not pinned is shown.
const DESCRIPTION_CHARS_MAX: usize = 1_000;

pub(crate) async fn run(config: &Path, args: &DiffArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let review = PinReview::open(&loaded).await?;
    let mut reviewed = review.live(&loaded, &args.names, screen).await?;
    reviewed.retain(|reviewed| !reviewed.came_later());
    let unclean: Vec<&ReviewedTool> = reviewed.iter().filter(|reviewed| !reviewed.is_clean()).collect();
    if screen.json {
        screen.json(&reviewed)?;
    } else {
        for one in &unclean {
            screen.page(describe(one))?;
        }
        let identical = reviewed.len() - unclean.len();
        if identical > 0 {
            screen.page(format_args!("{} as agreed to", count(identical, "definition")))?;
        }
    }
    if unclean.is_empty() {
        if reviewed.is_empty() {
            screen.say("there are no contracts yet");
            screen.hint("`servanda init` makes one for every tool of the servers in .mcp.json");
        }
        return Ok(());
    }
    let all = count(reviewed.len(), "definition");
    let verb = if unclean.len() == 1 { "is" } else { "are" };
    let failure = CommandFailure::failed(format!("{} of {all} {verb} not as agreed to", unclean.len()));
    let hint = next_step::hint(unclean.iter().filter_map(|reviewed| reviewed.trouble()), true);
    Err(match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// A tool with everything about it, indented below its name.
pub(crate) fn describe(reviewed: &ReviewedTool) -> String {
    let mut text = format!("{}: {}", reviewed.tool, paint(reviewed.state.word(), reviewed.state.style()));
    if let Some(because) = &reviewed.because {
        let _ = write!(text, "\n  {}", indented(&reveal(because)));
    }
    for difference in &reviewed.differences {
        text.push_str(&changed(difference));
    }
    if let (PinReviewState::NotPinned, Some(live)) = (reviewed.state, &reviewed.live) {
        text.push_str(&introduced(live));
    }
    for misfit in &reviewed.misfits {
        let _ = write!(text, "\n  does not fit its contract: {misfit}");
    }
    text
}

fn changed(difference: &Difference) -> String {
    let Difference { severity, pointer, what, before, after, wording } = difference;
    let mut text = format!("\n  {} {pointer}: {what}", severity.word());
    if let Some(wording) = wording {
        let _ = write!(text, "\n    {}", indented(&painted(wording)));
    } else {
        for (label, value) in [("before:", before), ("after: ", after)] {
            if let Some(value) = value {
                let _ = write!(text, "\n    {label} {}", indented(value));
            }
        }
    }
    text
}

/// What a tool that is not pinned says about itself.
fn introduced(live: &Definition) -> String {
    let mut text = String::new();
    if let Some(description) = &live.description {
        let shown: String = reveal(description).chars().take(DESCRIPTION_CHARS_MAX).collect();
        let _ = write!(text, "\n  description: {}", indented(shown.trim_end()));
    }
    let parameters = live.input_schema.get("properties").and_then(serde_json::Value::as_object);
    let parameters: Vec<String> = parameters.into_iter().flatten().map(|(name, _)| reveal(name).into_owned()).collect();
    if !parameters.is_empty() {
        let _ = write!(text, "\n  parameters: {}", parameters.join(", "));
    }
    text
}

/// Indents the lines after the first.
fn indented(text: &str) -> String {
    text.replace('\n', "\n    ")
}

/// Colours removed and added words; the brackets say the same without colour.
fn painted(wording: &str) -> String {
    let mut shown = String::new();
    let mut rest = wording;
    while let Some((start, end, style)) = next_mark(rest) {
        shown.push_str(rest.get(..start).unwrap_or_default());
        shown.push_str(&paint(rest.get(start..end).unwrap_or_default(), style));
        rest = rest.get(end..).unwrap_or_default();
    }
    shown.push_str(rest);
    shown
}

fn next_mark(text: &str) -> Option<(usize, usize, TextStyle)> {
    let find = |open: &str, close: &str, style: TextStyle| {
        let start = text.find(open)?;
        let end = start + text.get(start..)?.find(close)? + close.len();
        Some((start, end, style))
    };
    let marks = [find("[-", "-]", TextStyle::Bad), find("{+", "+}", TextStyle::Good)];
    marks.into_iter().flatten().min_by_key(|(start, ..)| *start)
}
