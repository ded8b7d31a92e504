//! What people ask of grants, and why they do not get it. Deliberately not here: whether they get it (`grants`, `grant_plan`).

use std::collections::BTreeMap;

use servanda_approval::{
    BoundFault, CostCeiling, GRANT_USES_MAX, GrantEnd, GrantObstacle, Ineligible, PLAN_CALLS_MAX, TicketId,
};
use servanda_contract::Digest;

use super::{AttestationKeysError, DecideError};

/// The longest reason of a revocation.
pub(super) const REASON_CHARS_MAX: usize = 500;

/// What a person wants to allow from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedGrant {
    /// The ticket.
    pub ticket: TicketId,
    /// H of the call that the person was shown.
    pub payload: Digest,
    /// The bounds that are narrower than proposed, by the argument's JSON Pointer.
    pub narrowed: BTreeMap<String, WantedBound>,
    /// The further calls of a plan.
    pub further: Vec<WantedCall>,
    /// How many calls like the ticket's.
    pub uses_max: u32,
    /// The most that all calls together may cost.
    pub cost_max: Option<CostCeiling>,
    /// For how many days.
    pub days: u32,
}

/// A further call that a person wants to allow with a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedCall {
    /// The ticket on which people approved such a call.
    pub ticket: TicketId,
    /// H of the call that the person was shown.
    pub payload: Digest,
    /// Whether every argument has to be exactly as approved. Otherwise the bounds are as proposed.
    pub is_exact: bool,
    /// How many calls like this one.
    pub uses_max: u32,
}

/// A bound that a person wants instead of the proposed one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedBound {
    /// Exactly the approved value.
    Exactly,
    /// A smaller number, or a folder further below.
    Text(String),
}

/// Why a grant is not made or not taken back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrantFailure {
    /// There is no such ticket, or it is another tenant's.
    #[error("there is no ticket `{0}`")]
    NoTicket(TicketId),
    /// No grant was made from it.
    #[error("no grant was made from the ticket `{0}`")]
    NoGrant(TicketId),
    /// The person may not allow such calls.
    #[error(transparent)]
    Ineligible(#[from] Ineligible),
    /// The person may not take it back.
    #[error("a grant is taken back by its maker, by the user whose agent it is for, or by an approver or operator")]
    NotTheirs,
    /// No grant can be made from the ticket.
    #[error(transparent)]
    Obstacle(#[from] GrantObstacle),
    /// The operator allows no grants.
    #[error("this gateway makes no grants: `approvals.grant_days_max` is 0")]
    SwitchedOff,
    /// The person was shown another call.
    #[error("the call is not the one that you were shown: open the ticket again")]
    OtherPayload,
    /// A bound is wrong.
    #[error("the bound of `{pointer}`: {fault}")]
    Bound {
        /// The argument.
        pointer: String,
        /// What is wrong.
        fault: BoundFault,
    },
    /// A further call cannot be part of the plan.
    #[error("`{ticket}` cannot be part of it: {reason}")]
    Planned {
        /// Its ticket.
        ticket: TicketId,
        /// Why.
        reason: Box<Self>,
    },
    /// The call is another caller's.
    #[error("a grant is for one agent of one user, and this call is another's")]
    OtherCaller,
    /// The call is named twice.
    #[error("it is named twice")]
    Repeated,
    /// The plan has too many calls.
    #[error("a grant is made from at most {PLAN_CALLS_MAX} tickets")]
    TooManyCalls,
    /// Too many calls, or none.
    #[error("a grant is for 1 to {GRANT_USES_MAX} calls of each kind")]
    Uses,
    /// Too many days, or none.
    #[error("a grant holds for 1 to {days_max} days")]
    Days {
        /// The most.
        days_max: u32,
    },
    /// A reason is missing or too long.
    #[error("say why, in at most {REASON_CHARS_MAX} characters")]
    Reason,
    /// It ended already.
    #[error("the grant has ended: {}", .0.describe())]
    Over(GrantEnd),
    /// It cannot be signed.
    #[error(transparent)]
    Keys(#[from] AttestationKeysError),
    /// The store did not take it, or it is not known whether it did.
    #[error("{0}")]
    Store(String),
}

impl From<DecideError> for GrantFailure {
    fn from(error: DecideError) -> Self {
        match error {
            DecideError::NoTicket(id) => Self::NoTicket(id),
            other => Self::Store(other.to_string()),
        }
    }
}
