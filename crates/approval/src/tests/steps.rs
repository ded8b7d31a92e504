//! What follows what: a table for every event, and what time does.

use servanda_contract::{CallId, tool::ApprovalPattern};

use super::samples::{
    HOUR_MS, START_MS, USE_MS, after, approved_by, approver, consume, decide, decision, demanding, digest, groups,
    happens, opened, request, signed, usage,
};
use crate::{
    ApprovalUse, ApprovalVerdict, Approver, DENIAL_HOLD_MS, DENIALS_IN_A_ROW_MAX, DENIALS_IN_RUN_MAX, Ineligible,
    PersonRole, RunDenials, Ticket, TicketContext, TicketEvent, TicketId, TicketNotice, TicketReply, TicketRequest,
    TicketState, step,
};

fn ask(request: TicketRequest) -> TicketEvent {
    TicketEvent::Request(Box::new(TicketRequest { id: TicketId::from("apr_2".to_owned()), ..request }))
}

/// A ticket in every state.
fn in_state(state: TicketState) -> Ticket {
    let pending = opened(request());
    let approved = || approved_by(request(), &["bob"]);
    match state {
        TicketState::Pending => pending,
        TicketState::Approved => approved(),
        TicketState::Denied => {
            happens(&pending, &decide(&pending, approver("bob"), ApprovalVerdict::Deny), &after(1_000)).0
        }
        TicketState::AutoDenied => happens(&pending, &TicketEvent::Tick, &after(HOUR_MS)).0,
        TicketState::Superseded => {
            happens(&pending, &TicketEvent::Supersede { reason: "it changed".to_owned() }, &after(1_000)).0
        }
        TicketState::Consumed => happens(&approved(), &consume(usage(&pending)), &after(2_000)).0,
        TicketState::Lapsed => happens(&approved(), &TicketEvent::Tick, &after(HOUR_MS)).0,
    }
}

#[test]
fn every_event_in_every_state() {
    use TicketState::{Approved, AutoDenied, Consumed, Denied, Lapsed, Pending, Superseded};
    let denied = TicketReply::Denied { until_ms: START_MS + 1_000 + DENIAL_HOLD_MS };
    let now_denied = TicketReply::Denied { until_ms: START_MS + 3_000 + DENIAL_HOLD_MS };
    // For each state: the reply to a request and how many tickets change; then the replies to an approval, a denial, a use, the end by
    // a person, a tick.
    let table = [
        (
            Pending,
            (TicketReply::Pending, 0),
            [TicketReply::Approved, now_denied, TicketReply::NotNow, TicketReply::Done],
        ),
        (
            Approved,
            (TicketReply::Approved, 0),
            [TicketReply::NotNow, TicketReply::NotNow, TicketReply::Consumed, TicketReply::Done],
        ),
        (Denied, (denied, 0), [TicketReply::NotNow, TicketReply::NotNow, TicketReply::NotNow, TicketReply::Unchanged]),
        (
            AutoDenied,
            (TicketReply::NobodyDecided, 1),
            [TicketReply::NotNow, TicketReply::NotNow, TicketReply::NotNow, TicketReply::Unchanged],
        ),
        (
            Superseded,
            (TicketReply::Pending, 1),
            [TicketReply::NotNow, TicketReply::NotNow, TicketReply::NotNow, TicketReply::Unchanged],
        ),
        (
            Consumed,
            (TicketReply::Pending, 1),
            [TicketReply::NotNow, TicketReply::NotNow, TicketReply::Consumed, TicketReply::Unchanged],
        ),
        (
            Lapsed,
            (TicketReply::Lapsed, 1),
            [TicketReply::NotNow, TicketReply::NotNow, TicketReply::Lapsed, TicketReply::Unchanged],
        ),
    ];
    for (state, (asked, changes), replies) in table {
        let ticket = in_state(state);
        assert_eq!(ticket.state, state);
        let around = after(3_000);
        let requested = step(Some(&ticket), &ask(request()), &around);
        assert_eq!((requested.reply, requested.changes.len()), (asked, changes), "{state:?}");
        let events = [
            decide(&ticket, approver("eve"), ApprovalVerdict::Approve),
            decide(&ticket, approver("eve"), ApprovalVerdict::Deny),
            consume(usage(&ticket)),
            TicketEvent::Supersede { reason: "a test".to_owned() },
        ];
        for (event, reply) in events.iter().zip(replies) {
            let (next, got) = happens(&ticket, event, &around);
            assert_eq!(got, reply, "{event:?} in {state:?}");
            assert_eq!(next == ticket, !is_change(&reply, state), "{event:?} in {state:?}");
        }
        assert_eq!(happens(&ticket, &TicketEvent::Tick, &around), (ticket.clone(), TicketReply::Unchanged));
    }
    let absent = [
        decide(&in_state(Pending), approver("eve"), ApprovalVerdict::Approve),
        consume(usage(&in_state(Pending))),
        TicketEvent::Tick,
        TicketEvent::Notified { notice: TicketNotice::OPENED },
    ];
    for event in absent {
        let transition = step(None, &event, &after(0));
        assert_eq!((transition.reply, transition.changes.len()), (TicketReply::NotFound, 0));
    }
}

fn is_change(reply: &TicketReply, state: TicketState) -> bool {
    match reply {
        TicketReply::Approved | TicketReply::Denied { .. } | TicketReply::Done => true,
        TicketReply::Consumed => state == TicketState::Approved,
        _ => false,
    }
}

#[test]
fn either_clock_ends_a_ticket_and_never_approves_it() {
    let (pending, approved) = (opened(demanding(ApprovalPattern::Dual, 2)), approved_by(request(), &["bob"]));
    let half = approved_by(demanding(ApprovalPattern::Dual, 2), &["bob"]);
    let at = |clock_ms: u64, ledger_ms: u64| TicketContext { now_ms: after(clock_ms).now_ms, ..after(ledger_ms) };
    let table = [
        // ticket, clock, ledger time, state afterwards
        (&pending, HOUR_MS - 1, HOUR_MS - 1, TicketState::Pending),
        (&pending, HOUR_MS, 0, TicketState::AutoDenied),
        (&pending, 0, HOUR_MS, TicketState::AutoDenied),
        (&half, HOUR_MS, 0, TicketState::AutoDenied),
        (&approved, 1_000 + USE_MS - 1, 1_000 + USE_MS - 1, TicketState::Approved),
        (&approved, 1_000 + USE_MS, 0, TicketState::Lapsed),
        (&approved, 0, 1_000 + USE_MS, TicketState::Lapsed),
    ];
    for (ticket, clock_ms, ledger_ms, state) in table {
        let around = at(clock_ms, ledger_ms);
        assert_eq!(happens(ticket, &TicketEvent::Tick, &around).0.state, state, "{clock_ms} {ledger_ms}");
        let late = decide(ticket, approver("eve"), ApprovalVerdict::Approve);
        let (after_decision, _) = happens(ticket, &late, &around);
        assert_eq!(after_decision.state == TicketState::AutoDenied, state == TicketState::AutoDenied);
        let (after_use, reply) = happens(ticket, &consume(usage(ticket)), &around);
        assert_eq!(reply.is_consumed(), state == TicketState::Approved);
        assert_eq!(after_use.state == TicketState::Consumed, state == TicketState::Approved);
    }
    // A row without a deadline, which no step makes.
    let endless = Ticket { use_by: None, ..approved };
    assert_eq!(happens(&endless, &consume(usage(&endless)), &after(1_000)).1, TicketReply::Lapsed);
}

#[test]
fn what_is_over_is_told_once() {
    for (ticket, reply) in [
        (in_state(TicketState::AutoDenied), TicketReply::NobodyDecided),
        (in_state(TicketState::Lapsed), TicketReply::Lapsed),
    ] {
        let (told, first) = happens(&ticket, &ask(request()), &after(HOUR_MS));
        assert_eq!((first, told.told), (reply, true));
        let next = step(Some(&told), &ask(request()), &after(HOUR_MS));
        assert_eq!(next.reply, TicketReply::Pending);
        assert_eq!((next.changes.len(), &next.changes[0].continues), (1, &Some(ticket.id)));
    }
    // Seen for the first time by the request itself.
    let (told, reply) = happens(&opened(request()), &ask(request()), &after(HOUR_MS));
    assert_eq!((told.state, told.told, reply), (TicketState::AutoDenied, true, TicketReply::NobodyDecided));
}

#[test]
fn a_denial_holds_for_an_hour() {
    let denied = in_state(TicketState::Denied);
    let until_ms = START_MS + 1_000 + DENIAL_HOLD_MS;
    let at = |ms| step(Some(&denied), &ask(request()), &after(ms));
    assert_eq!(at(DENIAL_HOLD_MS + 999).reply, TicketReply::Denied { until_ms });
    let next = at(DENIAL_HOLD_MS + 1_000);
    assert_eq!((next.reply, next.changes.len()), (TicketReply::Pending, 1));
    assert_eq!(next.changes[0].continues, Some(denied.id));
}

#[test]
fn a_stricter_demand_or_another_contract_supersedes() {
    let stricter = [
        demanding(ApprovalPattern::Dual, 2),
        TicketRequest { subject: crate::TicketSubject { payload: digest("newer"), ..request().subject }, ..request() },
        {
            let mut request = request();
            request.demand.groups = groups(&["finance"]);
            request
        },
    ];
    for request in stricter {
        for state in [TicketState::Pending, TicketState::Approved] {
            let transition = step(Some(&in_state(state)), &ask(request.clone()), &after(3_000));
            let states: Vec<TicketState> = transition.changes.iter().map(|ticket| ticket.state).collect();
            assert_eq!(
                (transition.reply, &states[..]),
                (TicketReply::Pending, &[TicketState::Superseded, TicketState::Pending][..])
            );
        }
    }
    // What is asked for less strictly is the same ticket.
    let strict = approved_by(demanding(ApprovalPattern::Dual, 2), &["bob", "eve"]);
    assert_eq!(step(Some(&strict), &ask(request()), &after(3_000)).reply, TicketReply::Approved);
}

#[test]
fn a_run_is_stopped_by_denials() {
    let holds = |in_a_row, in_all| RunDenials { in_a_row, in_all, latest_ms: START_MS };
    let until_ms = START_MS + DENIAL_HOLD_MS;
    let table = [
        (holds(DENIALS_IN_A_ROW_MAX - 1, DENIALS_IN_RUN_MAX - 1), 0, false),
        (holds(DENIALS_IN_A_ROW_MAX, DENIALS_IN_A_ROW_MAX), 0, true),
        (holds(0, DENIALS_IN_RUN_MAX), 0, true),
        (holds(DENIALS_IN_A_ROW_MAX, DENIALS_IN_RUN_MAX), DENIAL_HOLD_MS, false),
    ];
    for (run, ms, is_stopped) in table {
        let around = TicketContext { run, ..after(ms) };
        let reply = step(None, &ask(request()), &around).reply;
        assert_eq!(reply, if is_stopped { TicketReply::RunStopped { until_ms } } else { TicketReply::Pending });
        // What was asked before is not asked again, so it does not count.
        assert_eq!(
            step(Some(&opened(request())), &ask(request()), &TicketContext { run, ..after(0) }).reply,
            TicketReply::Pending
        );
    }
}

#[test]
fn denials_are_counted_as_long_as_they_hold() {
    use TicketState::{Approved, AutoDenied, Consumed, Denied, Superseded};
    let table: [(&[TicketState], u32, u32); 6] = [
        (&[], 0, 0),
        (&[Denied, Denied, Denied], 3, 3),
        (&[Denied, Approved, Denied, Denied], 1, 3),
        (&[Consumed, Denied, Denied], 0, 2),
        (&[Denied, AutoDenied, Superseded, Denied], 2, 2),
        (&[Approved, Approved], 0, 0),
    ];
    for (states, in_a_row, in_all) in table {
        let decided = || (0..).zip(states).map(|(number, state)| (START_MS - number * 1_000, *state));
        let counted = RunDenials::count(decided(), START_MS + 1);
        assert_eq!((counted.in_a_row, counted.in_all), (in_a_row, in_all), "{states:?}");
        assert_eq!(RunDenials::count(decided(), START_MS + DENIAL_HOLD_MS), RunDenials::default(), "{states:?}");
    }
}

#[test]
fn decisions_count_only_for_what_their_person_was_shown() {
    let ticket = opened(request());
    let bob = approver("bob");
    let said = || decision(&ticket, &bob, ApprovalVerdict::Approve);
    let stranger = Approver { tenant: "umbrella".to_owned(), ..approver("bob") };
    let table = [
        (crate::ApprovalDecision { payload_hash: digest("other"), ..said() }, bob.clone(), TicketReply::OtherPayload),
        (
            crate::ApprovalDecision { ticket: TicketId::from("apr_9".to_owned()), ..said() },
            bob.clone(),
            TicketReply::NotFound,
        ),
        (crate::ApprovalDecision { approver: "eve".to_owned(), ..said() }, bob.clone(), TicketReply::NotFound),
        (crate::ApprovalDecision { tenant: "umbrella".to_owned(), ..said() }, stranger, TicketReply::NotFound),
        (
            crate::ApprovalDecision { break_glass: true, ..said() },
            bob.clone(),
            TicketReply::NotEligible(Ineligible::OtherGroup),
        ),
        (said(), bob.clone(), TicketReply::Approved),
    ];
    for (decision, approver, reply) in table {
        let event =
            TicketEvent::Decide { decision: Box::new(signed(decision)), approver: Box::new(approver), grant: None };
        assert_eq!(happens(&ticket, &event, &after(1_000)).1, reply, "{event:?}");
    }
}

#[test]
fn the_emergency_role_is_never_one_person_alone() {
    let mut request = request();
    request.demand.groups = groups(&["finance"]);
    let ticket = opened(request);
    let emergency = |name: &str, break_glass| {
        let person = Approver { roles: [PersonRole::BreakGlass].into(), ..approver(name) };
        let decision = crate::ApprovalDecision { break_glass, ..decision(&ticket, &person, ApprovalVerdict::Approve) };
        TicketEvent::Decide { decision: Box::new(signed(decision)), approver: Box::new(person), grant: None }
    };
    let not_said = happens(&ticket, &emergency("eve", false), &after(1_000)).1;
    assert_eq!(not_said, TicketReply::NotEligible(Ineligible::OtherGroup), "the person has to say so");
    let (once, reply) = happens(&ticket, &emergency("eve", true), &after(1_000));
    assert_eq!((reply, once.state), (TicketReply::Recorded { missing: 1 }, TicketState::Pending));
    let again = happens(&once, &emergency("eve", true), &after(1_000)).1;
    assert_eq!(again, TicketReply::NotEligible(Ineligible::DecidedAlready));
    assert_eq!(happens(&once, &emergency("kim", true), &after(1_000)).1, TicketReply::Approved);
}

#[test]
fn an_approval_is_used_once_by_the_call_that_it_is_for() {
    let approved = approved_by(request(), &["bob"]);
    let around = after(2_000);
    let table = [
        (ApprovalUse { payload: digest("changed"), ..usage(&approved) }, TicketReply::OtherPayload),
        (ApprovalUse { ticket: TicketId::from("apr_9".to_owned()), ..usage(&approved) }, TicketReply::NotNow),
    ];
    for (usage, reply) in table {
        assert_eq!(happens(&approved, &consume(usage), &around), (approved.clone(), reply));
    }
    let (used, reply) = happens(&approved, &consume(usage(&approved)), &around);
    assert_eq!((reply, used.state), (TicketReply::Consumed, TicketState::Consumed));
    // The same use again changes nothing, however late; any other is refused.
    let late = after(100 * HOUR_MS);
    assert_eq!(happens(&used, &consume(usage(&approved)), &late), (used.clone(), TicketReply::Consumed));
    let others = [
        consume(ApprovalUse { call_id: CallId::from("call_2".to_owned()), ..usage(&approved) }),
        consume(ApprovalUse { warrant: digest("another warrant"), ..usage(&approved) }),
        TicketEvent::Consume { usage: usage(&approved), effect_id: "eff_2".to_owned() },
    ];
    for event in others {
        assert_eq!(happens(&used, &event, &around), (used.clone(), TicketReply::NotNow));
    }
    let again = step(Some(&used), &ask(request()), &around);
    assert_eq!(
        (again.reply, &again.changes[0].continues),
        (TicketReply::Pending, &None),
        "another call, another ticket"
    );
}
