//! Approvals in the engine: the tickets that calls open and take up, and the decisions of people.
//!
//! `servanda_approval` decides what follows what; the store keeps it. This room asks the store, signs what people decide, issues warrants, and
//! wakes calls that wait. What people allow from now on is here too. Deliberately not here: which calls need an approval (gate 10), how people are authenticated, and what time does to
//! tickets (`approval_notices`).

mod deciding;
mod grant_plan;
mod grant_preview;
mod grants;
mod keys;
mod notifier;
mod people;
mod plan_grants;
mod wanted_grants;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
};

use servanda_approval::{Ticket, TicketEvent, TicketId, TicketRequest};
use servanda_contract::time::Clock;
use servanda_effects::{
    JournalError, Notebook, TicketStore,
    ticket_store::{AppliedTicket, TicketTarget},
};
use tokio::sync::watch;

pub use servanda_policy::grant_policy;

pub(crate) use self::grants::is_maker_still_eligible;
pub use self::{
    deciding::{DecideError, DecisionOutcome, PersonDecision},
    grant_preview::GrantPreview,
    grants::{GRANT_USES_USUAL, GRANTS_PAGE_MAX, may_revoke},
    keys::{AttestationKeys, AttestationKeysError, EphemeralAttestationKeys},
    notifier::{ApprovalNotice, ApprovalNotifier},
    people::{Person, is_still_eligible},
    wanted_grants::{GrantFailure, WantedBound, WantedCall, WantedGrant},
};

/// What approvals are kept in and signed with.
#[derive(Debug, Clone)]
pub struct ApprovalParts {
    /// The tickets.
    pub tickets: Arc<dyn TicketStore>,
    /// The keys that sign decisions and warrants.
    pub keys: Arc<dyn AttestationKeys>,
}

/// The approvals of a gateway.
#[derive(Debug)]
pub struct Approvals {
    tickets: Arc<dyn TicketStore>,
    /// Says which tickets have grants.
    notebook: Arc<dyn Notebook>,
    keys: Arc<dyn AttestationKeys>,
    clock: Arc<dyn Clock>,
    notifier: OnceLock<Arc<dyn ApprovalNotifier>>,
    /// Counts the changes of tickets that this process knows of, so that calls and pages that wait look again.
    changes: watch::Sender<u64>,
    /// How many calls of this process wait for each ticket with their callers.
    waiting: Mutex<BTreeMap<TicketId, usize>>,
}

/// A call waits for a ticket until this is dropped.
#[derive(Debug)]
pub(crate) struct TicketWait<'a> {
    ticket: TicketId,
    approvals: &'a Approvals,
}

impl Approvals {
    /// Approvals that are kept there.
    pub fn new(parts: ApprovalParts, notebook: Arc<dyn Notebook>, clock: Arc<dyn Clock>) -> Self {
        let ApprovalParts { tickets, keys } = parts;
        let (changes, waiting) = (watch::Sender::new(0), Mutex::default());
        Self { tickets, notebook, keys, clock, notifier: OnceLock::new(), changes, waiting }
    }

    /// The tickets.
    pub fn tickets(&self) -> &Arc<dyn TicketStore> {
        &self.tickets
    }

    /// The keys that sign decisions and warrants.
    pub fn keys(&self) -> &Arc<dyn AttestationKeys> {
        &self.keys
    }

    /// Tells people about tickets from now on. Only the first notifier counts.
    pub fn notify_by(&self, notifier: Arc<dyn ApprovalNotifier>) {
        drop(self.notifier.set(notifier));
    }

    /// Changes when this process learns that a ticket changed. Another gateway's changes are not seen here.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Counts a call that waits for a ticket.
    pub(crate) fn note_waiting(&self, ticket: &TicketId) -> TicketWait<'_> {
        *self.waiting().entry(ticket.clone()).or_default() += 1;
        TicketWait { ticket: ticket.clone(), approvals: self }
    }

    /// Whether a call of this process waits for the ticket with its caller.
    pub(crate) fn is_waited_for(&self, ticket: &TicketId) -> bool {
        self.waiting().contains_key(ticket)
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<TicketId, usize>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a ticket for a call, or joins the open one of the same payload.
    pub(crate) async fn request(&self, request: TicketRequest) -> Result<AppliedTicket, JournalError> {
        let target = TicketTarget::Key(request.key);
        self.apply(target, TicketEvent::Request(Box::new(request))).await
    }

    /// The latest ticket of a payload, if there is one.
    pub(crate) async fn latest(&self, request: &TicketTarget) -> Result<Option<Ticket>, JournalError> {
        self.tickets.find_ticket(request.clone()).await
    }

    /// Tells the person at the terminal, if there is one.
    pub(crate) async fn notify(&self, notice: ApprovalNotice) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify(notice).await;
        }
    }

    pub(crate) async fn apply(&self, target: TicketTarget, event: TicketEvent) -> Result<AppliedTicket, JournalError> {
        let applied = self.tickets.apply_ticket(target, event).await;
        self.changes.send_modify(|changes| *changes += 1);
        applied
    }
}

impl Drop for TicketWait<'_> {
    fn drop(&mut self) {
        let mut waiting = self.approvals.waiting();
        if let Some(count) = waiting.get_mut(&self.ticket) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                waiting.remove(&self.ticket);
            }
        }
    }
}
