//! Prints calls as they are recorded, the oldest first, until the command is stopped.
//!
//! A record is found by the time its call was received, but is written when the call ends. So every look goes back a little, and every few
//! looks go back far enough for long calls. A running call is shown as running, and again when it has ended.

use std::{collections::BTreeMap, ops::ControlFlow, time::Duration};

use servanda_config::ledger_place::LedgerPlace;
use servanda_contract::{record::CallSummary, time::Clock as _};
use servanda_engine::SystemClock;
use servanda_ledger::{CallFilter, CallList, LOOKED_AT_MAX, LedgerError, LedgerReader};

use crate::{
    failure::CommandFailure,
    screen::{Screen, fitted, one_line, stdout_width},
};

/// How often the store is asked.
const POLL: Duration = Duration::from_millis(500);
/// How far back every look goes, how far back some go, and how many looks are between two of those.
const LOOK_BACK_MS: u64 = 10_000;
const LOOK_FAR_BACK_MS: u64 = 600_000;
// A look that goes far back has a connection of its own: `ledger restore` may have put another file in the place of the ledger.
const LOOKS_BETWEEN: u32 = 20;

/// The outcome that was last shown for each call.
type ShownOutcomes = BTreeMap<(u64, String), &'static str>;

pub(super) async fn run(
    place: &LedgerPlace,
    reader: LedgerReader,
    filter: CallFilter,
    limit: u32,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let mut shown = ShownOutcomes::new();
    let began_ms = SystemClock.now().unix_ms();
    let before = reader.calls(&filter, limit).await?;
    // Calls received before the oldest of these are not shown later either.
    let since_ms = before.calls.last().map_or(began_ms, |oldest| oldest.received_ms);
    if show_new(before, &mut shown, screen)?.is_break() {
        return Ok(());
    }
    let (mut reader, mut looks, mut looked_ms, mut is_away) = (Some(reader), 0_u32, began_ms, false);
    loop {
        tokio::time::sleep(POLL).await;
        looks = looks.wrapping_add(1);
        let is_far = looks.is_multiple_of(LOOKS_BETWEEN);
        let back_ms = if is_far { LOOK_FAR_BACK_MS } else { LOOK_BACK_MS };
        if is_far {
            reader = None;
        }
        let now_ms = SystemClock.now().unix_ms();
        // What was recorded while the ledger was away is looked for too.
        let from_ms = now_ms.saturating_sub(back_ms).min(looked_ms.saturating_sub(LOOK_BACK_MS)).max(since_ms);
        let recent = CallFilter { since_ms: Some(from_ms), ..filter.clone() };
        match look(place, &mut reader, &recent).await {
            Ok(found) => {
                (looked_ms, is_away) = (now_ms, false);
                if show_new(found, &mut shown, screen)?.is_break() {
                    return Ok(());
                }
            }
            Err(error) => {
                if !is_away {
                    screen.say(format_args!("note: the ledger does not answer and is asked again: {error}"));
                }
                (reader, is_away) = (None, true);
            }
        }
        shown.retain(|(received_ms, _), outcome| {
            received_ms.saturating_add(LOOK_FAR_BACK_MS) >= looked_ms || *outcome == "dispatching"
        });
    }
}

/// Reads from the store, over a new connection if the last one broke.
async fn look(
    place: &LedgerPlace,
    reader: &mut Option<LedgerReader>,
    filter: &CallFilter,
) -> Result<CallList, LedgerError> {
    if reader.is_none() {
        *reader = Some(place.read().await?);
    }
    match reader {
        Some(reader) => reader.recent_calls(filter, LOOKED_AT_MAX).await,
        None => Ok(CallList { calls: Vec::new(), stopped_at_ms: None }),
    }
}

/// Shows calls that are new or have a new outcome; breaks if the reader of the output is gone.
fn show_new(found: CallList, shown: &mut ShownOutcomes, screen: Screen) -> Result<ControlFlow<()>, CommandFailure> {
    for call in found.calls.into_iter().rev() {
        let key = (call.received_ms, call.call_id.clone());
        if shown.insert(key, call.outcome) == Some(call.outcome) {
            continue;
        }
        if line(&call, screen)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

fn line(call: &CallSummary, screen: Screen) -> Result<ControlFlow<()>, CommandFailure> {
    if screen.json {
        let json = serde_json::to_string(call).map_err(|error| CommandFailure::failed(error.to_string()))?;
        return screen.stream(&crate::screen::escaped_json(&json));
    }
    screen.stream(&fitted(one_line(&call.to_string()), &one_line(&call.brief()), stdout_width()))
}
