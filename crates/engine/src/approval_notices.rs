//! What time does to tickets: it ends those that people did not decide about or use, and makes notices due. Notices go to webhooks, durably,
//! and to the gateway's own terminal.
//!
//! A ticket whose time is over is over for every reader, whether or not this task has seen it; the task only writes it down, and tells people.
//! The notes for webhooks are written before the ticket says that people were told, so a gateway that dies in between tells them again, with
//! the same ids. Deliberately not here: which notice is due when (`servanda_approval::due_notice`), and sending (`deferred`).

use std::{sync::Arc, time::Duration};

use servanda_approval::{Ticket, TicketEvent, TicketNotice, TicketReply, due_notice};
use servanda_effects::{JournalError, ticket_store::TicketTarget};
use tokio_util::sync::CancellationToken;

use crate::{approvals::ApprovalNotice, callbacks::TicketCallbacks, core::Core};

/// How often tickets are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The most tickets that are looked at in a row.
const DUE_MAX: u32 = 200;

/// Ends tickets whose time is over and tells people about tickets, until told to stop.
pub(crate) async fn keep_time(core: Arc<Core>, stop: CancellationToken) {
    let mut failed = 0_u64;
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        match look_at_due(&core).await {
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

/// Tells people that a ticket was opened. If that fails, the ticket stays due, and is looked at again.
pub(crate) async fn tell_opened(core: &Core, ticket: &Arc<Ticket>) {
    if let Err(error) = tell(core, ticket, TicketNotice::OPENED).await {
        tracing::warn!(ticket = %ticket.id, %error, "people could not be told of a ticket yet");
    }
}

pub(crate) async fn look_at_due(core: &Core) -> Result<(), JournalError> {
    for ticket in core.approvals.tickets().due_tickets(DUE_MAX).await? {
        let target = TicketTarget::Id(ticket.id.clone());
        let applied = core.approvals.apply(target, TicketEvent::Tick).await?;
        let Some(ticket) = applied.ticket else { continue };
        if applied.reply == TicketReply::Done && !ticket.state.is_open() {
            tracing::info!(ticket = %ticket.id, state = ticket.state.name(), "a ticket is over");
        }
        if let Some(notice) = due_notice(&ticket, core.clock.now().unix_ms()) {
            tell(core, &ticket, notice).await?;
        }
    }
    Ok(())
}

async fn tell(core: &Core, ticket: &Arc<Ticket>, notice: TicketNotice) -> Result<(), JournalError> {
    let snapshot = core.snapshot();
    let callbacks = TicketCallbacks {
        webhooks: snapshot.callbacks.approval_webhooks(),
        console_url: snapshot.authorities.approvals().console_url.as_deref(),
        owner: core.outbox.delivers().then_some(&core.owner),
        now: core.clock.now(),
    };
    for note in callbacks.notes(ticket, notice) {
        core.notebook.write_first(note).await?;
        core.outbox.wake();
    }
    let applied = core.approvals.apply(TicketTarget::Id(ticket.id.clone()), TicketEvent::Notified { notice }).await?;
    if applied.reply == TicketReply::Done {
        tracing::info!(ticket = %ticket.id, notice = notice.kind.word(), "people are told about a ticket");
        core.approvals.notify(ApprovalNotice { kind: notice.kind, ticket: Arc::clone(ticket) }).await;
    }
    Ok(())
}
