//! What people are told about a ticket, and when.

use servanda_contract::tool::ApprovalPattern;

use super::samples::{HOUR_MS, START_MS, after, approved_by, demanding, groups, happens, opened, request};
use crate::{
    EscalationTier, Ticket, TicketEvent, TicketNotice, TicketNoticeKind, TicketReply, TicketState, due_notice,
    next_notice_ms,
};

fn escalating() -> Ticket {
    let mut request = demanding(ApprovalPattern::Operator, 1);
    let tier = |after_percent, group: &str| EscalationTier { after_percent, groups: groups(&[group]) };
    request.demand.escalation = vec![tier(50, "managers"), tier(90, "directors")];
    opened(request)
}

fn notice(kind: TicketNoticeKind, number: u8) -> TicketNotice {
    TicketNotice { kind, number }
}

fn told(ticket: &Ticket, notice: TicketNotice) -> Ticket {
    let (told, reply) = happens(ticket, &TicketEvent::Notified { notice }, &after(0));
    assert_eq!(reply, TicketReply::Done);
    told
}

#[test]
fn a_ticket_that_waits_is_told_of_in_the_order_of_time() {
    use TicketNoticeKind::{Escalated, Opened, Reminder};
    let minute = |minutes: u64| START_MS + minutes * 60_000;
    let mut ticket = escalating();
    assert_eq!(due_notice(&ticket, START_MS), None, "the gateway that opened it tells first");
    let table = [
        (START_MS + 5_000, notice(Opened, 1)),
        (minute(30), notice(Escalated, 2)),
        (minute(45), notice(Reminder, 3)),
        (minute(54), notice(Escalated, 4)),
    ];
    for (at_ms, expected) in table {
        assert_eq!(next_notice_ms(&ticket), Some(at_ms));
        assert_eq!(due_notice(&ticket, at_ms - 1), None);
        assert_eq!(due_notice(&ticket, at_ms), Some(expected));
        ticket = told(&ticket, expected);
    }
    assert_eq!((next_notice_ms(&ticket), due_notice(&ticket, START_MS + 10 * HOUR_MS)), (None, None));
}

#[test]
fn of_notices_that_no_gateway_told_in_time_the_latest_is_told() {
    let ticket = escalating();
    let late = START_MS + HOUR_MS / 2 + 1;
    let latest = notice(TicketNoticeKind::Escalated, 2);
    assert_eq!(due_notice(&ticket, late), Some(latest));
    assert_eq!(due_notice(&told(&ticket, latest), late), None);
}

#[test]
fn people_are_told_once() {
    let ticket = escalating();
    let second = notice(TicketNoticeKind::Escalated, 2);
    let told = told(&ticket, second);
    for again in [second, TicketNotice::OPENED] {
        let (same, reply) = happens(&told, &TicketEvent::Notified { notice: again }, &after(0));
        assert_eq!((same, reply), (told.clone(), TicketReply::Unchanged));
    }
}

#[test]
fn people_are_told_what_it_came_to() {
    let approved = approved_by(request(), &["bob"]);
    assert_eq!(approved.state, TicketState::Approved);
    assert_eq!(next_notice_ms(&approved), Some(approved.changed_ms));
    let outcome = due_notice(&approved, 0).unwrap();
    assert_eq!(outcome.kind, TicketNoticeKind::Outcome);
    let told = told(&approved, outcome);
    assert_eq!((next_notice_ms(&told), due_notice(&told, u64::MAX)), (None, None));
}

/// A time to decide that is shorter than the time of the gateway that opened the ticket.
#[test]
fn the_opening_is_told_first() {
    let mut request = request();
    request.demand.decide_within_ms = 1_000;
    let ticket = opened(request);
    assert_eq!(next_notice_ms(&ticket), Some(START_MS + 750));
    assert_eq!(
        due_notice(&told(&ticket, TicketNotice::OPENED), START_MS + 750).unwrap().kind,
        TicketNoticeKind::Reminder
    );
}
