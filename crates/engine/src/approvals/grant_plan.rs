//! Plans: one grant for calls like several approved ones. Which tickets may be part of one, and what each adds to it. The grant is made, kept,
//! drawn on and taken back as every other (`grants`).

use std::collections::BTreeSet;

use servanda_approval::{
    ApprovalSettings, ArgumentBound, BoundRule, GRANT_USES_MAX, GrantObstacle, GrantedCall, PLAN_CALLS_MAX, Ticket,
    TicketState, argument_leaves, grant_obstacle,
};
use servanda_effects::{
    JournalError,
    ticket_store::{TICKETS_PAGE_MAX, TicketQuery, TicketTarget},
};

use super::{Approvals, GrantFailure, Person, WantedCall};

impl Approvals {
    /// The tickets that a person could add to a grant from this one: other calls of the same caller, the newest first. Looks at one page of
    /// the tenant's tickets.
    pub async fn plannable_tickets(
        &self,
        person: &Person,
        ticket: &Ticket,
        settings: &ApprovalSettings,
    ) -> Result<Vec<Ticket>, JournalError> {
        let query = TicketQuery {
            tenant: Some(person.tenant.clone()),
            states: vec![TicketState::Approved, TicketState::Consumed, TicketState::Lapsed],
            before: None,
            limit: TICKETS_PAGE_MAX,
        };
        let page = self.tickets.list_tickets(query).await?;
        let mut found = Vec::new();
        for listed in page.iter().filter(|other| other.id != ticket.id && ticket.is_of_same_caller(other)) {
            if found.len() + 1 >= PLAN_CALLS_MAX {
                break;
            }
            // The list has no arguments.
            let whole = self.tickets.find_ticket(TicketTarget::Id(listed.id.clone())).await?;
            found.extend(whole.filter(|other| self.check_planned(person, ticket, other, settings).is_ok()));
        }
        Ok(found)
    }

    /// The further calls of a grant that a person wants to make from a ticket.
    pub(super) async fn planned_calls(
        &self,
        person: &Person,
        ticket: &Ticket,
        wanted: &[WantedCall],
        settings: &ApprovalSettings,
    ) -> Result<Vec<GrantedCall>, GrantFailure> {
        if wanted.len() >= PLAN_CALLS_MAX {
            return Err(GrantFailure::TooManyCalls);
        }
        let mut seen = BTreeSet::from([ticket.id.clone()]);
        let mut planned = Vec::new();
        for call in wanted {
            let in_plan = |reason| GrantFailure::Planned { ticket: call.ticket.clone(), reason: Box::new(reason) };
            if !seen.insert(call.ticket.clone()) {
                return Err(in_plan(GrantFailure::Repeated));
            }
            let other = self.visible_ticket(person, &call.ticket).await.map_err(|error| in_plan(error.into()))?;
            if other.subject.payload != call.payload {
                return Err(in_plan(GrantFailure::OtherPayload));
            }
            self.check_planned(person, ticket, &other, settings).map_err(in_plan)?;
            if !(1..=GRANT_USES_MAX).contains(&call.uses_max) {
                return Err(in_plan(GrantFailure::Uses));
            }
            planned.push(other.granted_call(bounds(&other, call.is_exact).map_err(in_plan)?, call.uses_max));
        }
        Ok(planned)
    }

    /// Whether a person may add the call of another ticket to a grant from this one. What people decided there does not change any more, so
    /// the store need not look at it again.
    fn check_planned(
        &self,
        person: &Person,
        ticket: &Ticket,
        other: &Ticket,
        settings: &ApprovalSettings,
    ) -> Result<(), GrantFailure> {
        if !ticket.is_of_same_caller(other) {
            return Err(GrantFailure::OtherCaller);
        }
        if let Some(obstacle) = grant_obstacle(other) {
            return Err(obstacle.into());
        }
        if !other.is_intact() {
            return Err(GrantFailure::OtherPayload);
        }
        other.proposed_bounds()?;
        Ok(other.check_grant_maker(&person.as_approver(settings), self.clock.now().unix_ms())?)
    }
}

fn bounds(ticket: &Ticket, is_exact: bool) -> Result<Vec<ArgumentBound>, GrantFailure> {
    if !is_exact {
        return Ok(ticket.proposed_bounds()?);
    }
    let leaves = argument_leaves(&ticket.subject.arguments).map_err(GrantObstacle::Arguments)?;
    Ok(leaves
        .into_iter()
        .map(|leaf| ArgumentBound { pointer: leaf.pointer, rule: BoundRule::Equal(leaf.value) })
        .collect())
}
