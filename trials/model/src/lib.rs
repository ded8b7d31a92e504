//! The protocol of effects as a model: gateways, clients, an upstream, a store and time, explored exhaustively within stated bounds.
//! The store runs the product's own `step`, and clients are told what the product's own rules say; only the world around them is
//! made up here.
//!
//! Assumed: a gateway that runs, with a store that is there, beats at most two ticks (10 s) after its last beat, and at most one tick
//! after it was stopped or the store was away; a store that is there stays long enough for that once; an upstream runs a request
//! within the time it has or not at all.

mod action;
mod canonical;
mod explore;
mod happen;
mod invariant;
mod scenario;
#[cfg(test)]
mod tests;
mod walk;
mod world;

pub use action::Action;
pub use explore::{Explored, explore};
pub use scenario::{BEFORE, Scenario, full, small, wide, without};
pub use walk::{Broken, walk};
pub use world::Bounds;

/// A promise that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Violation {
    /// The upstream did it more than once for a key.
    RanTwice,
    /// What was told as done is not, or is told otherwise later.
    DoneUndone,
    /// A client was told that nothing was done, and something was or may still be.
    NothingDenied,
    /// A client was told that it happened, and it did not.
    HappenedInvented,
    /// The ledger says unknown while a live gateway holds the call.
    UnknownWhileHeld,
    /// Two calls that change the same were at work at once.
    TwoAtOnce,
    /// An answer that says what happened was dropped.
    EvidenceDropped,
}
