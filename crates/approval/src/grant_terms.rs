//! Whether a grant can be made from a ticket, by whom, and what it says. Checked when the page offers it, when the person asks for it, and in
//! the store's transaction.

use crate::{
    ApprovalGrant, Approver, ArgumentBound, CostCeiling, GrantObstacle, GrantedCall, Ineligible, Ticket, TicketState,
    check_eligible, plan::call_obstacle, proposed_bounds,
};

/// What a person wants to allow.
#[derive(Debug, Clone, PartialEq)]
pub struct GrantTerms {
    /// The calls.
    pub calls: Vec<GrantedCall>,
    /// The most that they may cost together.
    pub cost_max: Option<CostCeiling>,
    /// Until when, in milliseconds since the epoch.
    pub until_ms: u64,
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
    // Without the bounds, because a list has no arguments.
    call_obstacle(&ticket.demand, &ticket.subject.sensitive)
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
    // The calls of a grant are of one caller, so only what they need is different.
    grant.calls.iter().try_for_each(|call| {
        let of_call = Ticket { demand: call.demand.clone(), ..ticket.clone() };
        check_maker(&of_call, approver, now_ms)
    })
}

impl Ticket {
    /// Whether a person may make this grant from it at that time of the store's clock.
    pub fn check_maker_of(&self, grant: &ApprovalGrant, approver: &Approver, now_ms: u64) -> Result<(), Ineligible> {
        check_maker_of(self, grant, approver, now_ms)
    }

    /// Its call as one of a grant.
    pub fn granted_call(&self, bounds: Vec<ArgumentBound>, uses_max: u32) -> GrantedCall {
        let subject = &self.subject;
        GrantedCall {
            ticket: Some(self.id.clone()),
            payload_hash: subject.payload,
            tool_name: subject.contract.clone(),
            tool_version: subject.contract_version.clone(),
            contract_digest: subject.contract_digest,
            demand: self.demand.clone(),
            bounds,
            uses_max,
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
            calls: terms.calls,
            cost_max: terms.cost_max,
            until_ms: terms.until_ms,
            approver: approver.principal.clone(),
            groups: approver.groups.clone(),
            presence: approver.presence,
            credential,
            at_ms,
        }
    }
}
