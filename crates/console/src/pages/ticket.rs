//! The page of one ticket: the whole packet, and the two forms that decide.

use askama::Template;
use http::StatusCode;
use servanda_approval::{Ineligible, Ticket, TicketId, TicketState, check_eligible};
use servanda_contract::tool::Presence;
use servanda_doors::http::PageRequest;

use super::{fault::sign_in_path, packet_view::PacketView};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form_token,
    reply::ConsoleReply,
    routing::ticket_path,
    view::{Moment, PageFrame, PageNotice},
};

/// The longest reason, as the engine takes it.
pub(crate) const REASON_CHARS_MAX: usize = 500;

#[derive(Template)]
#[template(path = "ticket.html")]
struct TicketDocument {
    frame: PageFrame,
    view: PacketView,
    /// Something about a decision that was just tried.
    notice: Option<PageNotice>,
    /// What the ticket came to.
    outcome: Option<TicketOutcome>,
    /// What the person may do.
    decision: DecisionForms,
    reason_chars_max: usize,
}

/// What became of a ticket.
struct TicketOutcome {
    style: &'static str,
    title: String,
    text: String,
}

/// What a person may do about a ticket.
enum DecisionForms {
    /// Decide.
    Open(OpenForms),
    /// Nothing, for this reason.
    Closed(PageNotice),
    /// Nothing any more: the ticket is over.
    Over,
}

/// The forms that decide.
struct OpenForms {
    action: String,
    token: String,
    payload: String,
    /// Whether the person decides with the emergency role.
    takes_emergency_role: bool,
    /// Whether what is shown can be approved at all.
    can_approve: bool,
    /// How many more people have to approve after this one.
    missing_afterwards: usize,
}

/// Shows a ticket.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest, id: &str) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let ticket = find(context, &viewer, id).await?;
    Ok(shown(context, &viewer, &ticket, StatusCode::OK, None))
}

/// A ticket that the person sees.
pub(crate) async fn find(context: &ConsoleContext, viewer: &ConsoleViewer, id: &str) -> Result<Ticket, PageFault> {
    let id = TicketId::from(id.to_owned());
    let ticket = context.approvals().visible_ticket(&viewer.signed_in.person, &id).await?;
    if viewer.sees_ticket(&ticket) { Ok(ticket) } else { Err(PageFault::NotFound) }
}

/// The page of a ticket.
pub(crate) fn shown(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    status: StatusCode,
    notice: Option<PageNotice>,
) -> ConsoleReply {
    let view = PacketView::new(ticket, viewer, context.now());
    let page = TicketDocument {
        frame: PageFrame::of(view.packet.action.clone(), &viewer.signed_in),
        decision: forms(context, viewer, ticket, &view),
        outcome: outcome(context, ticket),
        view,
        notice,
        reason_chars_max: REASON_CHARS_MAX,
    };
    ConsoleReply::page(status, &page)
}

/// Why a person may not decide, and what to do.
pub(crate) fn ineligible_words(ineligible: Ineligible, ticket: &Ticket) -> PageNotice {
    let path = ticket_path(ticket.id.as_str());
    let (title, text, link) = match ineligible {
        Ineligible::OtherTenant => ("There is no such ticket", "It belongs to another tenant.".to_owned(), None),
        Ineligible::OwnRequest => (
            "This is your own request",
            format!(
                "You asked for this call, or own the agent that did. This ticket takes {}, and not its requester: ask one of them.",
                ticket.demand.describe()
            ),
            None,
        ),
        Ineligible::NoRole => (
            "You may look and not decide",
            "You do not have the role `approver`. An operator of the gateway gives roles in its configuration."
                .to_owned(),
            None,
        ),
        Ineligible::OtherGroup => (
            "Another group decides about this",
            format!("This ticket takes {}. Ask one of them.", ticket.demand.describe()),
            None,
        ),
        Ineligible::DecidedAlready => (
            "You have decided about this",
            "Your decision counts once. Another person has to approve it too.".to_owned(),
            None,
        ),
        Ineligible::Presence { needed: Presence::Passkey } => (
            "This ticket needs a passkey",
            "Its contract or a policy asks that a passkey signs the decision, and you did not sign in with one."
                .to_owned(),
            None,
        ),
        Ineligible::Presence { .. } => (
            "Sign in again to decide",
            "This ticket needs a sign-in of the last five minutes, and yours is older. You come back to this page."
                .to_owned(),
            Some((sign_in_path(Some(&path)), "Sign in again")),
        ),
    };
    PageNotice { title: title.to_owned(), text, link }
}

fn forms(context: &ConsoleContext, viewer: &ConsoleViewer, ticket: &Ticket, view: &PacketView) -> DecisionForms {
    if ticket.state != TicketState::Pending {
        return DecisionForms::Over;
    }
    let now_ms = context.now().unix_ms();
    if now_ms >= ticket.decide_by.clock_ms {
        return DecisionForms::Closed(PageNotice {
            title: "The time to decide is over".to_owned(),
            text: "Nothing was sent. The agent may ask again, which opens another ticket.".to_owned(),
            link: None,
        });
    }
    match check_eligible(ticket, &viewer.as_approver(), now_ms) {
        Err(ineligible) => DecisionForms::Closed(ineligible_words(ineligible, ticket)),
        Ok(takes_emergency_role) => {
            let action = ticket_path(ticket.id.as_str());
            DecisionForms::Open(OpenForms {
                token: form_token::make(&viewer.signed_in.token, &action),
                action,
                payload: ticket.subject.payload.to_string(),
                takes_emergency_role,
                can_approve: view.packet.can_be_approved(),
                missing_afterwards: view.packet.missing.saturating_sub(1),
            })
        }
    }
}

fn outcome(context: &ConsoleContext, ticket: &Ticket) -> Option<TicketOutcome> {
    let now = context.now();
    let (style, title, text) = match ticket.state {
        TicketState::Pending if ticket.approvals() == 0 => return None,
        TicketState::Pending => (
            "waiting",
            "Approved in part".to_owned(),
            "More people have to approve before the call is made.".to_owned(),
        ),
        TicketState::Approved => {
            let until = ticket.use_by.map(|use_by| Moment::new(use_by.clock_ms, now));
            let until = until.map(|until| format!(" It can be used until {} ({}).", until.absolute, until.relative));
            let text = format!(
                "The agent may make this call once, with exactly these arguments.{}",
                until.unwrap_or_default()
            );
            ("good", "Approved".to_owned(), text)
        }
        TicketState::Consumed => {
            let call =
                ticket.consumed.as_ref().map(|used| format!(" by the call {}", used.call_id)).unwrap_or_default();
            ("good", "Approved and used".to_owned(), format!("The approval was used{call}, and cannot be used again."))
        }
        TicketState::Denied => (
            "bad",
            "Denied".to_owned(),
            "Nothing was sent. The agent was told, and may not ask again for an hour.".to_owned(),
        ),
        TicketState::AutoDenied => {
            ("quiet", "Nobody decided in time".to_owned(), "Nothing was sent. The agent may ask again.".to_owned())
        }
        TicketState::Lapsed => (
            "quiet",
            "Approved, and not used in time".to_owned(),
            "Nothing was sent. The agent may ask again.".to_owned(),
        ),
        TicketState::Superseded => {
            ("quiet", "Replaced".to_owned(), "What this ticket was about changed. The agent may ask again.".to_owned())
        }
    };
    Some(TicketOutcome { style, title, text })
}
