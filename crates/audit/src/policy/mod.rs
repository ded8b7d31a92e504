//! Whom a verifier trusts (C2SP tlog-policy): logs, witnesses, and which witnesses are enough. A policy makes a [`TrustedCheckpoint`]
//! of a signed note, and nothing else does.
//!
//! Deliberately not here: what the tree contains.

mod parse;
mod quorum;
mod trust;

pub use parse::{
    LOG_POLICY_BYTES_MAX, LOG_POLICY_GROUPS_MAX, LOG_POLICY_LOGS_MAX, LOG_POLICY_WITNESSES_MAX, LogPolicyFault,
    LogPolicyLineFault,
};
pub use quorum::LogPolicy;
pub use trust::{TrustedCheckpoint, UntrustedCheckpoint};
