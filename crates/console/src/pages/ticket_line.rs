//! One ticket in one line, for people.

use servanda_approval::{Ticket, TicketState};
use servanda_contract::{Timestamp, legibility};

use super::words::{RiskWords, StateWords, progress, quoted};
use crate::{context::ConsoleViewer, routing::ticket_path, view::Moment};

/// The longest text of a line.
const TEXT_CHARS_MAX: usize = 240;

/// One ticket in one line.
pub(crate) struct TicketLine {
    /// Its id.
    pub(crate) id: String,
    /// Its address.
    pub(crate) href: String,
    /// What happens if it is approved.
    pub(crate) what: String,
    /// The tool.
    pub(crate) tool: String,
    /// Who asks.
    pub(crate) who: String,
    /// Why an approval is needed.
    pub(crate) why: String,
    /// How grave it is.
    pub(crate) risk: RiskWords,
    /// Its state.
    pub(crate) state: StateWords,
    /// When it was opened.
    pub(crate) opened: Moment,
    /// Until when people may decide, or an approval can be used. None if it is over.
    pub(crate) until: Option<Moment>,
    /// How many decisions of how many.
    pub(crate) progress: String,
    /// Id and payload, as the form that reviews several carries them.
    pub(crate) choice: String,
    /// Whether people may still decide.
    pub(crate) is_pending: bool,
}

impl TicketLine {
    /// The line of a ticket, as this person may see it.
    pub(crate) fn new(ticket: &Ticket, viewer: &ConsoleViewer, now: Timestamp) -> Self {
        let subject = &ticket.subject;
        let tool =
            format!("{} {}", legibility::one_line(&subject.contract), legibility::one_line(&subject.contract_version));
        // The consequence contains arguments: a person who may not see one of them does not see it.
        let consequence = subject.consequence.as_deref().filter(|_| viewer.sees_all_values(ticket));
        let what = consequence.map_or_else(|| format!("Call {tool}"), |text| shortened(&legibility::one_line(text)));
        let causes = ticket.demand.causes.iter().map(|cause| cause.describe(ticket.demand.class));
        let ends = if ticket.state == TicketState::Pending { Some(ticket.decide_by) } else { ticket.use_by };
        let until = ends.filter(|_| ticket.state.is_open()).map(|deadline| Moment::new(deadline.clock_ms, now));
        Self {
            id: ticket.id.to_string(),
            href: ticket_path(ticket.id.as_str()),
            what,
            tool,
            who: requester(ticket),
            why: quoted(&legibility::one_line(&causes.collect::<Vec<_>>().join("; "))),
            risk: RiskWords::new(ticket.demand.class),
            state: StateWords::new(ticket),
            opened: Moment::new(ticket.created_ms, now),
            until,
            progress: progress(ticket),
            choice: format!("{}:{}", ticket.id, subject.payload),
            is_pending: ticket.state == TicketState::Pending,
        }
    }
}

/// Who asks, on one line.
fn requester(ticket: &Ticket) -> String {
    let subject = &ticket.subject;
    let person = legibility::one_line(&subject.principal);
    match subject.actors.first() {
        Some(actor) if actor.proven => format!("{} for {person}", legibility::one_line(&actor.name)),
        Some(actor) => format!("“{}” (a claimed name) for {person}", legibility::one_line(&actor.name)),
        None => person,
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
