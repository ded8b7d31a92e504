//! Several tickets at once: chosen in the inbox, read here with their arguments, and decided together.
//!
//! The form has the payloads that this page showed. A ticket that changed since then, or that could not be shown whole, is not approved; each
//! ticket has a result of its own.

use askama::Template;
use http::StatusCode;
use servanda_approval::{ApprovalVerdict, Ticket, TicketId, TicketState, check_eligible};
use servanda_doors::http::PageRequest;
use servanda_engine::approvals::{DecideError, DecisionOutcome, PersonDecision};

use super::{
    decide::{act, check_token, payload, verdict},
    packet_view::PacketView,
    ticket::{self, REASON_CHARS_MAX, ineligible_words},
    ticket_line::TicketLine,
};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form::Form,
    form_token,
    reply::ConsoleReply,
    routing::{INBOX, REVIEW, read_id, ticket_path},
    view::{PageFrame, PageNotice},
};

/// The most tickets that are decided together.
pub(crate) const CHOSEN_MAX: usize = 50;

#[derive(Template)]
#[template(path = "review.html")]
struct ReviewPage {
    frame: PageFrame,
    notice: Option<PageNotice>,
    action: &'static str,
    token: String,
    tickets: Vec<ReviewedTicket>,
    /// How many of them can be approved here.
    approvable: usize,
    /// How many of them can be denied here.
    deniable: usize,
    reason_chars_max: usize,
}

/// One ticket that is reviewed with others.
struct ReviewedTicket {
    line: TicketLine,
    view: PacketView,
    /// What stands against approving it here.
    obstacle: Option<String>,
    /// Whether it can be denied here.
    can_deny: bool,
}

#[derive(Template)]
#[template(path = "results.html")]
struct ResultsPage {
    frame: PageFrame,
    results: Vec<DecisionResult>,
    recorded: usize,
}

/// What became of one of several decisions.
struct DecisionResult {
    href: String,
    what: String,
    style: &'static str,
    words: String,
}

/// A ticket that a person chose, and the payload that they were shown.
struct Choice {
    id: TicketId,
    payload: String,
}

/// Shows the chosen tickets with their arguments.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let query = request.uri.query().unwrap_or_default().as_bytes();
    let chosen = form_urlencoded::parse(query).filter(|(name, _)| name == "ticket").map(|(_, value)| value);
    let choices = read_choices(chosen)?;
    if choices.is_empty() {
        return Ok(ConsoleReply::redirect(INBOX));
    }
    let mut tickets = Vec::with_capacity(choices.len());
    for choice in choices {
        match ticket::find(context, &viewer, choice.id.as_str()).await {
            Ok(ticket) => tickets.push(reviewed(context, &viewer, &ticket, &choice)),
            // Whatever does not exist for this person is left out.
            Err(PageFault::NotFound) => {}
            Err(fault) => return Err(fault),
        }
    }
    let page = ReviewPage {
        frame: PageFrame::of("Review", &viewer.signed_in),
        notice: None,
        action: REVIEW,
        token: form_token::make(&viewer.signed_in.token, REVIEW),
        approvable: tickets.iter().filter(|ticket| ticket.obstacle.is_none()).count(),
        deniable: tickets.iter().filter(|ticket| ticket.can_deny).count(),
        tickets,
        reason_chars_max: REASON_CHARS_MAX,
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

/// Decides about the chosen tickets, one after the other.
pub(crate) async fn decide(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let form = Form::read(&request.headers, &request.body)?;
    check_token(&viewer, &form, request)?;
    let (verdict, choices) = (verdict(&form)?, read_choices(form.fields("ticket"))?);
    let reason = form.field("reason").map(str::to_owned);
    let (mut results, mut recorded) = (Vec::with_capacity(choices.len()), 0);
    for Choice { id, payload: shown } in choices {
        let decision = PersonDecision {
            ticket: id.clone(),
            payload: payload(Some(&shown))?,
            verdict,
            reason: reason.clone(),
            passkey: None,
            // The emergency role is used for one ticket at a time, on its own page.
            break_glass: false,
        };
        let decided = decide_one(context, &viewer, decision).await;
        recorded += usize::from(decided.is_ok());
        results.push(result(context, &viewer, id.as_str(), decided).await);
    }
    let page = ResultsPage { frame: PageFrame::of("Results", &viewer.signed_in), results, recorded };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

/// Decides about one of several tickets. What the review did not show whole is not approved, whatever the form says.
async fn decide_one(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    decision: PersonDecision,
) -> Result<DecisionOutcome, DecideError> {
    if decision.verdict == ApprovalVerdict::Approve {
        let ticket = context.approvals().visible_ticket(&viewer.signed_in.person, &decision.ticket).await?;
        if ticket.state == TicketState::Pending && !PacketView::new(&ticket, viewer, context.now()).is_whole() {
            return Err(DecideError::OtherPayload);
        }
    }
    act(context, viewer, decision).await
}

/// What is said to a form that was not made by the inbox.
const NO_TICKETS: PageFault = PageFault::BadForm("The form names no tickets.");

fn read_choices<T: AsRef<str>>(values: impl Iterator<Item = T>) -> Result<Vec<Choice>, PageFault> {
    let mut choices: Vec<Choice> = Vec::new();
    for value in values {
        let (id, payload) = value.as_ref().split_once(':').ok_or(NO_TICKETS)?;
        let id = read_id::<TicketId>(id).ok_or(NO_TICKETS)?;
        if choices.iter().all(|choice| choice.id != id) {
            choices.push(Choice { id, payload: payload.to_owned() });
        }
        if choices.len() > CHOSEN_MAX {
            return Err(PageFault::BadForm("At most 50 tickets are decided together. Go back and choose fewer."));
        }
    }
    Ok(choices)
}

fn reviewed(context: &ConsoleContext, viewer: &ConsoleViewer, ticket: &Ticket, choice: &Choice) -> ReviewedTicket {
    let now = context.now();
    let view = PacketView::new(ticket, viewer, now);
    let closed = if ticket.state != TicketState::Pending {
        Some(format!("The ticket is over: {}.", ticket.state.describe()))
    } else if choice.payload != ticket.subject.payload.to_string() {
        Some("The ticket changed since you chose it. Open it and read it again.".to_owned())
    } else {
        match check_eligible(ticket, &viewer.as_approver(), now.unix_ms()) {
            Ok(false) => None,
            Ok(true) => Some("This would take the emergency role. Open the ticket to use it.".to_owned()),
            Err(ineligible) => Some(ineligible_words(ineligible, ticket).text),
        }
    };
    let can_deny = closed.is_none();
    let unseen = || {
        "It has more than can be shown here, or something to look at twice. Open the ticket to approve it.".to_owned()
    };
    let obstacle = closed.or_else(|| (!view.is_whole()).then(unseen));
    ReviewedTicket { line: TicketLine::new(ticket, viewer, now), view, obstacle, can_deny }
}

async fn result(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    id: &str,
    decided: Result<DecisionOutcome, DecideError>,
) -> DecisionResult {
    let ticket = ticket::find(context, viewer, id).await.ok();
    let what = ticket.as_ref().map(|ticket| TicketLine::new(ticket, viewer, context.now()).what);
    let (style, words) = match decided {
        Ok(DecisionOutcome::Approved(_)) => ("good", "Approved.".to_owned()),
        Ok(DecisionOutcome::Recorded { missing, .. }) => {
            ("waiting", format!("Your approval is recorded; {missing} more needed."))
        }
        Ok(DecisionOutcome::Denied(_)) => ("bad", "Denied.".to_owned()),
        Err(DecideError::OtherPayload) => {
            ("quiet", "Not acted on: it changed, or was not shown whole. Open the ticket and read it again.".to_owned())
        }
        Err(DecideError::Over(state)) => ("quiet", format!("Not acted on: the ticket is over ({}).", state.describe())),
        Err(DecideError::Ineligible(ineligible)) => {
            let text = ticket.as_ref().map(|ticket| ineligible_words(ineligible, ticket).text);
            ("quiet", format!("Not acted on. {}", text.unwrap_or_default()))
        }
        Err(DecideError::NoTicket(_)) => ("quiet", "Not acted on: there is no such ticket.".to_owned()),
        Err(DecideError::Reason) => ("quiet", "Not acted on: the reason is too long.".to_owned()),
        Err(error @ (DecideError::NoGrants | DecideError::Masked)) => ("quiet", format!("Not acted on: {error}.")),
        Err(DecideError::Passkey) => ("quiet", "Not acted on: it needs your passkey.".to_owned()),
        Err(DecideError::Keys(_) | DecideError::Store(_)) => {
            ("quiet", "It is not known whether this was recorded: open the ticket.".to_owned())
        }
    };
    DecisionResult { href: ticket_path(id), what: what.unwrap_or_else(|| "A ticket".to_owned()), style, words }
}
