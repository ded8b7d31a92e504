//! What people are told about a ticket, and when: that it was opened, that more groups may decide, that its time is nearly over, and what it
//! came to. A notice carries no right, and none changes what a ticket is.
//!
//! The ticket counts what people were told, so that gateways that share a store tell them once, and what one gateway did not tell before it
//! died another one tells. Deliberately not here: how people are told.

use serde::{Deserialize, Serialize};

use crate::{Ticket, TicketState, escalation::tier_begins_ms};

/// How long the gateway that opened a ticket has to tell people before any other gateway does.
const OPENER_TELLS_WITHIN_MS: u64 = 5_000;
/// The part of the time to decide after which people are reminded, in percent.
const REMINDER_AFTER_PERCENT: u8 = 75;

/// Something that people are told about a ticket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TicketNotice {
    /// What it is about.
    pub kind: TicketNoticeKind,
    /// Its number among the notices of a ticket that waits, from 1 on. Of the outcome there is one.
    pub number: u8,
}

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TicketNoticeKind {
    /// The ticket was opened.
    Opened,
    /// More groups may decide, because time has passed.
    Escalated,
    /// Its time is nearly over.
    Reminder,
    /// People decided, or its time is over.
    Outcome,
}

impl TicketNoticeKind {
    /// Every kind, in the order of a ticket's life.
    pub const ALL: [Self; 4] = [Self::Opened, Self::Escalated, Self::Reminder, Self::Outcome];

    /// The word in configurations and messages.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Escalated => "escalated",
            Self::Reminder => "reminder",
            Self::Outcome => "outcome",
        }
    }
}

impl TicketNotice {
    /// The notice that a ticket was opened.
    pub const OPENED: Self = Self { kind: TicketNoticeKind::Opened, number: 1 };
    const OUTCOME: Self = Self { kind: TicketNoticeKind::Outcome, number: 1 };

    /// Whether people were told.
    pub(crate) const fn was_sent(self, ticket: &Ticket) -> bool {
        match self.kind {
            TicketNoticeKind::Outcome => ticket.outcome_sent,
            _ => self.number <= ticket.notices_sent,
        }
    }

    /// The ticket after people were told.
    pub(crate) fn sent(self, ticket: &Ticket) -> Ticket {
        match self.kind {
            TicketNoticeKind::Outcome => Ticket { outcome_sent: true, ..ticket.clone() },
            _ => Ticket { notices_sent: self.number, ..ticket.clone() },
        }
    }
}

/// When the next notice about a ticket is due; none if people were told everything that the ticket has to say by itself.
pub fn next_notice_ms(ticket: &Ticket) -> Option<u64> {
    match ticket.state {
        TicketState::Pending => scheduled(ticket).get(usize::from(ticket.notices_sent)).map(|(at_ms, _)| *at_ms),
        _ if ticket.outcome_sent => None,
        _ => Some(ticket.changed_ms),
    }
}

/// The notice that is due. Of several that became due while no gateway ran, the latest says enough.
pub fn due_notice(ticket: &Ticket, now_ms: u64) -> Option<TicketNotice> {
    if ticket.state != TicketState::Pending {
        return (!ticket.outcome_sent).then_some(TicketNotice::OUTCOME);
    }
    let due = scheduled(ticket).into_iter().zip(1_u8..).take_while(|((at_ms, _), _)| *at_ms <= now_ms).last();
    let notice = due.map(|((_, kind), number)| TicketNotice { kind, number });
    notice.filter(|notice| !notice.was_sent(ticket))
}

/// The notices of a ticket that waits, in order of time.
fn scheduled(ticket: &Ticket) -> Vec<(u64, TicketNoticeKind)> {
    let tiers = ticket.demand.escalation.iter();
    let mut after: Vec<(u64, TicketNoticeKind)> = tiers
        .map(|tier| (tier_begins_ms(ticket, tier.after_percent), TicketNoticeKind::Escalated))
        .chain([(tier_begins_ms(ticket, REMINDER_AFTER_PERCENT), TicketNoticeKind::Reminder)])
        .collect();
    after.sort_unstable();
    // The opening comes first, however short the time to decide is.
    let first_ms = after.first().map_or(u64::MAX, |(at_ms, _)| *at_ms);
    let opened_ms = ticket.created_ms.saturating_add(OPENER_TELLS_WITHIN_MS).min(first_ms);
    after.insert(0, (opened_ms, TicketNoticeKind::Opened));
    after
}
