//! Plans that agents propose: what their ticket says, and that the approval and the grant come together or not at all.

use bytes::Bytes;
use servanda_contract::{Digest, digest::DigestDomain, json::canonicalize};

use super::*;
use crate::{
    ApprovalDemand, CostCeiling, EscalationTier, PLAN_VALUES_MAX, PlanFault, ProposedCall, ProposedPlan, Ticket,
    TicketReply,
};

fn proposed(tool: &str, arguments: &Value, times: u32) -> ProposedCall {
    ProposedCall {
        tool_name: tool.to_owned(),
        tool_version: "1.0.0".to_owned(),
        contract_digest: digest(tool),
        arguments: Bytes::from(arguments.to_string()),
        demand: demand(ApprovalPattern::Operator, 1),
        times,
        sensitive: std::collections::BTreeMap::new(),
    }
}

fn plan() -> ProposedPlan {
    ProposedPlan {
        purpose: "close the month".to_owned(),
        calls: vec![
            proposed("bank.pay", &json!({ "amount": 40, "to": "bob" }), 2),
            proposed("bank.refund", &json!({ "file": "/srv/bills/a.pdf" }), 1),
        ],
        days: 2,
        cost_max: Some(CostCeiling::read("5 EUR").unwrap()),
    }
}

fn plan_request(plan: &ProposedPlan) -> TicketRequest {
    let mut request = request();
    let document = plan.document().unwrap();
    let subject = &mut request.subject;
    let parts: [&[u8]; 4] =
        [b"acme", subject.contract.as_bytes(), subject.contract_digest.as_bytes(), document.bytes()];
    subject.payload = Digest::compute(DigestDomain::Proposal, &parts);
    subject.arguments = document.bytes().clone();
    subject.plan = plan.calls.iter().map(|call| call.demand.clone()).collect();
    subject.sensitive = plan.sensitive();
    TicketRequest { demand: plan.demand().unwrap(), ..request }
}

fn grant_of(ticket: &Ticket, maker: &Approver, change: impl FnOnce(&mut crate::ApprovalGrant)) -> Box<SignedGrant> {
    let times = (START_MS + 1_000, START_MS + 1_000 + 2 * DAY_MS);
    let mut grant = ticket.make_plan_grant(maker, "console".to_owned(), times).unwrap();
    change(&mut grant);
    Box::new(grant.sign(&key(1)).unwrap())
}

fn approve(ticket: &Ticket, maker: &Approver, grant: Option<Box<SignedGrant>>) -> TicketEvent {
    let TicketEvent::Decide { decision, approver, .. } = decide(ticket, maker.clone(), ApprovalVerdict::Approve) else {
        panic!("a decision")
    };
    TicketEvent::Decide { decision, approver, grant }
}

fn approved() -> Ticket {
    let (ticket, bob) = (opened(plan_request(&plan())), approver("bob"));
    let event = approve(&ticket, &bob, Some(grant_of(&ticket, &bob, |_| {})));
    let (ticket, reply) = happens(&ticket, &event, &after(1_000));
    assert_eq!(reply, TicketReply::Approved);
    ticket
}

#[test]
fn a_ticket_says_what_its_grant_would_allow_and_nothing_else_does() {
    let ticket = opened(plan_request(&plan()));
    assert!(ticket.is_intact() && ticket.is_plan());
    let terms = ticket.plan().unwrap();
    assert_eq!((terms.purpose.as_str(), terms.days), ("close the month", 2));
    assert_eq!(terms.cost_max.unwrap().describe(), "5.00 EUR");
    let allowed: Vec<(&str, u32, Vec<String>)> = terms
        .calls
        .iter()
        .map(|call| (&*call.tool_name, call.uses_max, call.bounds.iter().map(ArgumentBound::describe).collect()))
        .collect();
    assert_eq!(
        allowed,
        [
            ("bank.pay", 2, vec!["a number from 0 to 40.0".to_owned(), "exactly \"bob\"".to_owned()]),
            ("bank.refund", 1, vec!["a path below /srv/bills/".to_owned()]),
        ]
    );
    let arguments = canonicalize(&json!({ "amount": 40, "to": "bob" })).unwrap();
    let contract = digest("bank.pay");
    let parts: [&[u8]; 4] = [b"acme", b"bank.pay", contract.as_bytes(), arguments.bytes()];
    assert_eq!(terms.calls[0].payload_hash, Digest::compute(DigestDomain::Proposal, &parts), "H of the call");
    // Every part of the plan is in what an approval signs.
    let edits: [fn(&mut ProposedPlan); 8] = [
        |plan| plan.purpose.push('x'),
        |plan| plan.days = 1,
        |plan| plan.cost_max = None,
        |plan| plan.calls[0].times = 3,
        |plan| plan.calls[0].tool_name.push('x'),
        |plan| plan.calls[1].contract_digest = digest("newer"),
        |plan| plan.calls[0].arguments = Bytes::from(json!({ "amount": 41, "to": "bob" }).to_string()),
        |plan| drop(plan.calls.pop()),
    ];
    for (number, change) in edits.into_iter().enumerate() {
        let mut other = plan();
        change(&mut other);
        assert_ne!(plan_request(&other).subject.payload, ticket.subject.payload, "{number}");
    }
    // A document that is not that of a plan, and one with more calls than demands.
    for (subject, name) in [
        (
            {
                let mut altered = ticket.clone();
                altered.subject.arguments = Bytes::from("{}");
                altered
            },
            "no plan",
        ),
        (
            {
                let mut altered = ticket.clone();
                altered.subject.plan.pop();
                altered
            },
            "a demand less",
        ),
    ] {
        assert!(subject.plan().is_none() && !subject.is_intact(), "{name}");
    }
    assert!(opened(request()).plan().is_none(), "a call is no plan");
}

#[test]
fn the_approval_and_the_grant_come_together_or_not_at_all() {
    let ticket = opened(plan_request(&plan()));
    let bob = approver("bob");
    let of_finance = Approver { groups: ["finance".to_owned()].into(), ..bob.clone() };
    let good = || grant_of(&ticket, &bob, |_| {});
    let glass = Approver { roles: [PersonRole::BreakGlass].into(), ..approver("glass") };
    let changed = |change: GrantChange| Some(grant_of(&ticket, &bob, change));
    for (name, maker, grant, expected) in [
        ("without a grant", &bob, None, TicketReply::NotNow),
        ("another person's", &of_finance, Some(good()), TicketReply::OtherPayload),
        ("one call more often", &bob, changed(|grant| grant.calls[0].uses_max = 3), TicketReply::OtherPayload),
        ("a call less", &bob, changed(|grant| drop(grant.calls.pop())), TicketReply::OtherPayload),
        ("a wider bound", &bob, changed(|grant| grant.calls[0].bounds.clear()), TicketReply::OtherPayload),
        ("more money", &bob, changed(|grant| grant.cost_max = None), TicketReply::OtherPayload),
        ("another agent", &bob, changed(|grant| grant.actors.clear()), TicketReply::OtherPayload),
        ("another payload", &bob, changed(|grant| grant.payload_hash = digest("x")), TicketReply::OtherPayload),
        ("longer", &bob, changed(|grant| grant.until_ms += 1), TicketReply::NotNow),
        ("over already", &bob, changed(|grant| grant.until_ms = START_MS), TicketReply::NotNow),
        (
            "with the emergency role",
            &glass,
            Some(grant_of(&ticket, &glass, |_| {})),
            TicketReply::NotEligible(Ineligible::OtherGroup),
        ),
    ] {
        let mut event = approve(&ticket, maker, grant);
        if let TicketEvent::Decide { decision, .. } = &mut event
            && maker.principal == "glass"
        {
            decision.decision.break_glass = true;
        }
        let (left, reply) = happens(&ticket, &event, &after(1_000));
        assert_eq!((&left, reply), (&ticket, expected), "{name}");
    }
    // A denial attaches nothing, with a grant it is nothing, and an approval of a call takes none.
    let denial = |grant| {
        let TicketEvent::Decide { decision, approver, .. } = decide(&ticket, bob.clone(), ApprovalVerdict::Deny) else {
            panic!("a decision")
        };
        happens(&ticket, &TicketEvent::Decide { decision, approver, grant }, &after(1_000))
    };
    assert_eq!(denial(Some(good())), (ticket.clone(), TicketReply::NotNow));
    let (denied, _) = denial(None);
    assert_eq!((denied.state, denied.grant), (TicketState::Denied, None));
    let call = opened(request());
    assert_eq!(happens(&call, &approve(&call, &bob, Some(good())), &after(1_000)), (call, TicketReply::NotNow));
    // An approval that is not the last of a quorum attaches nothing.
    let mut of_two = ticket.clone();
    of_two.demand.quorum = 2;
    let (recorded, reply) = happens(&of_two, &approve(&of_two, &bob, Some(good())), &after(1_000));
    assert_eq!(
        (recorded.state, recorded.grant, reply),
        (TicketState::Pending, None, TicketReply::Recorded { missing: 1 })
    );

    let approved = approved();
    assert_eq!(approved.state, TicketState::Approved);
    let standing = approved.grant.as_ref().unwrap();
    assert_eq!(standing.signed, *good());
    assert_eq!(approved.use_by, Some(standing.until), "it is answered with as long as the grant holds");
}

#[test]
fn the_same_plan_again_is_told_how_it_stands() {
    let (ticket, asked) = (opened(plan_request(&plan())), plan_request(&plan()));
    let again =
        |ticket: &Ticket, at: &TicketContext| step(Some(ticket), &TicketEvent::Request(Box::new(asked.clone())), at);
    assert_eq!(again(&ticket, &after(1_000)).reply, TicketReply::Pending);
    let ticket = approved();
    assert_eq!(again(&ticket, &after(2 * HOUR_MS)).reply, TicketReply::Approved, "long after a call's approval lapses");
    let lapsed = again(&ticket, &after(1_000 + 2 * DAY_MS));
    assert_eq!((lapsed.reply, lapsed.changes[0].state), (TicketReply::Lapsed, TicketState::Lapsed));
    // Taken back or used up: people are asked again, and the old ticket makes room for the new one.
    let revoke = TicketEvent::Revoke { by: "olga".to_owned(), reason: "enough".to_owned() };
    let revoked = happens(&ticket, &revoke, &after(2_000)).0;
    let mut used_up = ticket.clone();
    for (call, effect_id) in [(0, "eff_1"), (0, "eff_2"), (1, "eff_3")] {
        used_up = happens(&used_up, &draw_of(&used_up, (call, 0), effect_id, effect_id), &after(2_000)).0;
    }
    for ended in [revoked, used_up] {
        let asked = again(&ended, &after(3_000));
        let states: Vec<TicketState> = asked.changes.iter().map(|ticket| ticket.state).collect();
        assert_eq!((asked.reply, states), (TicketReply::Pending, vec![TicketState::Superseded, TicketState::Pending]));
        assert!(asked.changes[1].grant.is_none());
    }
}

#[test]
fn the_strictest_of_the_calls_decides_for_all() {
    let with = |demands: Vec<ApprovalDemand>| {
        let call = proposed("bank.pay", &json!({ "amount": 1 }), 1);
        let calls = demands.into_iter().map(|demand| ProposedCall { demand, ..call.clone() }).collect();
        ProposedPlan { calls, ..plan() }.demand()
    };
    let plain = demand(ApprovalPattern::Operator, 1);
    let consent = demand(ApprovalPattern::Consent, 1);
    let fresh = ApprovalDemand { presence: Presence::Fresh, causes: vec![ApprovalCause::Contract], ..plain.clone() };
    let finance = ApprovalDemand { groups: ["finance".to_owned()].into(), ..plain.clone() };
    let legal = ApprovalDemand { groups: ["legal".to_owned()].into(), ..plain.clone() };
    let both = ApprovalDemand { groups: ["finance".to_owned(), "legal".to_owned()].into(), ..plain.clone() };
    let found = with(vec![consent, plain.clone(), fresh.clone()]).unwrap();
    assert_eq!((found.pattern, found.presence), (ApprovalPattern::Operator, Presence::Fresh));
    assert_eq!(found.causes, [ApprovalCause::Class, ApprovalCause::Contract]);
    assert_eq!(with(vec![plain.clone(), finance.clone()]).unwrap().groups, finance.groups);
    assert_eq!(with(vec![both, finance.clone()]).unwrap().groups, finance.groups);
    assert_eq!(with(vec![finance.clone(), legal]), Err(PlanFault::DifferentPeople));
    assert_eq!(with(vec![finance, fresh]), Err(PlanFault::DifferentPeople));
    let escalating = ApprovalDemand {
        groups: ["finance".to_owned()].into(),
        escalation: vec![EscalationTier { after_percent: 50, groups: ["leads".to_owned()].into() }],
        ..plain
    };
    assert!(with(vec![escalating]).is_ok());
}

#[test]
fn what_people_would_not_be_shown_or_no_grant_can_hold_is_in_no_plan() {
    let many: Value =
        (0..24).map(|number| (format!("a{number}"), json!(number))).collect::<serde_json::Map<_, _>>().into();
    let of = |count: usize| ProposedPlan { calls: vec![proposed("bank.pay", &many, 1); count], ..plan() }.document();
    assert!(of(PLAN_VALUES_MAX / 24).is_ok());
    assert_eq!(of(PLAN_VALUES_MAX / 24 + 1).unwrap_err(), PlanFault::TooManyValues);
    let call = proposed("bank.pay", &json!({ "amount": 1 }), 1);
    let critical = ApprovalDemand { class: SideEffectClass::CriticalMutation, ..call.demand.clone() };
    let secret = [("/amount".to_owned(), "secret".to_owned())].into();
    for (call, expected) in [
        (call.clone(), None),
        (
            ProposedCall { demand: critical, ..call.clone() },
            Some(GrantObstacle::NeedsPeople("it is a critical change")),
        ),
        (ProposedCall { sensitive: secret, ..call.clone() }, Some(GrantObstacle::Secret)),
        (
            ProposedCall { arguments: Bytes::from("[]"), ..call },
            Some(GrantObstacle::Arguments(crate::LeafFault::NotAnObject)),
        ),
    ] {
        assert_eq!(call.obstacle(), expected);
    }
    let personal = [("/to".to_owned(), "personal".to_owned())].into();
    let mut plan = plan();
    plan.calls[1].sensitive = personal;
    let expected = [("/calls/1/arguments/to".to_owned(), "personal".to_owned())].into();
    assert_eq!(plan.sensitive(), expected, "masked where it stands on the ticket");
}
