//! Which leaf may follow which: legal histories, and a table of illegal ones.

use servanda_audit::{
    LogFault, StatePaths,
    leaf::{
        ApprovalLeaf, AuditEvent, CallLeaf, ChangeLeaf, ChangedThing, Commitment, DecisionLeaf, EffectLeaf,
        GRANT_DRAWN, LeafEffectState, LeafStatus, LeafTicketState, LeafVerdict, OutcomeLeaf, StatePathFault,
        TicketLeaf,
    },
    verify_log,
};

use super::{
    leaves::{SALT, decision, leaf, outcome},
    logs::TestLog,
};

fn decided(call: &str, verdict: LeafVerdict) -> AuditEvent {
    AuditEvent::Decision(Box::new(decision(call, verdict)))
}

fn allowed(call: &str) -> AuditEvent {
    decided(call, LeafVerdict::Allow)
}

/// Allowed because people approved.
fn approved(call: &str, ticket: &str) -> AuditEvent {
    let with_ticket = DecisionLeaf { ticket: Some(ticket.to_owned()), ..decision(call, LeafVerdict::Allow) };
    AuditEvent::Decision(Box::new(with_ticket))
}

fn effect(effect: &str, call: &str, to: LeafEffectState) -> AuditEvent {
    AuditEvent::Effect(EffectLeaf { effect: effect.to_owned(), call: call.to_owned(), epoch: 1, to })
}

fn ended(call: &str, status: LeafStatus) -> AuditEvent {
    AuditEvent::Outcome(Box::new(outcome(call, status)))
}

fn read(call: &str, status: LeafStatus) -> AuditEvent {
    AuditEvent::Outcome(Box::new(OutcomeLeaf { effect: None, ..outcome(call, status) }))
}

/// A call that was decided and ended in one commit.
fn whole_call(call: &str, verdict: LeafVerdict, status: Option<LeafStatus>) -> AuditEvent {
    let outcome = OutcomeLeaf { effect: None, status, ..outcome(call, LeafStatus::Success) };
    AuditEvent::Call(Box::new(CallLeaf { decision: decision(call, verdict), outcome }))
}

/// A call that was refused because the store was silent.
fn given_up(call: &str) -> AuditEvent {
    let class = Some("DEPENDENCY_UNAVAILABLE".to_owned());
    let outcome = OutcomeLeaf { effect: None, class, ..outcome(call, LeafStatus::Error) };
    AuditEvent::Call(Box::new(CallLeaf { decision: decision(call, LeafVerdict::Deny), outcome }))
}

/// A call draws on the grant that is kept with a ticket.
fn drawn(ticket: &str, call: &str) -> AuditEvent {
    AuditEvent::Change(ChangeLeaf {
        by: "ada".to_owned(),
        call: Some(call.to_owned()),
        change: GRANT_DRAWN.to_owned(),
        digest: None,
        id: ticket.to_owned(),
        thing: ChangedThing::Grant,
    })
}

fn opened(ticket: &str, quorum: u8) -> AuditEvent {
    AuditEvent::Ticket(TicketLeaf {
        ticket: ticket.to_owned(),
        to: LeafTicketState::Pending,
        call: Some("asks".to_owned()),
        payload: Some(Commitment::new(&SALT, b"payload")),
        quorum: Some(quorum),
        warrant: None,
    })
}

fn ticket(ticket: &str, to: LeafTicketState) -> AuditEvent {
    let (ticket, warrant) = (ticket.to_owned(), None);
    AuditEvent::Ticket(TicketLeaf { ticket, to, call: None, payload: None, quorum: None, warrant })
}

fn used(ticket: &str, call: &str) -> AuditEvent {
    AuditEvent::Ticket(TicketLeaf {
        ticket: ticket.to_owned(),
        to: LeafTicketState::Consumed,
        call: Some(call.to_owned()),
        payload: None,
        quorum: None,
        warrant: Some("warrant".to_owned()),
    })
}

fn decides(ticket: &str, by: &str, approves: bool) -> AuditEvent {
    AuditEvent::Approval(ApprovalLeaf {
        ticket: ticket.to_owned(),
        by: by.to_owned(),
        approves,
        payload: Commitment::new(&SALT, b"payload"),
        statement: Commitment::new(&SALT, b"statement"),
    })
}

fn follow(history: Vec<AuditEvent>) -> (usize, Result<(), StatePathFault>) {
    let mut paths = StatePaths::default();
    let count = history.len();
    for (place, event) in history.into_iter().enumerate() {
        if let Err(fault) = paths.follow(&leaf(event)) {
            return (place + 1, Err(fault));
        }
    }
    (count, Ok(()))
}

/// Legal histories of calls that were decided and ended in one commit.
fn whole_calls() -> Vec<Vec<AuditEvent>> {
    use LeafEffectState as Effect;
    vec![
        vec![whole_call("c", LeafVerdict::Allow, Some(LeafStatus::Success))],
        vec![whole_call("c", LeafVerdict::Deny, Some(LeafStatus::Error))],
        // A call that became a task, and its end.
        vec![whole_call("c", LeafVerdict::Allow, None), whole_call("c", LeafVerdict::Allow, Some(LeafStatus::Success))],
        // The store committed the dispatch and said so too late: the call was refused, and recovery took the effect up.
        vec![
            allowed("c"),
            effect("e", "c", Effect::Dispatching),
            whole_call("c", LeafVerdict::Deny, Some(LeafStatus::Error)),
            effect("e", "c", Effect::OutcomeUnknown),
        ],
        // The same, and the dispatch was committed after the refusal.
        vec![
            given_up("c"),
            allowed("c"),
            effect("e", "c", Effect::Dispatching),
            effect("e", "c", Effect::FailedRetryable),
        ],
    ]
}

#[test]
fn what_the_gateway_does_is_legal() {
    use LeafEffectState as Effect;
    use LeafTicketState as Ticket;
    let approval =
        || vec![opened("t", 2), decides("t", "ana", true), decides("t", "bo", true), ticket("t", Ticket::Approved)];
    let with_approval = |rest: Vec<AuditEvent>| [approval(), rest].concat();
    let once = |states: &[Effect]| {
        let changes = states.iter().map(|state| effect("e", "c", *state));
        [allowed("c")].into_iter().chain(changes).collect::<Vec<_>>()
    };
    let histories = [
        vec![allowed("c"), read("c", LeafStatus::Success)],
        vec![decided("c", LeafVerdict::Deny), read("c", LeafStatus::Error)],
        [once(&[Effect::Claimed, Effect::Dispatching, Effect::Completed]), vec![ended("c", LeafStatus::Success)]]
            .concat(),
        once(&[Effect::Dispatching, Effect::Completed, Effect::Compensated, Effect::Expired]),
        once(&[Effect::Dispatching, Effect::OutcomeUnknown, Effect::Completed]),
        once(&[
            Effect::Dispatching,
            Effect::OutcomeUnknown,
            Effect::FailedRetryable,
            Effect::Dispatching,
            Effect::Completed,
        ]),
        once(&[Effect::Dispatching, Effect::Dispatching, Effect::FailedFinal, Effect::Expired]),
        once(&[Effect::Claimed, Effect::Claimed, Effect::FailedRetryable, Effect::Claimed, Effect::Dispatching]),
        // The answer of an earlier dispatch, while the effect is claimed again.
        once(&[Effect::Dispatching, Effect::FailedRetryable, Effect::Claimed, Effect::Completed]),
        // A key of the window that a store has lost.
        once(&[Effect::OutcomeUnknown, Effect::Completed]),
        with_approval(vec![
            approved("c", "t"),
            used("t", "c"),
            effect("e", "c", Effect::Dispatching),
            effect("e", "c", Effect::Completed),
        ]),
        vec![approved("c", "t"), drawn("t", "c"), effect("e", "c", Effect::Dispatching)],
        with_approval(vec![ticket("t", Ticket::Lapsed)]),
        with_approval(vec![ticket("t", Ticket::Superseded), opened("t2", 1)]),
        vec![opened("t", 1), decides("t", "ana", false), ticket("t", Ticket::Denied)],
        vec![opened("t", 1), ticket("t", Ticket::AutoDenied)],
        vec![
            decided("c", LeafVerdict::RequiresApproval),
            opened("t", 1),
            decides("t", "ana", true),
            ticket("t", Ticket::Approved),
            approved("c", "t"),
            used("t", "c"),
            effect("e", "c", Effect::Dispatching),
        ],
    ];
    for (number, history) in histories.into_iter().chain(whole_calls()).enumerate() {
        assert_eq!(follow(history).1, Ok(()), "history {number}");
    }
}

type IllegalPath = (&'static str, Vec<AuditEvent>);

fn then(mut history: Vec<AuditEvent>, rest: Vec<AuditEvent>) -> Vec<AuditEvent> {
    history.extend(rest);
    history
}

fn dispatched() -> Vec<AuditEvent> {
    vec![allowed("c"), effect("e", "c", LeafEffectState::Dispatching)]
}

fn completed() -> Vec<AuditEvent> {
    then(dispatched(), vec![effect("e", "c", LeafEffectState::Completed)])
}

/// One of two people approved.
fn half() -> Vec<AuditEvent> {
    vec![opened("t", 2), decides("t", "ana", true)]
}

fn whole() -> Vec<AuditEvent> {
    then(half(), vec![decides("t", "bo", true), ticket("t", LeafTicketState::Approved)])
}

fn illegal_paths_of_calls() -> Vec<IllegalPath> {
    vec![
        ("SecondDecision", vec![allowed("c"), allowed("c")]),
        ("SecondDecision", vec![decided("c", LeafVerdict::Deny), allowed("c")]),
        (
            "SecondDecision",
            vec![decided("c", LeafVerdict::RequiresApproval), decided("c", LeafVerdict::RequiresApproval)],
        ),
        (
            "SecondDecision",
            vec![decided("c", LeafVerdict::RequiresApproval), read("c", LeafStatus::Error), allowed("c")],
        ),
        (
            "SecondDecision",
            vec![
                whole_call("c", LeafVerdict::Deny, None),
                whole_call("c", LeafVerdict::Allow, Some(LeafStatus::Success)),
            ],
        ),
        ("SecondDecision", vec![allowed("c"), whole_call("c", LeafVerdict::Deny, Some(LeafStatus::Success))]),
        (
            "SecondDecision",
            vec![
                whole_call("c", LeafVerdict::Allow, Some(LeafStatus::Success)),
                whole_call("c", LeafVerdict::Allow, Some(LeafStatus::Success)),
            ],
        ),
        ("SuccessWithoutPermission", vec![whole_call("c", LeafVerdict::Deny, Some(LeafStatus::Success))]),
        ("SecondDecision", vec![whole_call("c", LeafVerdict::Deny, Some(LeafStatus::Error)), allowed("c")]),
        ("SecondDecision", vec![given_up("c"), decided("c", LeafVerdict::Deny)]),
        ("SecondOutcome", vec![allowed("c"), read("c", LeafStatus::Success), read("c", LeafStatus::Success)]),
        ("OutcomeWithoutDecision", vec![read("c", LeafStatus::Error)]),
        ("SuccessWithoutPermission", vec![decided("c", LeafVerdict::Deny), read("c", LeafStatus::Success)]),
        (
            "SuccessWithoutPermission",
            vec![decided("c", LeafVerdict::RequiresApproval), ended("c", LeafStatus::Success)],
        ),
        ("SuccessWithoutPermission", then(whole(), vec![approved("c", "t"), read("c", LeafStatus::Success)])),
    ]
}

fn illegal_paths_of_effects() -> Vec<IllegalPath> {
    use LeafEffectState as Effect;
    vec![
        ("DispatchWithoutDecision", vec![effect("e", "c", Effect::Dispatching)]),
        (
            "DispatchWithoutApproval",
            vec![approved("c", "t"), drawn("another", "c"), effect("e", "c", Effect::Dispatching)],
        ),
        (
            "DispatchWithoutDecision",
            vec![allowed("other"), effect("e", "c", Effect::Claimed), effect("e", "c", Effect::Dispatching)],
        ),
        ("DispatchWithoutPermission", vec![decided("c", LeafVerdict::Deny), effect("e", "c", Effect::Dispatching)]),
        (
            "DispatchWithoutPermission",
            vec![decided("c", LeafVerdict::RequiresApproval), effect("e", "c", Effect::Dispatching)],
        ),
        ("DispatchWithoutApproval", then(whole(), vec![approved("c", "t"), effect("e", "c", Effect::Dispatching)])),
        (
            "DispatchWithoutApproval",
            then(whole(), vec![used("t", "other"), approved("c", "t"), effect("e", "c", Effect::Dispatching)]),
        ),
        (
            "DispatchWithoutApproval",
            then(whole(), vec![used("t", "c"), approved("c", "t2"), effect("e", "c", Effect::Dispatching)]),
        ),
        ("DispatchAfterEnd", then(completed(), vec![effect("e", "c", Effect::Dispatching)])),
        (
            "DispatchAfterEnd",
            then(completed(), vec![effect("e", "c", Effect::Expired), effect("e", "c", Effect::Dispatching)]),
        ),
        ("EndWithoutDispatch", vec![allowed("c"), effect("e", "c", Effect::Completed)]),
        (
            "EndWithoutDispatch",
            vec![allowed("c"), effect("e", "c", Effect::Claimed), effect("e", "c", Effect::Completed)],
        ),
        ("SecondCompletion", then(completed(), vec![effect("e", "c", Effect::Completed)])),
        ("SecondCompletion", then(completed(), vec![effect("e", "c", Effect::FailedFinal)])),
        ("SecondCompletion", then(completed(), vec![effect("e", "c", Effect::OutcomeUnknown)])),
        ("EffectStep", then(dispatched(), vec![effect("e", "c", Effect::Claimed)])),
        ("EffectStep", then(dispatched(), vec![effect("e", "c", Effect::Expired)])),
        ("EffectStep", then(dispatched(), vec![effect("e", "c", Effect::Compensated)])),
        ("EffectStep", vec![effect("e", "c", Effect::Compensated)]),
    ]
}

fn illegal_paths_of_tickets() -> Vec<IllegalPath> {
    use LeafTicketState as Ticket;
    let mut elsewhere = decides("t", "bo", true);
    if let AuditEvent::Approval(approval) = &mut elsewhere {
        approval.payload = Commitment::new(&SALT, b"another");
    }
    vec![
        ("ConsumptionWithoutApproval", then(half(), vec![used("t", "c")])),
        ("ConsumptionWithoutApproval", vec![used("t", "c")]),
        ("ConsumptionWithoutApproval", then(whole(), vec![ticket("t", Ticket::Lapsed), used("t", "c")])),
        ("SecondConsumption", then(whole(), vec![used("t", "c"), used("t", "c2")])),
        ("ApprovedWithoutQuorum", then(half(), vec![ticket("t", Ticket::Approved)])),
        (
            "ApprovedWithoutQuorum",
            then(half(), vec![decides("t", "bo", true), decides("t", "eve", false), ticket("t", Ticket::Approved)]),
        ),
        ("SecondApproval", then(half(), vec![decides("t", "ana", true)])),
        ("OtherPayload", then(half(), vec![elsewhere])),
        ("ApprovalTooLate", then(whole(), vec![decides("t", "eve", true)])),
        ("ApprovalTooLate", vec![decides("t", "eve", true)]),
        ("DeniedByNobody", then(half(), vec![ticket("t", Ticket::Denied)])),
        ("IncompleteTicket", vec![ticket("t", Ticket::Pending)]),
        ("IncompleteTicket", vec![opened("t", 0)]),
        ("TicketStep", then(half(), vec![opened("t", 1)])),
        ("TicketStep", vec![ticket("t", Ticket::Approved)]),
        ("TicketStep", then(whole(), vec![used("t", "c"), ticket("t", Ticket::Approved)])),
    ]
}

#[test]
fn every_illegal_path_has_its_name_at_its_last_leaf() {
    let cases = [illegal_paths_of_calls(), illegal_paths_of_effects(), illegal_paths_of_tickets()].concat();
    for (number, (name, history)) in cases.into_iter().enumerate() {
        let count = history.len();
        let (place, fault) = follow(history);
        let told = format!("{:?}", fault.unwrap_err());
        assert!(told.starts_with(name), "case {number}, {name}: {told}");
        assert_eq!(place, count, "case {number}: the last leaf is the illegal one: {told}");
    }
}

#[test]
fn a_log_is_checked_leaf_by_leaf() {
    use LeafEffectState as Effect;
    let legal = vec![allowed("c"), effect("e", "c", Effect::Dispatching), effect("e", "c", Effect::Completed)];
    let log_of = |events: &[AuditEvent], more: Option<&[u8]>| {
        let mut log = TestLog::new();
        let leaves = events.iter().map(|event| leaf(event.clone()).to_bytes().unwrap());
        log.append(leaves.chain(more.map(<[u8]>::to_vec)));
        log.cut();
        log
    };
    let verify = |log: &TestLog| verify_log(&log.files, &log.policy(), &[], &mut StatePaths::default());
    assert_eq!(verify(&log_of(&legal, None)).unwrap().checkpoint().size(), 3);
    let illegal = [legal.clone(), vec![effect("e", "c", Effect::Completed)]].concat();
    let fault = verify(&log_of(&illegal, None)).unwrap_err();
    let LogFault::IllegalLeaf { leaf: 3, fault } = fault else { panic!("{fault}") };
    assert!(matches!(fault.downcast_ref(), Some(StatePathFault::SecondCompletion { .. })), "{fault}");
    let fault = verify(&log_of(&legal, Some(b"no leaf"))).unwrap_err();
    assert_eq!(fault.to_string(), "leaf 3: not a leaf");
    let reordered = [legal[1].clone(), legal[0].clone(), legal[2].clone()];
    let fault = verify(&log_of(&reordered, None)).unwrap_err();
    assert!(fault.to_string().starts_with("leaf 0: effect `e` is dispatched, and no leaf before decides"), "{fault}");
}
