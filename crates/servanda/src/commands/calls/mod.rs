//! `servanda calls`: lists the recorded calls, newest first, or follows them. It only reads the ledger, and works while a gateway runs.

mod csv;
mod follow;
mod list;

use std::path::Path;

use servanda_config::{DRAIN_MS_MAX, ledger_place::LedgerPlace};
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_engine::SystemClock;
use servanda_ledger::{CallFilter, CallList, LOOKED_AT_MAX, LedgerReader};

use crate::{cli::CallsArgs, configuration, failure::CommandFailure, screen::Screen, stopping::Stop};

/// The number of calls that `servanda explain` lists.
const LATEST_MAX: u32 = 20;

pub(crate) async fn run(config: &Path, args: &CallsArgs, screen: Screen) -> Result<(), CommandFailure> {
    let place = configuration::ledger_place(&configuration::read(config)?)?;
    if place.is_missing() {
        return Err(nothing_yet(&place));
    }
    if args.csv && screen.json {
        return Err(CommandFailure::bad_input("--csv and --json are two formats").hint("give one of them"));
    }
    let filter = args.filter(SystemClock.now())?;
    let reader = place.read().await?;
    if args.follow {
        // A signal is the normal way to end it.
        let stop = Stop::on_signals(DRAIN_MS_MAX)?;
        return tokio::select! {
            followed = follow::run(&place, reader, filter, args.limit, screen) => followed,
            () = stop.requested.cancelled() => Ok(()),
        };
    }
    let found = reader.calls(&filter, args.limit).await?;
    if args.csv {
        say_where_it_stopped(&found, screen);
        return screen.raw(&csv::table(&found.calls));
    }
    if found.calls.is_empty() && filter == CallFilter::default() {
        return if screen.json { screen.json(&found.calls) } else { Err(nothing_yet(&place)) };
    }
    show(&found, screen)?;
    if !screen.json && found.calls.is_empty() {
        screen.say("no recorded call matches");
    }
    Ok(())
}

/// The latest calls, for a command that names none.
pub(crate) async fn latest(reader: &LedgerReader, place: &LedgerPlace, screen: Screen) -> Result<(), CommandFailure> {
    let found = reader.calls(&CallFilter::default(), LATEST_MAX).await?;
    if found.calls.is_empty() && !screen.json {
        return Err(nothing_yet(place));
    }
    show(&found, screen)
}

/// The error for a ledger without any call.
pub(crate) fn nothing_yet(place: &LedgerPlace) -> CommandFailure {
    CommandFailure::failed(format!("no call has been recorded yet in `{place}`"))
        .hint("make one: `servanda call TOOL '{...}'`")
}

fn say_where_it_stopped(found: &CallList, screen: Screen) {
    if let Some(stopped_at_ms) = found.stopped_at_ms {
        let at = Timestamp::from_unix_ms(stopped_at_ms);
        screen.say(format_args!(
            "note: only the newest {LOOKED_AT_MAX} records were looked at, back to {at}; --until {at} looks at earlier ones"
        ));
    }
}

fn show(found: &CallList, screen: Screen) -> Result<(), CommandFailure> {
    say_where_it_stopped(found, screen);
    if screen.json {
        return screen.json(&found.calls);
    }
    if found.calls.is_empty() {
        return Ok(());
    }
    let width = crate::screen::stdout_width().unwrap_or(usize::MAX);
    screen.data(list::lines(&found.calls, SystemClock.now(), width))?;
    screen.hint("servanda explain CALL says why; servanda calls --help lists the filters");
    Ok(())
}
