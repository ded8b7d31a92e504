//! Whether a grant can be made from a ticket, by whom, and what it says. Checked when the page offers it, when the person asks for it, and in
//! the store's transaction.

use crate::{
    ApprovalGrant, Approver, ArgumentBound, Ineligible, LeafFault, PlannedCall, Ticket, TicketState, check_eligible,
    grant::needs_people, proposed_bounds,
};

/// The sensitivity of values that are not written into anything that lasts.
const SECRET: &str = "secret";

/// What a person wants to allow.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantTerms {
    /// What each argument may be.
    pub bounds: Vec<ArgumentBound>,
    /// How many calls.
    pub uses_max: u32,
    /// Until when, in milliseconds since the epoch.
    pub until_ms: u64,
}

/// Why no grant can be made from a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GrantObstacle {
    /// People did not approve it.
    #[error("a grant is made from a call that people approved")]
    NotApproved,
    /// One was made already.
    #[error("a grant was made from this ticket already")]
    MadeAlready,
    /// People decide about every such call.
    #[error("people decide about each such call: {0}")]
    NeedsPeople(&'static str),
    /// An argument is a secret.
    #[error("an argument is a secret, and a grant would hold it")]
    Secret,
    /// The arguments have no bounds.
    #[error("its arguments cannot be bounded: {0}")]
    Arguments(LeafFault),
}

/// Why no grant can be made from a ticket, if none can.
pub fn grant_obstacle(ticket: &Ticket) -> Option<GrantObstacle> {
    let is_approved = matches!(ticket.state, TicketState::Approved | TicketState::Consumed | TicketState::Lapsed);
    if !is_approved || ticket.approvals() == 0 || ticket.denial().is_some() {
        return Some(GrantObstacle::NotApproved);
    }
    if ticket.grant.is_some() {
        return Some(GrantObstacle::MadeAlready);
    }
    if ticket.decisions.iter().any(|signed| signed.decision.break_glass) {
        return Some(GrantObstacle::NeedsPeople("it was approved in an emergency"));
    }
    if let Some(why) = needs_people(&ticket.demand) {
        return Some(GrantObstacle::NeedsPeople(why));
    }
    if ticket.subject.sensitive.values().any(|sensitivity| sensitivity == SECRET) {
        return Some(GrantObstacle::Secret);
    }
    None
}

/// Whether a person may make a grant from a ticket: one who may approve it, without the emergency role. Having approved it is no hindrance.
pub(crate) fn check_maker(ticket: &Ticket, approver: &Approver, now_ms: u64) -> Result<(), Ineligible> {
    let undecided = Ticket { decisions: Vec::new(), ..ticket.clone() };
    // Groups that escalation would have added later have no part in it.
    let now_ms = ticket.decided_ms.map_or(now_ms, |decided_ms| decided_ms.min(now_ms));
    match check_eligible(&undecided, approver, now_ms) {
        Ok(false) => Ok(()),
        Ok(true) => Err(Ineligible::OtherGroup),
        Err(ineligible) => Err(ineligible),
    }
}

/// Whether a person may make this grant from a ticket: one who may approve every call of it.
pub(crate) fn check_maker_of(
    ticket: &Ticket,
    grant: &ApprovalGrant,
    approver: &Approver,
    now_ms: u64,
) -> Result<(), Ineligible> {
    check_maker(ticket, approver, now_ms)?;
    // The calls of a plan are of one caller, so only what they need is different.
    grant.further.iter().try_for_each(|call| {
        let of_call = Ticket { demand: call.demand.clone(), ..ticket.clone() };
        check_maker(&of_call, approver, now_ms)
    })
}

impl Ticket {
    /// Whether a person may make this grant from it at that time of the store's clock.
    pub fn check_maker_of(&self, grant: &ApprovalGrant, approver: &Approver, now_ms: u64) -> Result<(), Ineligible> {
        check_maker_of(self, grant, approver, now_ms)
    }

    /// Its call as a further one of a plan.
    pub fn planned_call(&self, bounds: Vec<ArgumentBound>) -> PlannedCall {
        let subject = &self.subject;
        PlannedCall {
            ticket: self.id.clone(),
            payload_hash: subject.payload,
            tool_name: subject.contract.clone(),
            tool_version: subject.contract_version.clone(),
            contract_digest: subject.contract_digest,
            demand: self.demand.clone(),
            bounds,
        }
    }

    /// Whether another ticket is of the same caller: the same user, with the same agents.
    pub fn is_of_same_caller(&self, other: &Self) -> bool {
        let (one, other) = (&self.subject, &other.subject);
        one.tenant == other.tenant && one.principal == other.principal && one.actors == other.actors
    }

    /// Whether a person may make a grant from it at that time of the store's clock.
    pub fn check_grant_maker(&self, approver: &Approver, now_ms: u64) -> Result<(), Ineligible> {
        check_maker(self, approver, now_ms)
    }

    /// The bounds that a grant from it would have.
    pub fn proposed_bounds(&self) -> Result<Vec<ArgumentBound>, GrantObstacle> {
        proposed_bounds(&self.subject.arguments).map_err(GrantObstacle::Arguments)
    }

    /// The grant that a person makes of it.
    pub fn make_grant(&self, terms: GrantTerms, approver: &Approver, credential: String, at_ms: u64) -> ApprovalGrant {
        let subject = &self.subject;
        ApprovalGrant {
            ticket: self.id.clone(),
            payload_hash: subject.payload,
            tenant: subject.tenant.clone(),
            principal: subject.principal.clone(),
            actors: subject.actors.clone(),
            tool_name: subject.contract.clone(),
            tool_version: subject.contract_version.clone(),
            contract_digest: subject.contract_digest,
            demand: self.demand.clone(),
            bounds: terms.bounds,
            further: Vec::new(),
            uses_max: terms.uses_max,
            until_ms: terms.until_ms,
            approver: approver.principal.clone(),
            groups: approver.groups.clone(),
            presence: approver.presence,
            credential,
            at_ms,
        }
    }
}
