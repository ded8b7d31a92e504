//! What the approval of a plan would allow, on the page of its ticket: every call with its bounds and its number of times, the money, the
//! policy, and what it would have done. Deliberately not here: whether the person may approve it.

use servanda_approval::{PacketPlan, Ticket, TicketState};
use servanda_engine::approvals::{GrantPreview, grant_policy};

use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
};

/// What the approval of a plan would allow.
pub(super) struct PlanView {
    pub(super) plan: PacketPlan,
    /// The policy; none if a value in it is masked for this person.
    pub(super) policy: Option<String>,
    /// What it would have done; none if people decided already.
    pub(super) preview: Option<GrantPreview>,
}

/// What a plan's ticket asks for, as this person may see it; none if the ticket is about a call.
pub(super) async fn shown(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
) -> Result<Option<PlanView>, PageFault> {
    let sees_all = viewer.sees_all_values(ticket);
    let Some(terms) = ticket.plan() else { return Ok(None) };
    let now_ms = context.now().unix_ms();
    let draft = ticket.make_plan_grant(&viewer.as_approver(), String::new(), (now_ms, now_ms));
    let preview = match &draft {
        Some(draft) if ticket.state == TicketState::Pending => Some(context.approvals().preview_grant(draft).await?),
        _ => None,
    };
    let policy = draft.as_ref().filter(|_| sees_all).map(grant_policy);
    Ok(Some(PlanView { plan: PacketPlan::new(terms, sees_all), policy, preview }))
}
