//! What the policies say to a call, and which of them decided.
//!
//! `decide` computes it.

use std::sync::Arc;

use serde::Serialize;
use servanda_approval::PolicyApproval;
use servanda_contract::record::Texts;

use crate::deciding_policy::DecidingPolicy;

/// The policies' decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PolicyDecision {
    /// Policy allows the call.
    Allowed(AllowedByPolicy),
    /// Policy refuses it.
    Refused(RefusedByPolicy),
}

/// Evidence that the policies in force permit a call. Only a decision creates it, never a shadow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedByPolicy {
    by: DecidingPolicies,
}

/// Why a call is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedByPolicy {
    cause: PolicyRefusalCause,
    by: DecidingPolicies,
}

/// The policies that decided, by id. Shared, because most decisions are made by the same policies as the one before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct DecidingPolicies {
    policies: Arc<[Arc<DecidingPolicy>]>,
    ids: Texts,
    approvals: Arc<[PolicyApproval]>,
}

/// Kinds of refusals.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyRefusalCause {
    /// A policy forbids it.
    Forbidden,
    /// No policy permits it.
    NotPermitted,
    /// A policy could not be evaluated, so it may forbid.
    ErrorInPolicy {
        /// What went wrong, for the operator.
        errors: Vec<String>,
    },
    /// There is no such tool in the vocabulary.
    UnknownTool,
    /// A policy looks at an argument whose value Cedar cannot hold exactly.
    Arguments {
        /// What does not fit, without the value.
        reason: String,
    },
    /// The question could not be put to Cedar: a defect of ours.
    Engine {
        /// What went wrong.
        reason: String,
    },
}

impl DecidingPolicies {
    /// Sorted, so that equal decisions have equal texts.
    pub(crate) fn new(mut policies: Vec<Arc<DecidingPolicy>>) -> Self {
        policies.sort_unstable();
        policies.dedup();
        let ids = policies.iter().map(|deciding| deciding.policy.clone()).collect();
        let approvals = policies.iter().filter_map(|deciding| deciding.approval.as_deref().cloned()).collect();
        Self { policies: policies.into(), ids, approvals }
    }

    /// The same, but none of them lifts an approval.
    pub(crate) fn without_lifts(self) -> Self {
        let approvals = self.approvals.iter().filter(|approval| approval.asks()).cloned().collect();
        Self { approvals, ..self }
    }
}

impl PolicyDecision {
    /// The decision for a result.
    pub(crate) fn from_result(judged: Result<DecidingPolicies, RefusedByPolicy>) -> Self {
        judged.map_or_else(Self::Refused, |by| Self::Allowed(AllowedByPolicy { by }))
    }

    /// Whether the call may be made.
    pub const fn is_allowed(&self) -> bool {
        matches!(self, Self::Allowed(_))
    }

    /// The policies that decided, by id.
    pub fn by(&self) -> &[Arc<DecidingPolicy>] {
        &self.made_by().policies
    }

    /// Their ids.
    pub fn ids(&self) -> Texts {
        self.made_by().ids.clone()
    }

    const fn made_by(&self) -> &DecidingPolicies {
        match self {
            Self::Allowed(allowed) => &allowed.by,
            Self::Refused(refused) => &refused.by,
        }
    }
}

impl PolicyRefusalCause {
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

impl AllowedByPolicy {
    /// The policies that permit it.
    pub fn by(&self) -> &[Arc<DecidingPolicy>] {
        &self.by.policies
    }

    /// What they say about approvals.
    pub fn approvals(&self) -> Arc<[PolicyApproval]> {
        Arc::clone(&self.by.approvals)
    }
}

impl RefusedByPolicy {
    /// The kind of refusal.
    pub const fn cause(&self) -> &PolicyRefusalCause {
        &self.cause
    }

    /// The policies that forbid it, or that failed.
    pub fn by(&self) -> &[Arc<DecidingPolicy>] {
        &self.by.policies
    }

    pub(crate) fn for_cause(cause: PolicyRefusalCause) -> Self {
        Self { cause, by: DecidingPolicies::default() }
    }

    pub(crate) fn by_policies(cause: PolicyRefusalCause, policies: Vec<Arc<DecidingPolicy>>) -> Self {
        Self { cause, by: DecidingPolicies::new(policies) }
    }
}
