//! Creates the notes about a ticket that webhooks get: this is the one place that decides which of them hear of which ticket. Pure.

use std::collections::BTreeSet;

use servanda_approval::{Ticket, TicketNotice, TicketNoticeKind, responsible_groups};
use servanda_contract::Timestamp;
use servanda_effects::{Note, effect::OwnerId};

use super::{
    WebhookReceiver,
    delivery::CallbackDelivery,
    ticket_events::{self, WebhookFormat},
};

/// A receiver of notices about tickets, for people.
#[derive(Debug, Clone)]
pub struct ApprovalWebhook {
    /// Its name, which is part of every note about it.
    pub name: String,
    /// Only tickets of this tenant; of every tenant if none.
    pub tenant: Option<String>,
    /// Only tickets about which one of these groups may decide; all tickets if there are none. A ticket about which every approver may
    /// decide concerns every group.
    pub groups: BTreeSet<String>,
    /// The notices that it wants.
    pub on: BTreeSet<TicketNoticeKind>,
    /// What the messages look like.
    pub format: WebhookFormat,
    /// Where they are sent.
    pub receiver: WebhookReceiver,
}

/// What is needed to decide who hears of a ticket.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TicketCallbacks<'a> {
    /// All receivers.
    pub(crate) webhooks: &'a [ApprovalWebhook],
    /// Where people decide, if the gateway knows.
    pub(crate) console_url: Option<&'a str>,
    /// The process that will deliver; any process if none.
    pub(crate) owner: Option<&'a OwnerId>,
    /// The present time.
    pub(crate) now: Timestamp,
}

impl TicketCallbacks<'_> {
    /// The notes that tell of a ticket. Made again, they have the same keys.
    pub(crate) fn notes(&self, ticket: &Ticket, notice: TicketNotice) -> Vec<Note> {
        let wanting = self.webhooks.iter().filter(|webhook| webhook.wants(ticket, notice.kind, self.now.unix_ms()));
        wanting
            .map(|webhook| {
                let event = ticket_events::event(webhook.format, ticket, notice, self.console_url, self.now);
                CallbackDelivery::new(&webhook.name, &event, self.owner.cloned(), self.now).note()
            })
            .collect()
    }
}

impl ApprovalWebhook {
    fn wants(&self, ticket: &Ticket, kind: TicketNoticeKind, now_ms: u64) -> bool {
        let responsible = responsible_groups(ticket, now_ms);
        let concerns = self.groups.is_empty() || responsible.is_empty() || !self.groups.is_disjoint(&responsible);
        let is_of_tenant = self.tenant.as_ref().is_none_or(|tenant| *tenant == ticket.subject.tenant);
        concerns && is_of_tenant && self.on.contains(&kind)
    }
}
