//! What time does to tickets: it ends those that nobody decided about or used, and tells more people about those that wait.
//!
//! A ticket whose time is over is over for every reader, whether or not this task has seen it; the task only writes it down, and tells people.

use std::{fmt, sync::Arc, time::Duration};

use servanda_approval::{Ticket, TicketEvent, TicketReply, escalation_level, responsible_groups};
use servanda_effects::{JournalError, PortFuture, ticket_store::TicketTarget};
use tokio_util::sync::CancellationToken;

use super::Approvals;

/// How often tickets are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The most tickets that are looked at in a row.
const DUE_MAX: u32 = 200;

/// Something that people should be told about a ticket. It carries no right.
#[derive(Debug, Clone)]
pub struct ApprovalNotice {
    /// What happened.
    pub kind: ApprovalNoticeKind,
    /// The ticket.
    pub ticket: Arc<Ticket>,
    /// The groups that may decide now; empty means every approver.
    pub groups: Vec<String>,
}

/// What people are told about a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalNoticeKind {
    /// It was opened.
    Opened,
    /// More groups may decide, because time has passed.
    Escalated,
    /// Its time is nearly over.
    Reminder,
    /// It is over.
    Ended,
}

/// Tells people about tickets. A notice that is lost changes nothing about its ticket.
pub trait ApprovalNotifier: Send + Sync + fmt::Debug {
    /// Tells the people responsible.
    fn notify(&self, notice: ApprovalNotice) -> PortFuture<'_, ()>;
}

impl ApprovalNotice {
    /// The notice about a ticket, to those who may decide about it at that time.
    pub fn new(kind: ApprovalNoticeKind, ticket: Arc<Ticket>, now_ms: u64) -> Self {
        let groups = responsible_groups(&ticket, now_ms).into_iter().collect();
        Self { kind, ticket, groups }
    }
}

impl Approvals {
    /// Ends tickets whose time is over and tells people of escalations, until told to stop.
    pub async fn keep_time(&self, stop: CancellationToken) {
        let mut failed = 0_u64;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            match self.look_at_due().await {
                Ok(()) => failed = 0,
                Err(error) => {
                    failed += 1;
                    // The store's own monitor says that it is away; this names the consequence once.
                    if failed == 1 {
                        tracing::warn!(%error, "tickets cannot be looked at; none is approved by that");
                    }
                }
            }
        }
    }

    async fn look_at_due(&self) -> Result<(), JournalError> {
        for ticket in self.tickets.due_tickets(DUE_MAX).await? {
            let target = TicketTarget::Id(ticket.id.clone());
            let applied = self.apply(target.clone(), TicketEvent::Tick).await?;
            let Some(ticket) = applied.ticket else { continue };
            let now_ms = self.clock.now().unix_ms();
            if applied.reply == TicketReply::Done && !ticket.state.is_open() {
                tracing::info!(ticket = %ticket.id, state = ticket.state.name(), "a ticket is over");
                self.tell(ApprovalNotice::new(ApprovalNoticeKind::Ended, ticket, now_ms)).await;
                continue;
            }
            let level = escalation_level(&ticket, now_ms);
            if level > ticket.notified_level {
                // Written first: people are told at most once by all gateways together.
                let told = self.apply(target, TicketEvent::Notified { level }).await?;
                if told.reply == TicketReply::Done {
                    tracing::info!(ticket = %ticket.id, level, "a ticket was escalated");
                    self.tell(ApprovalNotice::new(ApprovalNoticeKind::Escalated, ticket, now_ms)).await;
                }
            }
        }
        Ok(())
    }

    /// Tells the people responsible that a ticket was opened.
    pub(crate) async fn tell_opened(&self, ticket: &Arc<Ticket>) {
        let now_ms = self.clock.now().unix_ms();
        self.tell(ApprovalNotice::new(ApprovalNoticeKind::Opened, Arc::clone(ticket), now_ms)).await;
    }

    async fn tell(&self, notice: ApprovalNotice) {
        if let Some(notifier) = self.notifier.get() {
            notifier.notify(notice).await;
        }
    }
}
