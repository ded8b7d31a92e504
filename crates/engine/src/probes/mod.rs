//! What probes see around calls: what two looks at the same thing say about the call between them, how the report is stored and shown,
//! paths as digests, and whether calls that may change something are running.
//!
//! The verdict is pure. Deliberately not here: taking the looks, which is a stage of a call (`call::probing`), and how a quarantine is
//! stored.

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
