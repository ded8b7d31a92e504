//! The law of tickets, for any sequence of events at any times: only enough different people approve, and an approval is used once.

use std::collections::BTreeSet;

use proptest::{collection::vec, prelude::*};
use servanda_contract::{CallId, tool::ApprovalPattern};

use super::samples::{HOUR_MS, START_MS, approver, consume, decision, demanding, digest, opened, signed, usage};
use crate::{
    ApprovalUse, ApprovalVerdict, Approver, PersonRole, RunDenials, Ticket, TicketContext, TicketEvent, TicketId,
    TicketKey, TicketNotice, TicketNoticeKind, TicketReply, TicketRequest, TicketState, step,
};

/// Something that may happen, by numbers.
#[derive(Debug, Clone)]
struct Happening {
    /// What happens.
    kind: u8,
    /// Who decides, as an index into the people.
    person: usize,
    /// Which ticket, of the latest ones.
    ticket: usize,
    /// Which call, effect or payload.
    which: u8,
    /// How the store's clock moves, and how ledger time does, which never goes back.
    clock_by_ms: i64,
    ledger_by_ms: u64,
    run: (u32, u32),
}

/// The requester, the agent, approvers, a stranger, a viewer, and people with the emergency role.
fn people() -> Vec<Approver> {
    let with = |name: &str, roles: &[PersonRole]| Approver { roles: roles.iter().copied().collect(), ..approver(name) };
    vec![
        approver("ada"),
        approver("bot"),
        approver("bob"),
        approver("eve"),
        approver("kim"),
        Approver { tenant: "umbrella".to_owned(), ..approver("eve") },
        with("viewer", &[PersonRole::Viewer]),
        with("glass", &[PersonRole::BreakGlass]),
        with("both", &[PersonRole::BreakGlass, PersonRole::Approver]),
    ]
}

fn happening() -> impl Strategy<Value = Happening> {
    let jump_ms = prop_oneof![4 => 0..1_000_i64, 1 => -3_600_000..7_200_000_i64];
    let passes_ms = prop_oneof![4 => 0..1_000_u64, 1 => 0..7_200_000_u64];
    (0..12_u8, 0..9_usize, 0..3_usize, 0..3_u8, jump_ms, passes_ms, (0..4_u32, 0..22_u32)).prop_map(
        |(kind, person, ticket, which, clock_by_ms, ledger_by_ms, run)| Happening {
            kind,
            person,
            ticket,
            which,
            clock_by_ms,
            ledger_by_ms,
            run,
        },
    )
}

fn event_of(happening: &Happening, ticket: &Ticket, number: usize, first: &TicketRequest) -> TicketEvent {
    let person = people().remove(happening.person);
    let decides = |verdict| {
        let mut decision = decision(ticket, &person, verdict);
        decision.break_glass = happening.which == 1;
        if happening.which == 2 {
            decision.payload_hash = digest("another payload");
        }
        TicketEvent::Decide { decision: Box::new(signed(decision)), approver: Box::new(person.clone()), grant: None }
    };
    let which = happening.which;
    match happening.kind {
        0..=4 => decides(ApprovalVerdict::Approve),
        5 => decides(ApprovalVerdict::Deny),
        6 => TicketEvent::Tick,
        7 => TicketEvent::Notified {
            notice: TicketNotice { kind: TicketNoticeKind::ALL[usize::from(which) % 4], number: which },
        },
        8 => TicketEvent::Supersede { reason: "a test".to_owned() },
        9 => {
            let call_id = CallId::from(format!("call_{which}"));
            consume(ApprovalUse { call_id, ..usage(ticket) })
        }
        _ => {
            let mut request = first.clone();
            request.id = TicketId::from(format!("apr_{number:04}"));
            if which == 2 {
                request.subject.payload = digest("another contract");
            }
            TicketEvent::Request(Box::new(request))
        }
    }
}

/// What must hold for a step from one state of a ticket to another.
fn check(before: Option<&Ticket>, after: &Ticket, event: &TicketEvent) -> Result<(), TestCaseError> {
    use TicketState::{Approved, Consumed, Pending};
    let was = before.map(|before| before.state);
    if after.state == Approved && was != Some(Approved) {
        prop_assert_eq!(was, Some(Pending), "only what is pending is approved");
        prop_assert!(matches!(event, TicketEvent::Decide { .. }), "only a decision approves: {:?}", event);
        let approvals = after.decisions.iter().filter(|signed| signed.decision.verdict == ApprovalVerdict::Approve);
        let names: BTreeSet<&str> = approvals.clone().map(|signed| signed.decision.approver.as_str()).collect();
        prop_assert_eq!(names.len(), after.decisions.len(), "every decision is another person's");
        prop_assert!(names.len() >= usize::from(after.demand.quorum));
        if after.decisions.iter().any(|signed| signed.decision.break_glass) {
            prop_assert!(names.len() >= 2);
        }
        prop_assert!(!names.contains("bot") && !names.contains("viewer"));
        prop_assert!(after.demand.pattern == ApprovalPattern::Consent || !names.contains("ada"));
        for signed in &after.decisions {
            prop_assert_eq!(&signed.decision.tenant, "acme");
            prop_assert_eq!(signed.decision.payload_hash, after.subject.payload);
        }
    }
    if after.state == Consumed && was != Some(Consumed) {
        prop_assert_eq!(was, Some(Approved), "only an approval is used");
        prop_assert!(matches!(event, TicketEvent::Consume { .. }), "only a dispatch uses one: {:?}", event);
    }
    if let Some(before) = before {
        if !before.state.is_open() {
            prop_assert_eq!(before.state, after.state, "what is over stays over");
            prop_assert_eq!(&before.consumed, &after.consumed, "an approval is used once");
        }
        prop_assert_eq!(&before.subject, &after.subject, "what was asked for never changes");
        prop_assert!(after.decisions.starts_with(&before.decisions), "a decision is never taken back");
    } else {
        prop_assert_eq!(after.state, Pending);
        prop_assert!(after.decisions.is_empty());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 384, ..ProptestConfig::default() })]

    #[test]
    fn only_people_approve_and_an_approval_is_used_once(
        events in vec(happening(), 1..60),
        quorum in 1..4_u8,
        pattern in prop_oneof![Just(ApprovalPattern::Consent), Just(ApprovalPattern::Operator), Just(ApprovalPattern::Dual)],
    ) {
        let first = demanding(pattern, quorum);
        let mut tickets = vec![opened(first.clone())];
        let (mut clock_ms, mut ledger_ms, mut used) = (START_MS, START_MS / 2, 0);
        for (number, happening) in events.iter().enumerate() {
            clock_ms = clock_ms.saturating_add_signed(happening.clock_by_ms);
            ledger_ms += happening.ledger_by_ms;
            let (in_a_row, in_all) = happening.run;
            let run = RunDenials { in_a_row, in_all, latest_ms: clock_ms };
            let around = TicketContext { now_ms: clock_ms, ledger_ms, run };
            let place = tickets.len() - 1 - happening.ticket % tickets.len();
            let event = event_of(happening, &tickets[place], number, &first);
            // A request is about the latest ticket.
            let place = if event.opens() { tickets.len() - 1 } else { place };
            let transition = step(Some(&tickets[place]), &event, &around);
            prop_assert!(transition.changes.len() <= 2);
            let consumed_before = tickets[place].state == TicketState::Consumed;
            if transition.reply.is_consumed() && !consumed_before {
                used += 1;
            }
            for changed in transition.changes {
                if let Some(known) = tickets.iter().position(|ticket| ticket.id == changed.id) {
                    check(Some(&tickets[known]), &changed, &event)?;
                    tickets[known] = changed;
                } else {
                    check(None, &changed, &event)?;
                    tickets.push(changed);
                }
            }
            let open = tickets.iter().filter(|ticket| ticket.state.is_open()).count();
            prop_assert!(open <= 1, "the same call is asked about once at a time");
        }
        let consumed = tickets.iter().filter(|ticket| ticket.state == TicketState::Consumed).count();
        prop_assert_eq!(used, consumed, "every dispatch used an approval of its own");
    }

    /// Whatever time does, it approves nothing.
    #[test]
    fn time_alone_never_approves(times in vec((any::<u64>(), any::<u64>()), 1..20), quorum in 1..4_u8) {
        let mut ticket = opened(demanding(ApprovalPattern::Operator, quorum));
        for (now_ms, ledger_ms) in times {
            let around = TicketContext { now_ms, ledger_ms, run: RunDenials::default() };
            for event in [TicketEvent::Tick, TicketEvent::Notified { notice: TicketNotice { kind: TicketNoticeKind::Reminder, number: 9 } }] {
                ticket = step(Some(&ticket), &event, &around).changes.pop().unwrap_or(ticket);
            }
            let used = step(Some(&ticket), &consume(usage(&ticket)), &around);
            prop_assert!(!used.reply.is_consumed());
            prop_assert!(matches!(ticket.state, TicketState::Pending | TicketState::AutoDenied));
        }
    }
}

#[test]
fn keys_tell_requesters_and_payloads_apart() {
    use servanda_contract::{Caller, CallerActor};
    let acting = |actors: &[(&str, bool)]| {
        let actors = actors.iter().map(|(name, proven)| CallerActor { name: (*name).to_owned(), proven: *proven });
        Caller { actors: actors.collect(), ..Caller::named("acme", "ada") }
    };
    let callers = [
        acting(&[]),
        acting(&[("bot", true)]),
        acting(&[("bot", false)]),
        acting(&[("bot", true), ("other", true)]),
        acting(&[("other", true), ("bot", true)]),
        Caller::named("acme", "bob"),
        Caller::named("acm", "eada"),
        Caller::named("umbrella", "ada"),
    ];
    let keys: BTreeSet<TicketKey> = callers
        .iter()
        .flat_map(|caller| ["one", "two"].map(|payload| TicketKey::new(caller, &digest(payload))))
        .collect();
    assert_eq!(keys.len(), callers.len() * 2);
}

#[test]
fn a_reply_that_is_not_consumed_lets_nothing_out() {
    let replies = [
        TicketReply::Approved,
        TicketReply::Done,
        TicketReply::Unchanged,
        TicketReply::Lapsed,
        TicketReply::Denied { until_ms: HOUR_MS },
    ];
    assert!(TicketReply::Consumed.is_consumed() && replies.iter().all(|reply| !reply.is_consumed()));
}
