//! The page of one ticket: the whole packet, and the two forms that decide.

use askama::Template;
use http::StatusCode;
use servanda_approval::{
    ApprovalVerdict, Ineligible, Ticket, TicketId, TicketState, check_eligible, grant_obstacle,
    passkey_decision_challenge,
};
use servanda_contract::tool::Presence;
use servanda_doors::http::PageRequest;

use super::{
    fault::sign_in_path,
    packet_view::PacketView,
    plan_view::{self, PlanView},
};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form_token,
    passkey::{relying_party, request_options},
    reply::ConsoleReply,
    routing::{PASSKEYS, grant_path, read_id, ticket_path},
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
    /// What an approval would allow; none if the ticket is about a call.
    plan: Option<PlanView>,
    /// The page of the grant that was made from it, or that the person may make: address and words.
    grant: Option<(String, &'static str)>,
    reason_chars_max: usize,
}

impl TicketDocument {
    /// What people decide about.
    const fn subject_word(&self) -> &'static str {
        if self.plan.is_some() { "plan" } else { "call" }
    }
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
    /// Why this person cannot approve what is shown, if they cannot.
    cannot_approve: Option<&'static str>,
    /// How many more people have to approve after this one.
    missing_afterwards: usize,
    /// What the person's passkeys are asked, if the person has some here.
    passkey: Option<PasskeyQuestions>,
    /// Whether nothing is decided without one.
    needs_passkey: bool,
}

/// What a browser asks the person's passkeys: each decision has a challenge of its own.
struct PasskeyQuestions {
    approve: String,
    deny: String,
}

impl OpenForms {
    /// What a passkey has to sign for an approval. None if a passkey need not.
    fn approval_needs(&self) -> Option<&str> {
        self.passkey.as_ref().filter(|_| self.needs_passkey).map(|asked| asked.approve.as_str())
    }

    /// What a passkey has to sign for a denial.
    fn denial_needs(&self) -> Option<&str> {
        self.passkey.as_ref().filter(|_| self.needs_passkey).map(|asked| asked.deny.as_str())
    }

    /// What a passkey may sign for an approval that needs none.
    fn may_sign(&self) -> Option<&str> {
        self.passkey.as_ref().filter(|_| !self.needs_passkey).map(|asked| asked.approve.as_str())
    }
}

/// Shows a ticket.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest, id: &str) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let ticket = find(context, &viewer, id).await?;
    shown(context, &viewer, request, &ticket, (StatusCode::OK, None)).await
}

/// A ticket that the person sees.
pub(crate) async fn find(context: &ConsoleContext, viewer: &ConsoleViewer, id: &str) -> Result<Ticket, PageFault> {
    let id = read_id::<TicketId>(id).ok_or(PageFault::NotFound)?;
    let ticket = context.approvals().visible_ticket(&viewer.signed_in.person, &id).await?;
    if viewer.sees_ticket(&ticket) { Ok(ticket) } else { Err(PageFault::NotFound) }
}

/// The page of a ticket.
pub(crate) async fn shown(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    ticket: &Ticket,
    outcome_of_try: (StatusCode, Option<PageNotice>),
) -> Result<ConsoleReply, PageFault> {
    let (status, notice) = outcome_of_try;
    let view = PacketView::new(ticket, viewer, context.now());
    let passkey = questions(context, viewer, request, ticket).await?;
    let page = TicketDocument {
        frame: PageFrame::of(view.packet.action.clone(), &viewer.signed_in),
        decision: forms(context, viewer, ticket, &view, passkey),
        outcome: outcome(context, ticket),
        grant: grant(context, viewer, ticket),
        plan: plan_view::shown(context, viewer, ticket).await?,
        view,
        notice,
        reason_chars_max: REASON_CHARS_MAX,
    };
    Ok(ConsoleReply::page(status, &page))
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
            "Its contract or a policy asks that your passkey signs the decision. That is done on the ticket's own page, with a passkey that you \
             registered for this address."
                .to_owned(),
            Some((PASSKEYS.to_owned(), "Your passkeys")),
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

/// What the person's passkeys are asked about a ticket that waits. None if they have none here.
async fn questions(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    ticket: &Ticket,
) -> Result<Option<PasskeyQuestions>, PageFault> {
    let party = relying_party(viewer.settings().console_url.as_deref(), &request.headers);
    let Some(party) = party.filter(|_| ticket.state == TicketState::Pending) else { return Ok(None) };
    let person = &viewer.signed_in.person;
    let approver = (person.tenant.as_str(), person.principal.as_str());
    let own = context.authenticator.passkeys_of(approver.0, approver.1).await;
    let own = own.map_err(|unavailable| PageFault::StoreAway(unavailable.to_string()))?;
    if own.iter().all(|stored| stored.passkey.rp_id != party.id()) {
        return Ok(None);
    }
    let ask = |verdict| {
        let challenge = passkey_decision_challenge(&ticket.id, &ticket.subject.payload, verdict, approver);
        request_options(&party, challenge.as_bytes(), &own)
    };
    Ok(Some(PasskeyQuestions { approve: ask(ApprovalVerdict::Approve), deny: ask(ApprovalVerdict::Deny) }))
}

fn forms(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    view: &PacketView,
    passkey: Option<PasskeyQuestions>,
) -> DecisionForms {
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
    let needs_passkey = ticket.demand.presence == Presence::Passkey;
    let mut approver = viewer.as_approver();
    if passkey.is_some() && needs_passkey {
        // Whether one of them signs is seen when the person decides.
        approver.presence = Presence::Passkey;
    }
    match check_eligible(ticket, &approver, now_ms) {
        Err(ineligible) => DecisionForms::Closed(ineligible_words(ineligible, ticket)),
        Ok(takes_emergency_role) => {
            let action = ticket_path(ticket.id.as_str());
            DecisionForms::Open(OpenForms {
                token: form_token::make(&viewer.signed_in.token, &action),
                action,
                payload: ticket.subject.payload.to_string(),
                takes_emergency_role,
                cannot_approve: cannot_approve(viewer, ticket, view, takes_emergency_role),
                missing_afterwards: view.packet.missing.saturating_sub(1),
                passkey,
                needs_passkey,
            })
        }
    }
}

/// Why a person who may decide cannot approve what the page shows, if they cannot. They can deny it.
fn cannot_approve(
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    view: &PacketView,
    takes_emergency_role: bool,
) -> Option<&'static str> {
    let is_plan = ticket.is_plan();
    let reasons = [
        (!view.packet.can_be_approved(), "its stored arguments are not what was hashed"),
        (is_plan && takes_emergency_role, "the emergency role approves no plan"),
        (
            is_plan && !viewer.sees_all_values(ticket),
            "some of its values are masked for you, and a grant would hold them",
        ),
        (is_plan && viewer.settings().grant_days_max == 0, "this gateway makes no grants"),
    ];
    reasons.into_iter().find(|(holds, _)| *holds).map(|(_, why)| why)
}

/// Where the person sees what was allowed from now on, or allows it.
fn grant(context: &ConsoleContext, viewer: &ConsoleViewer, ticket: &Ticket) -> Option<(String, &'static str)> {
    let path = grant_path(ticket.id.as_str());
    if ticket.grant.is_some() {
        return Some((path, "What is allowed from now on"));
    }
    let can_be_made = viewer.settings().grant_days_max > 0 && grant_obstacle(ticket).is_none();
    let may_make = ticket.check_grant_maker(&viewer.as_approver(), context.now().unix_ms()).is_ok();
    (can_be_made && may_make).then_some((path, "Allow calls like this from now on"))
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
        TicketState::Approved if ticket.is_plan() => (
            "good",
            "Approved".to_owned(),
            "The agent may make these calls, each within its bounds and as often as it says. You can take that back."
                .to_owned(),
        ),
        TicketState::Lapsed if ticket.is_plan() => {
            ("quiet", "The time of this plan is over".to_owned(), "People are asked about every call again.".to_owned())
        }
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
