//! One call of a grant: which calls it covers, how often, and the approval that they needed. Deliberately not here: whose calls, until when,
//! and what is left.

use serde::{Deserialize, Serialize};
use servanda_contract::{
    Digest,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};

use crate::{ApprovalCause, ApprovalDemand, ArgumentBound, TicketId};

/// One call of a grant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantedCall {
    /// The ticket on which people approved such a call; none if they approved it as a part of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ticket: Option<TicketId>,
    /// H of the call that was approved.
    pub payload_hash: Digest,
    /// The contract's name.
    pub tool_name: String,
    /// The contract's version.
    pub tool_version: String,
    /// The contract's digest.
    pub contract_digest: Digest,
    /// The approval that the call needed.
    pub demand: ApprovalDemand,
    /// What each argument may be. A call with other arguments than these is not covered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<ArgumentBound>,
    /// How many times.
    pub uses_max: u32,
}

/// Why people decide about every single call that needs this approval, if they do.
pub(crate) fn needs_people(demand: &ApprovalDemand) -> Option<&'static str> {
    let is_critical = demand.class == SideEffectClass::CriticalMutation
        || demand.causes.iter().any(|cause| matches!(cause, ApprovalCause::CriticalScope(_)));
    let is_for_one = matches!(demand.pattern, ApprovalPattern::Consent | ApprovalPattern::Operator);
    let reasons = [
        (is_critical, "it is a critical change"),
        (!is_for_one, "its pattern asks people about each call"),
        (demand.quorum != 1, "several people have to approve it"),
        (demand.presence == Presence::Passkey, "a passkey has to sign each decision"),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
}
