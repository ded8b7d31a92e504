//! Tickets that last as long as the process, for one-off commands and for tests. They follow the same rules as any store.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_approval::{
    ApprovalUse, RunDenials, Ticket, TicketContext, TicketEvent, TicketId, TicketReply, TicketState, TicketTransition,
    step,
};
use servanda_contract::time::Clock;

use super::{
    AppliedTicket, TICKETS_PAGE_MAX, TicketQuery, TicketStore, TicketTarget, check_event, due_ledger_ms, due_ms,
    without_arguments,
};
use crate::{JournalError, PortFuture};

/// Tickets in memory.
#[derive(Debug)]
pub struct InMemoryTickets {
    clock: Arc<dyn Clock>,
    tickets: Mutex<BTreeMap<TicketId, Ticket>>,
}

impl InMemoryTickets {
    /// A store without tickets.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, tickets: Mutex::default() }
    }

    /// Uses an approval up, as a part of a dispatch.
    pub(crate) fn consume(&self, usage: ApprovalUse, effect_id: String) -> TicketReply {
        let target = TicketTarget::Id(usage.ticket.clone());
        self.apply_here(&target, &TicketEvent::Consume { usage, effect_id }).reply
    }

    fn apply_here(&self, target: &TicketTarget, event: &TicketEvent) -> AppliedTicket {
        let now_ms = self.clock.now().unix_ms();
        let mut tickets = self.tickets();
        let before = find(&tickets, target).cloned();
        let run = match event {
            TicketEvent::Request(request) | TicketEvent::Cover(request) => {
                denials(&tickets, &request.subject.tenant, &request.subject.run, now_ms)
            }
            _ => RunDenials::default(),
        };
        let around = TicketContext { now_ms, ledger_ms: now_ms, run };
        let TicketTransition { changes, reply } = step(before.as_ref(), event, &around);
        let after = changes.last().cloned().or(before);
        tickets.extend(changes.into_iter().map(|ticket| (ticket.id.clone(), ticket)));
        AppliedTicket { reply, ticket: after.map(Arc::new) }
    }

    fn tickets(&self) -> MutexGuard<'_, BTreeMap<TicketId, Ticket>> {
        self.tickets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn find<'a>(tickets: &'a BTreeMap<TicketId, Ticket>, target: &TicketTarget) -> Option<&'a Ticket> {
    match target {
        TicketTarget::Id(id) => tickets.get(id),
        TicketTarget::Key(key) => tickets.values().rev().find(|ticket| ticket.key == *key),
    }
}

fn is_due(ticket: &Ticket, now_ms: u64) -> bool {
    due_ms(ticket).is_some_and(|due_ms| due_ms <= now_ms)
}

/// What people decided about other calls of a run.
fn denials(tickets: &BTreeMap<TicketId, Ticket>, tenant: &str, run: &str, now_ms: u64) -> RunDenials {
    let of_run = |ticket: &&Ticket| ticket.subject.tenant == tenant && ticket.subject.run == run;
    let mut decided: Vec<(u64, TicketState)> =
        tickets.values().filter(of_run).filter_map(|ticket| Some((ticket.decided_ms?, ticket.state))).collect();
    decided.sort_by_key(|(decided_ms, _)| std::cmp::Reverse(*decided_ms));
    RunDenials::count(decided, now_ms)
}

impl TicketStore for InMemoryTickets {
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>> {
        let applied = check_event(&target, &event).map(|()| self.apply_here(&target, &event));
        Box::pin(std::future::ready(applied))
    }

    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>> {
        let found = find(&self.tickets(), &target).cloned();
        Box::pin(std::future::ready(Ok(found)))
    }

    fn list_tickets(&self, query: TicketQuery) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        let wanted = |ticket: &&Ticket| {
            query.tenant.as_deref().is_none_or(|tenant| tenant == ticket.subject.tenant)
                && (query.states.is_empty() || query.states.contains(&ticket.state))
                && query.before.as_ref().is_none_or(|before| ticket.id < *before)
        };
        let limit = usize::try_from(query.limit.min(TICKETS_PAGE_MAX)).unwrap_or(usize::MAX);
        let listed = self.tickets().values().rev().filter(wanted).take(limit).map(without_arguments).collect();
        Box::pin(std::future::ready(Ok(listed)))
    }

    fn count_pending(&self, tenant: Option<String>, limit: u32) -> PortFuture<'_, Result<u32, JournalError>> {
        let wanted = |ticket: &&Ticket| {
            ticket.state == TicketState::Pending
                && tenant.as_deref().is_none_or(|tenant| tenant == ticket.subject.tenant)
        };
        let count = self.tickets().values().filter(wanted).take(usize::try_from(limit).unwrap_or(usize::MAX)).count();
        Box::pin(std::future::ready(Ok(u32::try_from(count).unwrap_or(limit))))
    }

    fn due_tickets(&self, limit: u32) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        let now_ms = self.clock.now().unix_ms();
        let mut due: Vec<(u64, Ticket)> = self
            .tickets()
            .values()
            .filter(|ticket| due_ledger_ms(ticket).is_some_and(|due_ms| due_ms <= now_ms) || is_due(ticket, now_ms))
            .filter_map(|ticket| Some((due_ms(ticket)?, without_arguments(ticket))))
            .collect();
        due.sort_by_key(|(due_ms, _)| *due_ms);
        due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        Box::pin(std::future::ready(Ok(due.into_iter().map(|(_, ticket)| ticket).collect())))
    }
}
