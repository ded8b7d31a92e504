//! The gates a call passes, in order, and the stage types that are the evidence of having passed.
//!
//! A gate consumes one stage and returns the next; constructors are private to the gate that earns them. There is no flag
//! to forget: only the last gate mints a [`Permit`], only a permit can be fenced, only a [`Fenced`] call can be performed.
//! No I/O and no clock: what a gate needs from outside is a port defined here and implemented elsewhere.
//!
//! Outside this crate nobody can make a permit; it is only ever handed over.
//! ```
//! fn takes(permit: servanda_gates::Permit) -> servanda_contract::Digest {
//!     permit.proposal_digest()
//! }
//! ```
//! Neither from its parts,
//! ```compile_fail,E0616
//! fn forge(permit: servanda_gates::Permit) -> servanda_gates::Permit {
//!     servanda_gates::Permit { meant: permit.meant }
//! }
//! ```
//! nor by a gate called out of turn,
//! ```compile_fail,E0603
//! use servanda_gates::confirmation::gate;
//! ```
//! nor twice from one: a permit is used up by the fence, and cannot be copied.
//! ```compile_fail,E0382
//! async fn twice(permit: servanda_gates::Permit, record: servanda_contract::CallRecord, journal: &dyn servanda_gates::Journal) {
//!     let _ = servanda_gates::fence(permit, || record.clone(), journal).await;
//!     let _ = servanda_gates::fence(permit, || record, journal).await;
//! }
//! ```
//! And what is performed is a fenced call, which only the fence makes.
//! ```compile_fail,E0451
//! fn unfenced(permit: servanda_gates::Permit) -> servanda_gates::Fenced {
//!     servanda_gates::Fenced { permit }
//! }
//! ```

mod bounds;
mod compiled;
mod confirmation;
pub mod effect;
mod fence;
mod notebook;
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
pub use notebook::{FleetingNotebook, Note, NoteKind, Notebook};
pub use parse::GateLimits;
pub use sequence::{Stopwatch, Trail, pass_all};
