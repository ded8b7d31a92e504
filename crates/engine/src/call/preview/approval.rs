//! How far the approval of a previewed call has come. The ticket is looked at; none is opened, and no approval is used up.

use servanda_approval::{ApprovalDemand, DENIAL_HOLD_MS, Ticket, TicketReply, TicketState};
use servanda_contract::{
    Refusal,
    preview::{ApprovalStanding, PreviewedApproval},
};
use servanda_effects::ticket_store::TicketTarget;
use servanda_gates::PreviewedCall;

use crate::{answers::approvals as words, approvals::is_still_eligible, call::state::CallPipeline};

impl CallPipeline<'_> {
    /// The approval that a call needs. The refusal is the one that the call would get because of it.
    pub(super) async fn look_at_approval(
        &self,
        previewed: &PreviewedCall,
    ) -> (Option<PreviewedApproval>, Option<Refusal>) {
        let Some(demand) = previewed.demand() else { return (None, None) };
        let preview = |standing, ticket: Option<&Ticket>| {
            Some(PreviewedApproval {
                by: demand.describe(),
                because: demand.describe_causes(),
                pattern: demand.pattern,
                quorum: demand.quorum,
                presence: demand.presence,
                standing,
                ticket: ticket.map(|ticket| ticket.id.to_string()),
            })
        };
        let latest = match self.core.approvals.latest(&TicketTarget::Key(previewed.ticket_key())).await {
            Ok(latest) => latest,
            Err(error) => {
                let refusal = *words::store_away(previewed.call_id(), &error);
                return (preview(ApprovalStanding::Unknown, None), Some(refusal));
            }
        };
        let grant = match self.covering_grant(previewed, demand).await {
            Ok(grant) => grant,
            Err(refusal) => return (preview(ApprovalStanding::Unknown, None), Some(*refusal)),
        };
        // What a person allowed from now on counts as an approval, unless people decided about this very call.
        let otherwise = grant.as_ref().map_or(ApprovalStanding::NotAsked, |_| ApprovalStanding::Approved);
        let Some(ticket) = latest else { return (preview(otherwise, grant.as_ref()), None) };
        let or_last = grant.as_ref().unwrap_or(&ticket);
        let now_ms = self.core.clock.now().unix_ms();
        let counts = ticket.subject.payload == previewed.proposal_digest() && counts_now(&ticket, demand, now_ms);
        match ticket.state {
            TicketState::Pending if counts && grant.is_none() => {
                (preview(ApprovalStanding::Pending, Some(&ticket)), None)
            }
            TicketState::Approved if counts && is_still_eligible(&ticket, self.snapshot.authorities.approvals()) => {
                (preview(ApprovalStanding::Approved, Some(&ticket)), None)
            }
            TicketState::Denied => {
                let until_ms = denial_held_until_ms(&ticket);
                if now_ms >= until_ms {
                    return (preview(otherwise, Some(or_last)), None);
                }
                let reply = TicketReply::Denied { until_ms };
                let refusal = words::ended(previewed.call_id(), &self.record.tool, &ticket, &reply);
                (preview(ApprovalStanding::Denied, Some(&ticket)), Some(*refusal))
            }
            _ => (preview(otherwise, Some(or_last)), None),
        }
    }
}

/// Until when a denial holds.
pub(in crate::call) fn denial_held_until_ms(ticket: &Ticket) -> u64 {
    ticket.decided_ms.unwrap_or(ticket.changed_ms).saturating_add(DENIAL_HOLD_MS)
}

/// Whether an open ticket's time is not over, and what it asks for is enough.
pub(in crate::call) fn counts_now(ticket: &Ticket, demand: &ApprovalDemand, now_ms: u64) -> bool {
    let is_in_time = match (ticket.state, ticket.use_by) {
        (TicketState::Pending, _) => now_ms < ticket.decide_by.clock_ms,
        (TicketState::Approved, Some(use_by)) => now_ms < use_by.clock_ms,
        _ => false,
    };
    is_in_time && (ticket.demand == *demand || ticket.demand.still_satisfies(demand))
}
