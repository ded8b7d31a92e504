//! The port through which stores keep the tickets of approvals. `servanda_approval::step` decides the next state of a ticket, and every store
//! runs it inside its own transaction; the use of an approval is part of the transaction that dispatches its call
//! ([`EffectChange::consumes`](crate::effect::EffectChange)).

mod in_memory;

use std::{fmt, sync::Arc};

use servanda_approval::{Ticket, TicketEvent, TicketId, TicketKey, TicketReply, TicketState, next_notice_ms};

use crate::{JournalError, PortFuture};

pub use in_memory::InMemoryTickets;

/// The most tickets of one page.
pub const TICKETS_PAGE_MAX: u32 = 200;

/// Which ticket is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TicketTarget {
    /// The ticket with an id.
    Id(TicketId),
    /// The latest ticket with a key; there may be none.
    Key(TicketKey),
}

/// The result of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct AppliedTicket {
    /// The reply to the event.
    pub reply: TicketReply,
    /// The ticket afterwards: the one that the event opened, or else the one that it is about. None if there is none.
    pub ticket: Option<Arc<Ticket>>,
}

/// Which tickets to list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketQuery {
    /// Only of this tenant; none means all.
    pub tenant: Option<String>,
    /// Only in these states; empty means all.
    pub states: Vec<TicketState>,
    /// Only tickets that are older than this one.
    pub before: Option<TicketId>,
    /// The most tickets, [`TICKETS_PAGE_MAX`] at most.
    pub limit: u32,
}

/// Stores tickets. An acknowledged change survives a crash, and every gateway that shares the store sees it.
pub trait TicketStore: Send + Sync + fmt::Debug {
    /// Applies one event in one transaction. A request has the target [`TicketTarget::Key`]; of two requests with one key, the second sees
    /// what the first did. A [`TicketEvent::Consume`] is refused here, because only a dispatch uses an approval. After an error it is not
    /// known whether the event was applied.
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>>;

    /// The ticket, with its arguments.
    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>>;

    /// Lists tickets, newest first. The list has no arguments.
    fn list_tickets(&self, query: TicketQuery) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>>;

    /// How many tickets of a tenant wait for a decision, counted up to `limit`.
    fn count_pending(&self, tenant: Option<String>, limit: u32) -> PortFuture<'_, Result<u32, JournalError>>;

    /// Tickets whose time is over by either clock, or about which people have to be told something, at most `limit`, the most overdue first.
    /// The list has no arguments.
    fn due_tickets(&self, limit: u32) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>>;
}

impl TicketQuery {
    /// The newest tickets of a tenant that wait for a decision.
    pub fn pending(tenant: Option<String>) -> Self {
        Self { tenant, states: vec![TicketState::Pending], before: None, limit: TICKETS_PAGE_MAX }
    }
}

/// When a store has to look at a ticket again: its time is over, or people have to be told something. None if nothing will happen to it by
/// itself.
pub fn due_ms(ticket: &Ticket) -> Option<u64> {
    let ends_ms = match ticket.state {
        TicketState::Pending => Some(ticket.decide_by.clock_ms),
        TicketState::Approved => Some(ticket.use_by.map_or(ticket.changed_ms, |use_by| use_by.clock_ms)),
        _ => None,
    };
    [ends_ms, next_notice_ms(ticket)].into_iter().flatten().min()
}

/// When the time of an open ticket is over in ledger time, whatever the store's clock says. None if nothing will happen to it by itself.
pub fn due_ledger_ms(ticket: &Ticket) -> Option<u64> {
    match ticket.state {
        TicketState::Pending => Some(ticket.decide_by.ledger_ms),
        // Without a deadline an approval would hold for ever: it is over at once.
        TicketState::Approved => Some(ticket.use_by.map_or(0, |use_by| use_by.ledger_ms)),
        _ => None,
    }
}

/// Refuses an event that no store applies by itself: the use of an approval, which only a dispatch makes, and a request that is not about
/// its own key.
pub fn check_event(target: &TicketTarget, event: &TicketEvent) -> Result<(), JournalError> {
    match (event, target) {
        (TicketEvent::Consume { .. }, _) => Err(JournalError::bad_content("only a dispatch uses an approval")),
        (TicketEvent::Request(request) | TicketEvent::Cover(request), TicketTarget::Key(key))
            if request.key == *key =>
        {
            Ok(())
        }
        (TicketEvent::Request(_) | TicketEvent::Cover(_), _) => {
            Err(JournalError::bad_content("a request names the key of its call"))
        }
        _ => Ok(()),
    }
}

/// The ticket without the arguments of its call, as lists have it.
pub fn without_arguments(ticket: &Ticket) -> Ticket {
    let mut listed = ticket.clone();
    listed.subject.arguments = bytes::Bytes::new();
    listed
}
