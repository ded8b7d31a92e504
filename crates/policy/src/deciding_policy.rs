//! A policy as decisions tell of it: which it is, where it stands, and what its author says about it.

use serde::Serialize;

/// A policy that made the difference.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct DecidingPolicy {
    /// Its id.
    pub policy: String,
    /// Its file and line.
    pub place: String,
    /// What its author says about it: `@reason("...")`.
    pub reason: Option<String>,
}
