//! `servanda audit search`: leaves by what they are about, the oldest first, each with its index.

use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::value::RawValue;
use servanda_audit::{
    Checkpoint, TileSource,
    search::{LeafQuery, LeafSearch},
};
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_engine::SystemClock;

use super::leaves::{damaged, each_leaf, tiles_of};
use crate::{cli::SearchLogArgs, failure::CommandFailure, screen::Screen};

/// A leaf that was found.
#[derive(Debug, Serialize)]
struct FoundLeaf {
    index: u64,
    /// The leaf as it is in the log.
    leaf: Box<RawValue>,
}

pub(super) fn run<S: TileSource>(
    log: &S,
    checkpoint: &Checkpoint,
    args: &SearchLogArgs,
    screen: Screen,
) -> Result<(), CommandFailure> {
    let query = query(args, SystemClock.now())?;
    if query.is_empty() {
        return Err(CommandFailure::bad_input("say what to search for")
            .hint("`servanda audit search --call CALL_ID`; `servanda audit export` has every leaf"));
    }
    let (mut search, mut found, mut next) = (LeafSearch::new(query), Vec::new(), None);
    let most = usize::try_from(args.limit).unwrap_or(usize::MAX);
    // From the first leaf on: what was decided before tells what later leaves are about.
    each_leaf(&mut tiles_of(log, checkpoint)?, 0, |index, bytes, leaf| {
        if !search.is_found(leaf) || index < args.since_leaf {
            return Ok(ControlFlow::Continue(()));
        }
        if found.len() == most {
            next = Some(index);
            return Ok(ControlFlow::Break(()));
        }
        let leaf = RawValue::from_string(String::from_utf8_lossy(bytes).into_owned());
        found.push(FoundLeaf { index, leaf: leaf.map_err(|fault| damaged(&fault))? });
        Ok(ControlFlow::Continue(()))
    })?;
    if let Some(next) = next {
        screen.say(format_args!("note: there are more; --since-leaf {next} goes on, or --limit shows more"));
    }
    if screen.json {
        return screen.json(&found);
    }
    for FoundLeaf { index, leaf } in &found {
        screen.data(format_args!("{index}  {}", leaf.get()))?;
    }
    if found.is_empty() {
        screen.say("no signed leaf matches");
    } else {
        screen.hint("`servanda audit prove CALL_ID` proves that the log has the leaves of a call");
    }
    Ok(())
}

fn query(args: &SearchLogArgs, now: Timestamp) -> Result<LeafQuery, CommandFailure> {
    let (since_ms, until_ms) = (args.since.map(|at| at.unix_ms(now)), args.until.map(|at| at.unix_ms(now)));
    if since_ms.zip(until_ms).is_some_and(|(since_ms, until_ms)| since_ms >= until_ms) {
        return Err(CommandFailure::bad_input("--since is not before --until").hint("nothing happened in between"));
    }
    Ok(LeafQuery {
        call: args.call.clone(),
        effect: args.effect.clone(),
        ticket: args.ticket.clone(),
        caller: args.caller.clone(),
        tool: args.tool.clone(),
        trace: args.trace.clone(),
        class: args.class.map(|class| class.name().to_owned()),
        since_ms,
        until_ms,
    })
}
