//! What one call costs at the gates: by the allocator's count, and by marks that callgrind counts between.
//!
//! A trail asks its stopwatch before and after every gate. Here the stopwatch tells no time: it tells how often memory was asked
//! for, and passes the marks.

use std::{
    hint::black_box,
    sync::atomic::{AtomicUsize, Ordering},
};

use servanda_contract::{GateName, Refusal, record::Verdict};
use servanda_gates::{GateLimits, Stopwatch, Trail, pass_all, pass_question};

use crate::{cases::Case, counting::allocations};

const LIMITS: GateLimits = GateLimits { arguments_bytes_max: 1 << 20, arguments_depth_max: 64 };
/// Gates before gate 6.
const BEFORE: usize = 5;
/// Gates before gate 7.
const BEFORE_SCOPE: usize = 6;
/// Gates before gate 8.
const BEFORE_POLICY: usize = 7;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// From before the first gate to after the last.
    All,
    /// Gate 6 alone.
    Behaviour,
    /// Gate 7 alone.
    Scope,
    /// Gate 8 alone.
    Policy,
    /// Nothing: what the marks themselves cost.
    Marks,
}

/// Allocations of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Allocations {
    /// At all gates.
    pub(crate) all: u64,
    /// At gate 6.
    pub(crate) behaviour: u64,
    /// At gate 7.
    pub(crate) scope: u64,
    /// At gate 8.
    pub(crate) policy: u64,
}

/// Counts what a call asks for. Called before, so that nothing is counted that is made once.
pub(crate) fn allocations_of(case: &Case) -> Allocations {
    let _ = verdicts(case, Part::Marks);
    let verdicts = verdicts(case, Part::Marks);
    let of =
        |gate: GateName| verdicts.iter().filter(move |verdict| verdict.gate == gate).map(|verdict| verdict.took_us);
    Allocations {
        all: verdicts.iter().map(|verdict| verdict.took_us).sum(),
        behaviour: of(GateName::Behaviour).sum(),
        scope: of(GateName::Scope).sum(),
        policy: of(GateName::Policy).sum(),
    }
}

/// Makes the call, with the marks around the part. What every gate "took" is how often it asked for memory.
pub(crate) fn verdicts(case: &Case, part: Part) -> Vec<Verdict> {
    let resolved = case.resolved();
    let counts = Counts { part, asked: AtomicUsize::new(0) };
    let mut trail = Trail::new(&counts);
    if part == Part::Marks {
        part_begins();
        part_ends();
    }
    let refused = match &case.rules {
        Some(rules) => ended(part, pass_all(resolved, &rules.mandate(), LIMITS, &mut trail)),
        None => ended(part, pass_question(resolved, LIMITS, &mut trail)),
    };
    assert_eq!(refused.is_some(), case.refused, "{}: {refused:?}", case.what);
    trail.take_verdicts()
}

/// Passes the mark before anything is dropped.
fn ended<T>(part: Part, judged: Result<T, Box<Refusal>>) -> Option<Box<Refusal>> {
    if part == Part::All {
        part_ends();
    }
    judged.err()
}

struct Counts {
    part: Part,
    asked: AtomicUsize,
}

impl Stopwatch for Counts {
    fn elapsed_us(&self) -> u64 {
        // Before and after each gate.
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        let around = |before: usize| (asked == 2 * before, asked == 2 * before + 1);
        let (begins, ends) = match self.part {
            Part::All => (asked == 0, false),
            Part::Behaviour => around(BEFORE),
            Part::Scope => around(BEFORE_SCOPE),
            Part::Policy => around(BEFORE_POLICY),
            Part::Marks => (false, false),
        };
        if ends {
            part_ends();
        }
        let count = allocations();
        if begins {
            part_begins();
        }
        count
    }
}

/// The names of these two are what callgrind is told to begin and end at.
#[inline(never)]
fn part_begins() {
    black_box("begins");
}

#[inline(never)]
fn part_ends() {
    black_box("ends ");
}
