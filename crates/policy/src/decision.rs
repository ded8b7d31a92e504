//! What the policies say to a call, and which of them made the difference.
//!
//! How it is decided stands in `decide`.

use std::sync::Arc;

use serde::Serialize;
use servanda_contract::record::Texts;

use crate::determining::Determining;

/// What the policies say to a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may be made, as far as policy goes.
    Allowed(Allowed),
    /// It may not.
    Refused(Refused),
}

/// Evidence that the policies in force permit a call. Only a decision makes one, never a shadow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    by: By,
}

/// Why a call may not be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    cause: Cause,
    by: By,
}

/// The policies that made the difference, by id. Most decisions are made by the same as the one before, so they are shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct By {
    policies: Arc<[Arc<Determining>]>,
    ids: Texts,
}

/// Kinds of refusals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A policy forbids it.
    Forbidden,
    /// No policy permits it.
    NotPermitted,
    /// A policy could not be evaluated, so it may forbid.
    ErrorInPolicy {
        /// What went wrong, for the operator.
        errors: Vec<String>,
    },
    /// The policies know no such tool.
    UnknownTool,
    /// A policy looks at an argument that it cannot hold exactly.
    Arguments {
        /// What does not fit, without the value.
        reason: String,
    },
    /// The question could not be asked: a defect of ours.
    Engine {
        /// What went wrong.
        reason: String,
    },
}

impl By {
    /// Sorted, so that the same decision always reads the same.
    pub(crate) fn of(mut policies: Vec<Arc<Determining>>) -> Self {
        policies.sort_unstable();
        policies.dedup();
        let ids = policies.iter().map(|determining| determining.policy.clone()).collect();
        Self { policies: policies.into(), ids }
    }
}

impl Decision {
    /// The decision that follows on what was judged.
    pub(crate) fn of(judged: Result<By, Refused>) -> Self {
        judged.map_or_else(Self::Refused, |by| Self::Allowed(Allowed { by }))
    }

    /// Whether the call may be made.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// The policies that made the difference, by id.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.made_by().policies
    }

    /// Their ids.
    pub fn ids(&self) -> Texts {
        self.made_by().ids.clone()
    }

    const fn made_by(&self) -> &By {
        match self {
            Self::Allowed(allowed) => &allowed.by,
            Self::Refused(refused) => &refused.by,
        }
    }
}

impl Cause {
    /// The kind in a word, for records.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::NotPermitted => "not_permitted",
            Self::ErrorInPolicy { .. } => "error_in_policy",
            Self::UnknownTool => "unknown_tool",
            Self::Arguments { .. } => "arguments",
            Self::Engine { .. } => "engine",
        }
    }
}

impl Allowed {
    /// The policies that permit it.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.by.policies
    }
}

impl Refused {
    /// The kind of refusal.
    pub const fn cause(&self) -> &Cause {
        &self.cause
    }

    /// The policies that forbid it, or that failed.
    pub fn by(&self) -> &[Arc<Determining>] {
        &self.by.policies
    }

    pub(crate) fn for_cause(cause: Cause) -> Self {
        Self { cause, by: By::default() }
    }

    pub(crate) fn by_policies(cause: Cause, policies: Vec<Arc<Determining>>) -> Self {
        Self { cause, by: By::of(policies) }
    }
}
