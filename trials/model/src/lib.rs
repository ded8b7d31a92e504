//! The protocol of effects as a model: gateways, clients, an upstream, a store and time, explored exhaustively within stated
//! bounds. The store runs the product's own `step`, and clients get answers by the product's own rules; only the world around
//! them is modelled here.
//!
//! Assumed: a running gateway, with a store that is up, beats at most two ticks (10 s) after its last beat, and at most one
//! tick after it was stopped or the store was away; a store that is up stays long enough for that once; an upstream runs a
//! request within its time limit or not at all.

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
    /// The upstream performed a key more than once.
    RanTwice,
    /// What was reported as done is not done, or is reported differently later.
    DoneUndone,
    /// A client was told that nothing was done, and something was or may still be.
    NothingDenied,
    /// A client was told that it happened, and it did not.
    HappenedInvented,
    /// The ledger says unknown while a live gateway holds the call.
    UnknownWhileHeld,
    /// Two calls that change the same account ran at once.
    TwoAtOnce,
    /// An answer that says what happened was dropped.
    EvidenceDropped,
}
