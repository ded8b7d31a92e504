//! Measures whole calls: the same program is run once by itself, for what it asks of the allocator, and once in callgrind, for its
//! instructions. Each run is a process of its own, so that none finds anything ready that another has made.

use std::process::Command;

use super::Era;
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

/// Measures both eras at once.
pub(crate) fn all() -> Result<Vec<(Era, Figures)>, String> {
    std::thread::scope(|scope| {
        let running = Era::ALL.map(|era| (era, scope.spawn(move || figures(era))));
        let ended = running.into_iter().map(|(era, run)| {
            let figures = run.join().map_err(|_| format!("measuring a {} call did not end well", era.word()))??;
            Ok((era, figures))
        });
        ended.collect()
    })
}

fn figures(era: Era) -> Result<Figures, String> {
    let (allocations, bytes) = asked(era)?;
    let instructions = instructions::of_whole_calls(&arguments(era, CALLS_IN_CALLGRIND))?;
    Ok(Figures {
        allocations: mean(allocations, CALLS),
        bytes: mean(bytes, CALLS),
        instructions: mean(instructions, CALLS_IN_CALLGRIND),
    })
}

/// What all calls ask for: how often, and how much.
fn asked(era: Era) -> Result<(u64, u64), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let ran = Command::new(program).args(arguments(era, CALLS)).output().map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ran.stdout);
    let read = || {
        let (allocations, bytes) = said.trim().split_once(' ')?;
        allocations.parse().ok().zip(bytes.parse().ok())
    };
    let figures = ran.status.success().then(read).flatten();
    figures.ok_or_else(|| format!("{} calls failed: {}", era.word(), String::from_utf8_lossy(&ran.stderr)))
}

fn arguments(era: Era, calls: u64) -> [String; 3] {
    ["call".to_owned(), era.word().to_owned(), calls.to_string()]
}

/// Rounded.
const fn mean(sum: u64, count: u64) -> u64 {
    (sum + count / 2) / count
}
