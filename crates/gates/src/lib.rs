//! The gates a call passes, in order, and the stage types that are the evidence of having passed.
//!
//! A gate consumes one stage and returns the next; constructors are private to the gate that earns them. There is no flag
//! to forget: only the last gate mints a [`Permit`], only a permit can be fenced, only a [`Fenced`] call can be performed.
//! No I/O and no clock: what a gate needs from outside is a port defined here and implemented elsewhere.

mod bounds;
mod compiled;
mod confirmation;
mod fence;
mod parse;
pub mod repair;
mod rules;
mod semantics;
mod sequence;
mod structure;
#[cfg(test)]
mod tests;
mod types;

pub use compiled::{CompiledContract, Registered, Resolved, admit};
pub use confirmation::Permit;
pub use fence::{Fenced, Journal, JournalError, PortFuture, fence};
pub use parse::GateLimits;
pub use sequence::{Stopwatch, Trail, pass_all};
