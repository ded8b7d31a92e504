//! Policies that are tried out: what they would have said is worked out and recorded, and nothing can take it for a
//! permission. There is deliberately no way from [`ShadowOutcome`] to a [`PolicyDecision`].

use servanda_contract::record::{self, ShadowRecord, Texts};

use crate::{decision::PolicyDecision, policies::Policies, request::PolicyCall};

/// A set of policies that decides nothing.
#[derive(Debug)]
pub struct ShadowPolicies {
    policies: Policies,
}

/// What policies in shadow would have said. It is written down and read, and that is all: a call goes its way by the
/// policies in force.
///
/// ```compile_fail
/// fn perform(_evidence: servanda_policy::AllowedByPolicy) {}
/// fn mistaken(would_have: servanda_policy::ShadowOutcome) {
///     perform(would_have);
/// }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShadowOutcome {
    /// Why it would have been refused, if so.
    refused_for: Option<&'static str>,
    by: Texts,
}

impl ShadowPolicies {
    /// Puts policies into shadow mode.
    pub const fn new(policies: Policies) -> Self {
        Self { policies }
    }

    /// What enforcement would have done.
    pub fn would_have(&self, call: &PolicyCall<'_>) -> ShadowOutcome {
        let decision = self.policies.decide(call);
        let refused_for = match &decision {
            PolicyDecision::Allowed(_) => None,
            PolicyDecision::Refused(refused) => Some(refused.cause().word()),
        };
        ShadowOutcome { refused_for, by: decision.ids() }
    }

    /// The policies, to read and explain them.
    pub const fn policies(&self) -> &Policies {
        &self.policies
    }
}

impl ShadowOutcome {
    /// The result in the form of a record.
    pub fn to_record(&self) -> ShadowRecord {
        let (refused, allowed) = (record::ShadowDecision::Refused, record::ShadowDecision::Allowed);
        let would_have = if self.refused_for.is_some() { refused } else { allowed };
        ShadowRecord { would_have, cause: self.refused_for.map(str::to_owned), by: self.by.clone() }
    }
}
