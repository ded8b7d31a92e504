//! The port through which the person at the gateway's terminal is told about tickets.
//!
//! Deliberately not here: webhooks, and when people are told what (`approval_notices`).

use std::{fmt, sync::Arc};

use servanda_approval::{Ticket, TicketNoticeKind};
use servanda_effects::PortFuture;

/// Something that people should be told about a ticket. It carries no right.
#[derive(Debug, Clone)]
pub struct ApprovalNotice {
    /// What happened.
    pub kind: TicketNoticeKind,
    /// The ticket.
    pub ticket: Arc<Ticket>,
}

/// Tells people about tickets. A notice that is lost changes nothing about its ticket.
pub trait ApprovalNotifier: Send + Sync + fmt::Debug {
    /// Tells them.
    fn notify(&self, notice: ApprovalNotice) -> PortFuture<'_, ()>;
}
