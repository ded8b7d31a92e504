//! The tickets that a transaction has read, and what its events make of them, event after event. Pure; the stores read and write around it.

use std::{cmp::Reverse, collections::BTreeMap, sync::Arc};

use servanda_approval::{
    ApprovalUse, DENIALS_IN_A_ROW_MAX, DENIALS_IN_RUN_MAX, RunDenials, Ticket, TicketContext, TicketEvent, TicketId,
    TicketKey, TicketReply, TicketState, TicketTransition, step,
};
use servanda_contract::Digest;
use servanda_effects::{
    effect::LedgerNow,
    ticket_store::{AppliedTicket, TicketTarget},
};

use crate::{leaves::TicketChange, ticket_rows::run_digest};

/// The latest decisions of a run that are read: as many as can stop it, and a few more, because a batch may supersede some of them.
pub(crate) const DECISIONS_READ_MAX: u32 = DENIALS_IN_A_ROW_MAX + 5;
/// The latest denials of a run that are read.
pub(crate) const DENIALS_READ_MAX: u32 = DENIALS_IN_RUN_MAX;

/// The tickets of a transaction.
#[derive(Debug, Default)]
pub(crate) struct TicketPage {
    tickets: BTreeMap<TicketId, PagedTicket>,
    latest: BTreeMap<TicketKey, (i64, TicketId)>,
    /// What people decided about the calls of runs.
    decided: BTreeMap<Digest, BTreeMap<TicketId, (u64, TicketState)>>,
    /// The tickets that were opened, in order.
    opened: Vec<TicketId>,
    /// Every change, in order.
    leaf_changes: Vec<TicketChange>,
}

#[derive(Debug)]
struct PagedTicket {
    ticket: Arc<Ticket>,
    is_changed: bool,
}

impl TicketPage {
    /// Adds a ticket that was read; of tickets with one key, the largest number is the latest.
    pub(crate) fn read(&mut self, ticket: Ticket, number: i64) {
        let (key, id) = (ticket.key, ticket.id.clone());
        let is_latest = self.latest.get(&key).is_none_or(|(latest, _)| *latest < number);
        if is_latest {
            self.latest.insert(key, (number, id.clone()));
        }
        self.tickets.insert(id, PagedTicket { ticket: Arc::new(ticket), is_changed: false });
    }

    /// Adds a decision about a call of a run.
    pub(crate) fn read_decision(&mut self, run: Digest, id: TicketId, decided_ms: u64, state: TicketState) {
        self.decided.entry(run).or_default().insert(id, (decided_ms, state));
    }

    /// Applies an event. Events that are applied later see what it did.
    pub(crate) fn apply(&mut self, target: &TicketTarget, event: &TicketEvent, now: LedgerNow) -> AppliedTicket {
        let before = self.find(target).cloned();
        let around = TicketContext { now_ms: now.now_ms, ledger_ms: now.ledger_ms, run: self.denials(event, now) };
        let TicketTransition { changes, reply } = step(before.as_deref(), event, &around);
        let mut after = before;
        for changed in changes {
            let changed = Arc::new(changed);
            self.change(&changed);
            after = Some(changed);
        }
        AppliedTicket { reply, ticket: after }
    }

    /// Uses an approval up, as a part of a dispatch.
    pub(crate) fn consume(&mut self, usage: &ApprovalUse, effect_id: &str, now: LedgerNow) -> TicketReply {
        let target = TicketTarget::Id(usage.ticket.clone());
        let event = TicketEvent::Consume { usage: usage.clone(), effect_id: effect_id.to_owned() };
        self.apply(&target, &event, now).reply
    }

    /// The tickets that were read and have changed. They are written before those that were opened, because only one ticket of a key is
    /// open at a time.
    pub(crate) fn changed(&self) -> Vec<&Ticket> {
        let changed = self.tickets.iter().filter(|(id, paged)| paged.is_changed && !self.opened.contains(id));
        changed.map(|(_, paged)| &*paged.ticket).collect()
    }

    /// The tickets that were opened, in order.
    pub(crate) fn opened(&self) -> Vec<&Ticket> {
        self.opened.iter().filter_map(|id| self.tickets.get(id)).map(|paged| &*paged.ticket).collect()
    }

    /// Every change, in order.
    pub(crate) fn leaf_changes(&self) -> &[TicketChange] {
        &self.leaf_changes
    }

    fn find(&self, target: &TicketTarget) -> Option<&Arc<Ticket>> {
        let id = match target {
            TicketTarget::Id(id) => id,
            TicketTarget::Key(key) => &self.latest.get(key)?.1,
        };
        self.tickets.get(id).map(|paged| &paged.ticket)
    }

    fn change(&mut self, ticket: &Arc<Ticket>) {
        let (key, id) = (ticket.key, ticket.id.clone());
        if !self.tickets.contains_key(&id) {
            self.opened.push(id.clone());
            self.latest.insert(key, (i64::MAX, id.clone()));
        }
        let run = run_digest(&ticket.subject.tenant, &ticket.subject.run);
        if let (Some(decided), Some(decided_ms)) = (self.decided.get_mut(&run), ticket.decided_ms) {
            decided.insert(id.clone(), (decided_ms, ticket.state));
        }
        let before = self.tickets.insert(id, PagedTicket { ticket: Arc::clone(ticket), is_changed: true });
        let before = before.map(|paged| paged.ticket);
        self.leaf_changes.push(TicketChange { before, after: Arc::clone(ticket) });
    }

    /// What people decided about other calls of the run of a request.
    fn denials(&self, event: &TicketEvent, now: LedgerNow) -> RunDenials {
        let Some(run) = run_of(event) else { return RunDenials::default() };
        let Some(decided) = self.decided.get(&run) else { return RunDenials::default() };
        let mut decided: Vec<(u64, TicketState)> = decided.values().copied().collect();
        decided.sort_by_key(|(decided_ms, _)| Reverse(*decided_ms));
        RunDenials::count(decided, now.now_ms)
    }
}

/// The run whose decisions an event depends on.
pub(crate) fn run_of(event: &TicketEvent) -> Option<Digest> {
    match event {
        TicketEvent::Request(request) | TicketEvent::Cover(request) => {
            Some(run_digest(&request.subject.tenant, &request.subject.run))
        }
        _ => None,
    }
}
