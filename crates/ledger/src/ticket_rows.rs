//! The stored form of tickets, the same for every store: the columns they are found by, the text that holds everything but the arguments,
//! and the arguments. Reading checks that columns and body agree.

use bytes::Bytes;
use servanda_approval::{Ticket, TicketState};
use servanda_contract::{Digest, digest::DigestDomain};
use servanda_effects::ticket_store::{TICKETS_PAGE_MAX, TicketQuery, due_ledger_ms, due_ms};

use crate::{LedgerError, codec::signed};

/// A ticket as columns.
#[derive(Debug)]
pub(crate) struct TicketRow<'a> {
    pub(crate) ticket_id: &'a str,
    pub(crate) key: &'a Digest,
    pub(crate) tenant: &'a str,
    /// The [`run_digest`].
    pub(crate) run: Digest,
    pub(crate) state: &'static str,
    pub(crate) created_ms: i64,
    pub(crate) decided_ms: Option<i64>,
    pub(crate) due_ms: Option<i64>,
    pub(crate) due_ledger_ms: Option<i64>,
    pub(crate) changed_ms: i64,
    pub(crate) body: String,
    pub(crate) arguments: &'a [u8],
}

/// A ticket as it is read back.
#[derive(Debug)]
pub(crate) struct StoredTicket {
    pub(crate) ticket_id: String,
    pub(crate) key: Vec<u8>,
    pub(crate) state: String,
    pub(crate) changed_ms: i64,
    pub(crate) body: String,
    /// None in a list.
    pub(crate) arguments: Option<Vec<u8>>,
}

/// The digest that the tickets of a run are found by. It has a fixed length, whatever the length of the names.
pub(crate) fn run_digest(tenant: &str, run: &str) -> Digest {
    Digest::compute(DigestDomain::TicketRun, &[tenant.as_bytes(), run.as_bytes()])
}

impl<'a> TicketRow<'a> {
    pub(crate) fn new(ticket: &'a Ticket) -> Result<Self, LedgerError> {
        let subject = &ticket.subject;
        let body = serde_json::to_string(ticket);
        Ok(Self {
            ticket_id: ticket.id.as_str(),
            key: ticket.key.digest(),
            tenant: &subject.tenant,
            run: run_digest(&subject.tenant, &subject.run),
            state: ticket.state.name(),
            created_ms: signed(ticket.created_ms),
            decided_ms: ticket.decided_ms.map(signed),
            due_ms: due_ms(ticket).map(signed),
            due_ledger_ms: due_ledger_ms(ticket).map(signed),
            changed_ms: signed(ticket.changed_ms),
            body: body.map_err(|error| unusable(ticket.id.as_str(), error.to_string()))?,
            arguments: &subject.arguments,
        })
    }
}

impl StoredTicket {
    pub(crate) fn decode(self) -> Result<Ticket, LedgerError> {
        let mut ticket: Ticket =
            serde_json::from_str(&self.body).map_err(|error| unusable(&self.ticket_id, error.to_string()))?;
        let says = (ticket.id.as_str(), ticket.state.name(), signed(ticket.changed_ms));
        let is_same = says == (self.ticket_id.as_str(), self.state.as_str(), self.changed_ms)
            && ticket.key.digest().as_bytes()[..] == self.key;
        if !is_same {
            return Err(unusable(&self.ticket_id, "its columns and its body disagree".to_owned()));
        }
        ticket.subject.arguments = self.arguments.map(Bytes::from).unwrap_or_default();
        Ok(ticket)
    }
}

/// The states to list.
pub(crate) fn listed_states(query: &TicketQuery) -> Vec<&'static str> {
    let states = if query.states.is_empty() { &TicketState::ALL[..] } else { &query.states };
    let mut names: Vec<&str> = states.iter().map(|state| state.name()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The most rows to list.
pub(crate) fn listed_max(query: &TicketQuery) -> i64 {
    i64::from(query.limit.min(TICKETS_PAGE_MAX))
}

/// The id that all ids to list come before. No ticket has an id with the character that text in PostgreSQL cannot hold, so that the
/// character after it divides them in the same way.
pub(crate) fn listed_before(query: &TicketQuery) -> String {
    let before = query.before.as_ref().map(|id| id.as_str().replace('\0', "\u{1}"));
    before.unwrap_or_else(|| char::MAX.to_string())
}

/// The error about a ticket that cannot be read or written.
pub(crate) fn unusable(ticket_id: &str, reason: String) -> LedgerError {
    LedgerError::Ticket { ticket_id: ticket_id.to_owned(), reason }
}
