//! Policies that are tried out: what they would have said is worked out and recorded, and nothing can take it for a
//! permission. There is deliberately no way from [`ShadowOutcome`] to a [`PolicyDecision`].

use servanda_approval::ApprovalSettings;
use servanda_contract::{
    Digest,
    record::{self, ShadowRecord, Texts},
};

use crate::{approvals::ApprovalQuestion, decision::PolicyDecision, policies::Policies, request::PolicyCall};

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
    would_have: record::ShadowDecision,
    /// Why it would have been refused, or the pattern of the approval.
    cause: Option<&'static str>,
    by: Texts,
}

impl ShadowPolicies {
    /// Puts policies into shadow mode.
    pub const fn new(policies: Policies) -> Self {
        Self { policies }
    }

    /// What enforcement would have done. `payload` is the digest of the call's payload, if it is known.
    pub fn would_have(
        &self,
        call: &PolicyCall<'_>,
        approvals: &ApprovalSettings,
        payload: Option<&Digest>,
    ) -> ShadowOutcome {
        let decision = self.policies.decide(call);
        let (would_have, cause) = match &decision {
            PolicyDecision::Refused(refused) => (record::ShadowDecision::Refused, Some(refused.cause().word())),
            PolicyDecision::Allowed(_) => {
                let question = ApprovalQuestion { payload, ..ApprovalQuestion::from(call) };
                match self.policies.approval_needed(&decision, &question, approvals) {
                    Some(demand) => (record::ShadowDecision::Approval, Some(demand.pattern.word())),
                    None => (record::ShadowDecision::Allowed, None),
                }
            }
        };
        ShadowOutcome { would_have, cause, by: decision.ids() }
    }

    /// The policies, to read and explain them.
    pub const fn policies(&self) -> &Policies {
        &self.policies
    }
}

impl ShadowOutcome {
    /// The result in the form of a record.
    pub fn to_record(&self) -> ShadowRecord {
        let (would_have, by) = (self.would_have, self.by.clone());
        ShadowRecord { would_have, cause: self.cause.map(str::to_owned), by }
    }
}
