//! A policy as decisions report it: its id, its place, and its author's reason.

use serde::Serialize;
use servanda_approval::PolicyApproval;

/// A policy that decided a call.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DecidingPolicy {
    /// Its id.
    pub policy: String,
    /// Its file and line.
    pub place: String,
    /// Its author's reason: `@reason("...")`.
    pub reason: Option<String>,
    /// What it says about approvals: `@approval("...")`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Box<PolicyApproval>>,
}
