//! What is seen around calls: what two looks at the same thing say about the call between them, how that is kept and shown, paths as
//! digests, and which calls that may change something are under way.
//!
//! The verdict is pure. Deliberately not here: taking the looks, which is a stage of a call (`call::probing`), and how a quarantine is kept.

mod mutations;
mod note;
mod path;
#[cfg(test)]
mod tests;
mod verdict;

pub(crate) use self::{
    mutations::{Mutation, Mutations, Quiescence},
    path::{PathLimits, look as look_at_path},
    verdict::{ProbeVerdictInput, compare, compare_again, judge, may_have_left},
};
pub use self::{
    note::{ProbeReport, ProbeResult},
    verdict::{ProbeComparison, ProbeSnapshot, ProbeVerdict},
};
