//! What a whole call of a read takes in a debug build by the toolchain of this repository, and how far from that it may be.
//!
//! These figures are written here by hand, after a run of `make gate-cost-check` said others and somebody knows why. When they were
//! chosen, 120 runs differed by 0.02 % in allocations and bytes; 20 runs differed by 1 % in instructions, and 9 runs on a machine with three
//! times as much to do as it has cores had up to 2 % more: there threads wait for each other more often.
//!
//! 15 of the allocations and a tenth of the instructions are the index by which the console finds and counts calls (`ledger/call_index.rs`). Here
//! every record is a batch of its own; records that are written together share most of that.

use super::{Era, measure::Figures};

/// How far a figure may be from the golden one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tolerance {
    pub(crate) permille: u64,
}

/// Above the spread of the allocations and below one of them: a call that asks for memory once more or once less is noticed.
pub(crate) const ALLOCATIONS: Tolerance = Tolerance { permille: 4 };
/// A buffer that grows a little later is let pass, a message that is copied is not.
pub(crate) const BYTES: Tolerance = Tolerance { permille: 20 };
/// What a busy machine adds, and more: another C compiler makes another SQLite, and another processor has other instructions to copy and
/// to search bytes with.
pub(crate) const INSTRUCTIONS: Tolerance = Tolerance { permille: 50 };

/// The figures of a debug build; its instructions are those of x86-64.
pub(crate) const fn of(era: Era) -> Figures {
    match era {
        Era::Legacy => Figures { allocations: 142, bytes: 67_250, instructions: 2_062_000 },
        Era::Modern => Figures { allocations: 157, bytes: 67_462, instructions: 2_171_000 },
    }
}
