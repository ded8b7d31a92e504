//! What a grant would have done: the calls of its tools that were held lately, asked of its policy. Shown to people before the grant holds.

use std::collections::BTreeSet;

use servanda_approval::{ApprovalGrant, GrantedCall, Ticket, TicketState};
use servanda_effects::{
    JournalError,
    ticket_store::{TICKETS_PAGE_MAX, TicketQuery, TicketTarget},
};
use servanda_policy::{GrantQuestion, grant_admits};

use super::Approvals;

/// How far it looks back: thirty days.
const LOOKED_BACK_MS: u64 = 30 * 24 * 3_600_000;
/// The most tickets that it looks at.
const TICKETS_LOOKED_AT_MAX: usize = 2_000;
/// The most calls whose arguments it asks the policy about.
const CALLS_ASKED_MAX: usize = 200;

/// What a grant would have done to the calls of its tools that were held lately.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GrantPreview {
    /// How many calls of the tools were held.
    pub held: usize,
    /// How many of them the grant would have covered.
    pub covered: usize,
    /// How many of them people denied.
    pub denied: usize,
    /// How many of the denied ones the grant would have covered.
    pub denied_covered: usize,
    /// Whether there were more than it looks at.
    pub is_cut: bool,
}

impl Approvals {
    /// Asks the policy of a grant about the stored tickets of its tools.
    pub async fn preview_grant(&self, grant: &ApprovalGrant) -> Result<GrantPreview, JournalError> {
        let since_ms = self.clock.now().unix_ms().saturating_sub(LOOKED_BACK_MS);
        let tools: BTreeSet<String> = grant.calls.iter().map(|call| call.tool_name.clone()).collect();
        let (mut preview, mut before, mut looked_at, mut asked) = (GrantPreview::default(), None, 0, 0);
        loop {
            let tenant = Some(grant.tenant.clone());
            let query = TicketQuery { tenant, states: Vec::new(), before, limit: TICKETS_PAGE_MAX };
            let page = self.tickets.list_tickets(query).await?;
            before = page.last().map(|ticket| ticket.id.clone());
            for ticket in page.iter().filter(|ticket| tools.contains(&ticket.subject.contract)) {
                if ticket.created_ms < since_ms {
                    return Ok(preview);
                }
                let was_denied = ticket.state == TicketState::Denied;
                preview.held += 1;
                preview.denied += usize::from(was_denied);
                if !is_of_caller(grant, ticket) {
                    continue;
                }
                if asked >= CALLS_ASKED_MAX {
                    preview.is_cut = true;
                    continue;
                }
                asked += 1;
                let whole = self.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await?;
                let is_covered = whole.is_some_and(|ticket| covers(grant, &ticket));
                preview.covered += usize::from(is_covered);
                preview.denied_covered += usize::from(is_covered && was_denied);
            }
            looked_at += page.len();
            if before.is_none() {
                return Ok(preview);
            }
            if looked_at >= TICKETS_LOOKED_AT_MAX {
                return Ok(GrantPreview { is_cut: true, ..preview });
            }
        }
    }
}

fn is_of_caller(grant: &ApprovalGrant, ticket: &Ticket) -> bool {
    let subject = &ticket.subject;
    let is_of_contract = |call: &GrantedCall| call.contract_digest == subject.contract_digest;
    subject.principal == grant.principal && subject.actors == grant.actors && grant.calls.iter().any(is_of_contract)
}

fn covers(grant: &ApprovalGrant, ticket: &Ticket) -> bool {
    let subject = &ticket.subject;
    let question = GrantQuestion {
        caller: &ticket.requester(),
        tool: &subject.contract,
        contract: &subject.contract_digest,
        arguments: &subject.arguments,
    };
    grant_admits(grant, &question)
}
