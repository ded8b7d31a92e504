//! Measures whole calls: the same program is run once by itself, for what it asks of the allocator, and once in callgrind, for its
//! instructions. Each run is a process of its own, so that none finds anything ready that another has made.

use std::process::Command;

use super::MeasuredCall;
use crate::instructions;

/// Calls of which the mean is taken.
const CALLS: u64 = 200;
/// The same under callgrind, where each takes a hundred times as long.
const CALLS_IN_CALLGRIND: u64 = 100;

/// What one call takes, in the mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Figures {
    /// How often memory is asked for, on all threads of the process.
    pub(crate) allocations: u64,
    /// How much of it.
    pub(crate) bytes: u64,
    /// Instructions of all threads.
    pub(crate) instructions: u64,
}

/// Measures every call, two at once.
pub(crate) fn all() -> Result<Vec<(MeasuredCall, Figures)>, String> {
    let (logged, unlogged) = MeasuredCall::ALL.split_at(2);
    let (mut measured, more) = (at_once(logged)?, at_once(unlogged)?);
    measured.extend(more);
    Ok(measured)
}

fn at_once(calls: &[MeasuredCall]) -> Result<Vec<(MeasuredCall, Figures)>, String> {
    std::thread::scope(|scope| {
        let running: Vec<_> = calls.iter().map(|call| (*call, scope.spawn(move || figures(*call)))).collect();
        let ended = running.into_iter().map(|(call, run)| {
            let figures = run.join().map_err(|_| format!("measuring a call ({}) did not end well", call.words()))??;
            Ok((call, figures))
        });
        ended.collect()
    })
}

fn figures(call: MeasuredCall) -> Result<Figures, String> {
    let (allocations, bytes) = asked(call)?;
    let instructions = instructions::of_whole_calls(&arguments(call, CALLS_IN_CALLGRIND))?;
    Ok(Figures {
        allocations: mean(allocations, CALLS),
        bytes: mean(bytes, CALLS),
        instructions: mean(instructions, CALLS_IN_CALLGRIND),
    })
}

/// What all calls ask for: how often, and how much.
fn asked(call: MeasuredCall) -> Result<(u64, u64), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = Command::new(program).args(arguments(call, CALLS)).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let read = || {
        let (allocations, bytes) = said.trim().split_once(' ')?;
        allocations.parse().ok().zip(bytes.parse().ok())
    };
    let figures = ran.status.success().then(read).flatten();
    figures.ok_or_else(|| format!("{} calls failed: {}", call.words(), String::from_utf8_lossy(&ran.stderr)))
}

fn arguments(call: MeasuredCall, calls: u64) -> [String; 4] {
    ["call".to_owned(), call.era.word().to_owned(), calls.to_string(), call.log_word().to_owned()]
}

/// Rounded.
const fn mean(sum: u64, count: u64) -> u64 {
    (sum + count / 2) / count
}
