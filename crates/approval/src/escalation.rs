//! Escalation: when nobody decides, more groups may. It adds people and never lowers how many have to approve.

use std::collections::BTreeSet;

use crate::Ticket;

/// How many escalation tiers of a ticket have been reached.
pub fn escalation_level(ticket: &Ticket, now_ms: u64) -> u8 {
    let reached =
        ticket.demand.escalation.iter().filter(|tier| now_ms >= tier_begins_ms(ticket, tier.after_percent)).count();
    u8::try_from(reached).unwrap_or(u8::MAX)
}

/// The groups whose members may decide at that time; empty means every approver.
pub fn responsible_groups(ticket: &Ticket, now_ms: u64) -> BTreeSet<String> {
    let mut groups = ticket.demand.groups.clone();
    if groups.is_empty() {
        return groups;
    }
    for tier in ticket.demand.escalation.iter().take(usize::from(escalation_level(ticket, now_ms))) {
        groups.extend(tier.groups.iter().cloned());
    }
    groups
}

/// When a tier begins that begins after that part of the time to decide.
pub(crate) fn tier_begins_ms(ticket: &Ticket, after_percent: u8) -> u64 {
    let lasts_ms = ticket.decide_by.clock_ms.saturating_sub(ticket.created_ms);
    ticket.created_ms.saturating_add(lasts_ms / 100 * u64::from(after_percent.min(100)))
}
