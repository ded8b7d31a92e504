//! Grants: from which tickets, by whom, what happens to them, and what a signed one is worth.

mod calls;
mod plans;

use serde_json::{Value, json};
use servanda_contract::{
    CallId,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};

use super::samples::{
    HOUR_MS, START_MS, after, approved_by, approver, consume, decide, demand, digest, happens, key, opened, request,
    request_of, usage,
};
use crate::{
    ApprovalCause, ApprovalUse, ApprovalUseKind, ApprovalVerdict, Approver, ArgumentBound, BoundFault, BoundRule,
    DENIAL_HOLD_MS, DENIALS_IN_A_ROW_MAX, Deadline, GRANT_LIFE_MS_MAX, GRANT_USES_MAX, GrantEnd, GrantExpectation,
    GrantFault, GrantObstacle, GrantTerms, Ineligible, NarrowedBound, PersonRole, RunDenials, SignedGrant,
    StandingGrant, Ticket, TicketContext, TicketEvent, TicketId, TicketReply, TicketRequest, TicketState,
    grant_obstacle, proposed_bounds, step,
};

const DAY_MS: u64 = 24 * HOUR_MS;

type GrantChange = fn(&mut crate::ApprovalGrant);

/// The grant that bob makes from a ticket: two calls for a day.
fn signed_by(ticket: &Ticket, maker: &Approver, change: impl FnOnce(&mut crate::ApprovalGrant)) -> SignedGrant {
    let calls = vec![ticket.granted_call(ticket.proposed_bounds().unwrap(), 2)];
    let terms = GrantTerms { calls, cost_max: None, until_ms: START_MS + DAY_MS };
    let mut grant = ticket.make_grant(terms, maker, "console".to_owned(), START_MS);
    change(&mut grant);
    grant.sign(&key(1)).unwrap()
}

fn standing(signed: SignedGrant) -> StandingGrant {
    let until = Deadline { clock_ms: START_MS + DAY_MS, ledger_ms: u64::MAX };
    StandingGrant { signed, until, draws: Vec::new(), revoked: None }
}

fn grant_event(ticket: &Ticket, maker: &Approver) -> TicketEvent {
    TicketEvent::Grant { grant: Box::new(signed_by(ticket, maker, |_| {})), approver: Box::new(maker.clone()) }
}

/// A ticket that bob approved and made a grant from.
fn granted() -> Ticket {
    let ticket = approved_by(request(), &["bob"]);
    let (ticket, reply) = happens(&ticket, &grant_event(&ticket, &approver("bob")), &after(2_000));
    assert_eq!(reply, TicketReply::Done);
    ticket
}

fn draw(ticket: &Ticket, call: &str, effect_id: &str) -> TicketEvent {
    draw_of(ticket, (0, 0), call, effect_id)
}

/// A draw on one call of the grant at a cost.
fn draw_of(ticket: &Ticket, (number, cost_micros): (usize, u64), call: &str, effect_id: &str) -> TicketEvent {
    let usage = ApprovalUse {
        kind: ApprovalUseKind::Grant { call: number, cost_micros },
        call_id: CallId::from(call.to_owned()),
        payload: digest(effect_id),
        warrant: ticket.grant.as_ref().unwrap().signed.digest(),
        ..usage(ticket)
    };
    TicketEvent::Consume { usage, effect_id: effect_id.to_owned() }
}

fn draws(ticket: &Ticket) -> usize {
    ticket.grant.as_ref().unwrap().draws.len()
}

#[test]
fn a_grant_is_drawn_on_as_often_as_it_says_and_once_for_each_effect() {
    let ticket = granted();
    assert_eq!(ticket.state, TicketState::Approved, "the approval itself stays");
    let (ticket, reply) = happens(&ticket, &draw(&ticket, "call_1", "eff_1"), &after(3_000));
    assert_eq!((draws(&ticket), reply), (1, TicketReply::Consumed));
    let (ticket, reply) = happens(&ticket, &draw(&ticket, "call_again", "eff_1"), &after(4_000));
    assert_eq!((draws(&ticket), reply), (1, TicketReply::Consumed), "a retry of one effect draws once");
    let (ticket, reply) = happens(&ticket, &draw(&ticket, "call_2", "eff_2"), &after(5_000));
    assert_eq!((draws(&ticket), reply), (2, TicketReply::Consumed));
    let (ticket, reply) = happens(&ticket, &draw(&ticket, "call_3", "eff_3"), &after(6_000));
    assert_eq!((draws(&ticket), reply), (2, TicketReply::GrantEnded(GrantEnd::UsedUp)));
    let standing = ticket.grant.as_ref().unwrap();
    assert_eq!(standing.use_of(&CallId::from("call_2".to_owned())), Some((2, 2)));
    assert_eq!(standing.use_of(&CallId::from("call_3".to_owned())), None);
    // The approval of the very call is used apart from the grant.
    let (ticket, reply) = happens(&ticket, &consume(usage(&ticket)), &after(7_000));
    assert_eq!((ticket.state, draws(&ticket), reply), (TicketState::Consumed, 2, TicketReply::Consumed));
}

#[test]
fn what_ended_or_is_another_grant_is_not_drawn_on() {
    let ticket = granted();
    let revoke = TicketEvent::Revoke { by: "olga".to_owned(), reason: "enough".to_owned() };
    let (revoked, reply) = happens(&ticket, &revoke, &after(3_000));
    assert_eq!(reply, TicketReply::Done);
    let again = happens(&revoked, &revoke, &after(3_500));
    assert_eq!(again, (revoked.clone(), TicketReply::GrantEnded(GrantEnd::Revoked)));
    let with_draw = happens(&ticket, &draw(&ticket, "call_1", "eff_1"), &after(3_000)).0;
    let (revoked_later, _) = happens(&with_draw, &revoke, &after(4_000));
    let other = |change: fn(&mut ApprovalUse)| {
        let TicketEvent::Consume { mut usage, effect_id } = draw(&ticket, "call_1", "eff_1") else { panic!() };
        change(&mut usage);
        TicketEvent::Consume { usage, effect_id }
    };
    let elsewhere = Ticket { id: TicketId::from("apr_copy".to_owned()), ..ticket.clone() };
    let lost_clock = TicketContext { now_ms: START_MS, ..after(DAY_MS) };
    for (from, event, at, expected) in [
        (&revoked, draw(&ticket, "call_1", "eff_1"), after(4_000), TicketReply::GrantEnded(GrantEnd::Revoked)),
        // Not even the retry of an effect that drew before.
        (&revoked_later, draw(&ticket, "call_1", "eff_1"), after(5_000), TicketReply::GrantEnded(GrantEnd::Revoked)),
        (&ticket, draw(&ticket, "call_1", "eff_1"), after(DAY_MS), TicketReply::GrantEnded(GrantEnd::Expired)),
        // The store's clock was set back; ledger time was not.
        (&ticket, draw(&ticket, "call_1", "eff_1"), lost_clock, TicketReply::GrantEnded(GrantEnd::Expired)),
        (&ticket, other(|usage| usage.warrant = digest("another grant")), after(3_000), TicketReply::OtherPayload),
        (&ticket, other(|usage| usage.ticket = TicketId::from("apr_9".to_owned())), after(3_000), TicketReply::NotNow),
        (
            &elsewhere,
            other(|usage| usage.ticket = TicketId::from("apr_copy".to_owned())),
            after(3_000),
            TicketReply::NotNow,
        ),
        (&approved_by(request(), &["bob"]), draw(&ticket, "call_1", "eff_1"), after(3_000), TicketReply::NotNow),
    ] {
        let (left, reply) = happens(from, &event, &at);
        assert_eq!(reply, expected, "{event:?}");
        assert_eq!(left.grant, from.grant, "{event:?}");
    }
    let none = happens(&opened(request()), &revoke, &after(0));
    assert_eq!(none.1, TicketReply::NotFound);
}

#[test]
fn only_who_may_approve_makes_a_grant_and_only_within_limits() {
    let ticket = approved_by(request(), &["bob"]);
    let of = |name: &str, roles: &[PersonRole]| Approver { roles: roles.iter().copied().collect(), ..approver(name) };
    for (maker, expected) in [
        (approver("bob"), TicketReply::Done),
        (approver("eve"), TicketReply::Done),
        (approver("ada"), TicketReply::NotEligible(Ineligible::OwnRequest)),
        (approver("bot"), TicketReply::NotEligible(Ineligible::OwnRequest)),
        (of("vera", &[PersonRole::Viewer]), TicketReply::NotEligible(Ineligible::NoRole)),
        (of("glass", &[PersonRole::BreakGlass]), TicketReply::NotEligible(Ineligible::OtherGroup)),
        (Approver { tenant: "umbrella".to_owned(), ..approver("bob") }, TicketReply::NotFound),
    ] {
        assert_eq!(happens(&ticket, &grant_event(&ticket, &maker), &after(2_000)).1, expected, "{}", maker.principal);
    }
    let bob = approver("bob");
    let changed: [(GrantChange, TicketReply); 10] = [
        (|grant| grant.calls[0].uses_max = 0, TicketReply::NotNow),
        (|grant| grant.calls[0].uses_max = GRANT_USES_MAX + 1, TicketReply::NotNow),
        (|grant| grant.calls.clear(), TicketReply::NotNow),
        (|grant| grant.calls[0].ticket = None, TicketReply::NotNow),
        (|grant| grant.calls[0].payload_hash = digest("another call"), TicketReply::NotNow),
        (|grant| grant.until_ms = START_MS + 2_000, TicketReply::NotNow),
        (|grant| grant.until_ms = START_MS + 2_001 + GRANT_LIFE_MS_MAX, TicketReply::NotNow),
        (|grant| grant.ticket = TicketId::from("apr_9".to_owned()), TicketReply::NotFound),
        (|grant| grant.approver = "eve".to_owned(), TicketReply::NotFound),
        (|grant| grant.payload_hash = digest("another call"), TicketReply::OtherPayload),
    ];
    for (number, (change, expected)) in changed.into_iter().enumerate() {
        let grant = Box::new(signed_by(&ticket, &bob, change));
        let event = TicketEvent::Grant { grant, approver: Box::new(bob.clone()) };
        assert_eq!(happens(&ticket, &event, &after(2_000)), (ticket.clone(), expected), "{number}");
    }
    // Groups that might have decided later had no part in the approval.
    let mut late = ticket.clone();
    late.demand.groups = ["finance".to_owned()].into();
    late.demand.escalation = vec![crate::EscalationTier { after_percent: 50, groups: ["leads".to_owned()].into() }];
    let of_group = |group: &str| Approver { groups: [group.to_owned()].into(), ..approver("eve") };
    for (group, expected) in
        [("finance", TicketReply::Done), ("leads", TicketReply::NotEligible(Ineligible::OtherGroup))]
    {
        let made = happens(&late, &grant_event(&late, &of_group(group)), &after(40 * 60_000));
        assert_eq!(made.1, expected, "{group}");
    }
    let granted = granted();
    assert_eq!(happens(&granted, &grant_event(&granted, &bob), &after(3_000)).1, TicketReply::NotNow, "one a ticket");
}

#[test]
fn no_grant_is_made_where_people_decide_about_each_call() {
    let of_demand = |change: fn(&mut crate::ApprovalDemand)| {
        let mut ticket = approved_by(request(), &["bob"]);
        change(&mut ticket.demand);
        ticket
    };
    let needs = GrantObstacle::NeedsPeople;
    let secret = {
        let mut ticket = approved_by(request(), &["bob"]);
        ticket.subject.sensitive.insert("/amount".to_owned(), "secret".to_owned());
        ticket
    };
    let waiting = opened(request());
    let denied = happens(&waiting, &decide(&waiting, approver("bob"), ApprovalVerdict::Deny), &after(1_000)).0;
    for (ticket, expected) in [
        (of_demand(|_| {}), None),
        (of_demand(|demand| demand.pattern = ApprovalPattern::Consent), None),
        (
            of_demand(|demand| demand.pattern = ApprovalPattern::Queue),
            Some(needs("its pattern asks people about each call")),
        ),
        (
            of_demand(|demand| demand.pattern = ApprovalPattern::Dual),
            Some(needs("its pattern asks people about each call")),
        ),
        (
            of_demand(|demand| demand.pattern = ApprovalPattern::Compliance),
            Some(needs("its pattern asks people about each call")),
        ),
        (of_demand(|demand| demand.quorum = 2), Some(needs("several people have to approve it"))),
        (of_demand(|demand| demand.presence = Presence::Passkey), Some(needs("a passkey has to sign each decision"))),
        (of_demand(|demand| demand.class = SideEffectClass::CriticalMutation), Some(needs("it is a critical change"))),
        (
            of_demand(|demand| demand.causes.push(ApprovalCause::CriticalScope("global".to_owned()))),
            Some(needs("it is a critical change")),
        ),
        (secret, Some(GrantObstacle::Secret)),
        (waiting, Some(GrantObstacle::NotApproved)),
        (denied, Some(GrantObstacle::NotApproved)),
        (granted(), Some(GrantObstacle::MadeAlready)),
    ] {
        assert_eq!(grant_obstacle(&ticket), expected, "{:?}", ticket.demand);
        if expected.is_some() {
            let made = happens(&ticket, &grant_event(&ticket, &approver("bob")), &after(2_000));
            assert!(made.0 == ticket && made.1 != TicketReply::Done, "{:?}", made.1);
        }
    }
}

#[test]
fn a_denial_of_the_call_and_a_stopped_run_come_before_a_grant() {
    let cover = || TicketEvent::Cover(Box::new(request()));
    let covered = step(None, &cover(), &after(0));
    assert_eq!((covered.changes.len(), covered.reply), (0, TicketReply::Covered), "no ticket is opened");

    let waiting = opened(request());
    let (ended, reply) = happens(&waiting, &cover(), &after(1_000));
    assert_eq!((ended.state, reply), (TicketState::Superseded, TicketReply::Covered));

    let denied = happens(&waiting, &decide(&waiting, approver("bob"), ApprovalVerdict::Deny), &after(1_000)).0;
    let until_ms = START_MS + 1_000 + DENIAL_HOLD_MS;
    assert_eq!(happens(&denied, &cover(), &after(2_000)).1, TicketReply::Denied { until_ms });
    assert_eq!(happens(&denied, &cover(), &after(1_000 + DENIAL_HOLD_MS)).1, TicketReply::Covered);

    let approved = approved_by(request(), &["bob"]);
    assert_eq!(happens(&approved, &cover(), &after(2_000)), (approved.clone(), TicketReply::Approved));
    let lapsed = happens(&approved, &cover(), &after(DAY_MS));
    assert_eq!((lapsed.0.state, lapsed.1), (TicketState::Lapsed, TicketReply::Covered));

    let run = RunDenials { in_a_row: DENIALS_IN_A_ROW_MAX, in_all: DENIALS_IN_A_ROW_MAX, latest_ms: START_MS };
    let around = TicketContext { run, ..after(1_000) };
    assert_eq!(step(None, &cover(), &around).reply, TicketReply::RunStopped { until_ms: START_MS + DENIAL_HOLD_MS });
}

#[test]
fn a_signed_grant_is_for_one_caller_one_contract_and_no_more_than_was_asked() {
    let ticket = approved_by(request(), &["bob"]);
    let subject = &ticket.subject;
    let signed = signed_by(&ticket, &approver("bob"), |_| {});
    let keys = [key(1).public().clone()];
    let (asked, payload) = (demand(ApprovalPattern::Operator, 1), digest("a call"));
    let expected = GrantExpectation {
        tenant: &subject.tenant,
        principal: &subject.principal,
        actors: &subject.actors,
        tool: &subject.contract,
        contract_digest: &subject.contract_digest,
        demand: &asked,
        payload: &payload,
        price: None,
        now_ms: START_MS + 1,
    };
    let signed = standing(signed);
    let verified = signed.verify(&keys, &expected, |_| true).unwrap();
    assert_eq!(
        (verified.ticket(), verified.payload(), *verified.digest()),
        (&ticket.id, &payload, signed.signed.digest())
    );

    let newer = digest("a newer contract");
    let with = |change: fn(&mut crate::ApprovalDemand)| {
        let mut demand = demand(ApprovalPattern::Operator, 1);
        change(&mut demand);
        demand
    };
    let stricter = [
        with(|demand| demand.class = SideEffectClass::CriticalMutation),
        with(|demand| demand.quorum = 2),
        with(|demand| demand.pattern = ApprovalPattern::Compliance),
        with(|demand| demand.presence = Presence::Passkey),
        with(|demand| demand.presence = Presence::Fresh),
        with(|demand| demand.groups = ["finance".to_owned()].into()),
    ];
    for demand in &stricter {
        let refused = signed.verify(&keys, &GrantExpectation { demand, ..expected }, |_| true);
        assert!(matches!(refused, Err(GrantFault::NeedsPeople(_))), "{demand:?}: {refused:?}");
    }
    for (expected, fault) in [
        (GrantExpectation { tenant: "umbrella", ..expected }, GrantFault::OtherCalls("another caller")),
        (GrantExpectation { principal: "eve", ..expected }, GrantFault::OtherCalls("another caller")),
        (GrantExpectation { actors: &[], ..expected }, GrantFault::OtherCalls("another agent")),
        (GrantExpectation { tool: "bank.refund", ..expected }, GrantFault::OtherCalls("another tool")),
        (
            GrantExpectation { contract_digest: &newer, ..expected },
            GrantFault::OtherCalls("another version of the contract"),
        ),
        (GrantExpectation { now_ms: START_MS + DAY_MS, ..expected }, GrantFault::Expired),
    ] {
        assert_eq!(signed.verify(&keys, &expected, |_| true), Err(fault));
    }
    assert_eq!(signed.verify(&keys, &expected, |_| false), Err(GrantFault::Bounds));
    let mut more = signed.clone();
    more.signed.grant.calls[0].uses_max = 100;
    assert_eq!(more.verify(&keys, &expected, |_| true), Err(GrantFault::Signature));
    assert_eq!(signed.verify(&[key(2).public().clone()], &expected, |_| true), Err(GrantFault::Signature));
    let signed = signed.signed;
    let stored: SignedGrant = serde_json::from_str(&serde_json::to_string(&signed).unwrap()).unwrap();
    assert_eq!((stored.check(&keys), stored.digest()), (Ok(()), signed.digest()));
}

fn rules(arguments: &Value) -> Vec<(String, BoundRule)> {
    let ticket = opened(TicketRequest { ..request_of(arguments) });
    let bounds = proposed_bounds(&ticket.subject.arguments).unwrap();
    bounds.into_iter().map(|ArgumentBound { pointer, rule }| (pointer, rule)).collect()
}

#[test]
fn bounds_follow_from_the_approved_arguments() {
    let equal = |value: Value| BoundRule::Equal(value);
    let at_most = |text: &str| BoundRule::AtMost(text.to_owned());
    let below = |text: &str| BoundRule::Below(text.to_owned());
    let origin = |text: &str| BoundRule::Origin(text.to_owned());
    for (name, value, expected) in [
        ("amount_cents", json!(4_200), at_most("4200.0")),
        ("amount", json!(12.5), at_most("12.5")),
        ("amount", json!(-7), at_most("-7.0")),
        ("amount", json!(0), at_most("0.0")),
        // Finer than a ten-thousandth, or beyond what a policy can hold.
        ("amount", json!(0.000_01), equal(json!(0.000_01))),
        ("amount", json!(9_007_199_254_740_991_i64), equal(json!(9_007_199_254_740_991_i64))),
        ("amount", json!(1e300), equal(json!(1e300))),
        // Numbers that are names.
        ("account_id", json!(42), equal(json!(42))),
        ("invoiceNumber", json!(42), equal(json!(42))),
        ("port", json!(443), equal(json!(443))),
        ("to", json!("bob"), equal(json!("bob"))),
        ("is_final", json!(true), equal(json!(true))),
        ("note", json!(null), equal(json!(null))),
        ("tags", json!([]), equal(json!([]))),
        ("options", json!({}), equal(json!({}))),
        ("path", json!("/srv/reports/2026/q3.csv"), below("/srv/reports/2026/")),
        ("file", json!("docs/a/b.md"), below("docs/a/")),
        // Not a path by its name, without a folder, in the root, or not plain.
        ("pattern", json!("/srv/reports/q3.csv"), equal(json!("/srv/reports/q3.csv"))),
        ("path", json!("a.md"), equal(json!("a.md"))),
        ("path", json!("/passwd"), equal(json!("/passwd"))),
        ("path", json!("/srv/../etc/passwd"), equal(json!("/srv/../etc/passwd"))),
        ("path", json!("/srv//a"), equal(json!("/srv//a"))),
        ("path", json!("C:\\srv\\a"), equal(json!("C:\\srv\\a"))),
        ("url", json!("https://api.example/v1/items?x=1"), origin("https://api.example:443")),
        ("url", json!("http://api.example:8080/"), origin("http://api.example:8080")),
        ("url", json!("HTTPS://API.example/"), origin("https://api.example:443")),
        ("url", json!("https://user@api.example/"), equal(json!("https://user@api.example/"))),
        ("url", json!("https://127.0.0.1/"), equal(json!("https://127.0.0.1/"))),
        ("url", json!("ftp://api.example/"), equal(json!("ftp://api.example/"))),
    ] {
        assert_eq!(rules(&json!({ name: value.clone() })), [(format!("/{name}"), expected)], "{name}: {value}");
    }
    let nested = json!({ "items": [{ "amount": 1 }, { "amount": 2 }], "a/b": "~" });
    let pointers: Vec<String> = rules(&nested).into_iter().map(|(pointer, _)| pointer).collect();
    assert_eq!(pointers, ["/a~1b", "/items/0/amount", "/items/1/amount"]);

    let many: Value =
        (0..25).map(|number| (format!("a{number}"), json!(number))).collect::<serde_json::Map<_, _>>().into();
    for (arguments, fault) in [
        (many.to_string(), crate::LeafFault::TooMany),
        (json!({ "text": "x".repeat(3_000) }).to_string(), crate::LeafFault::TooLong),
        ("[1]".to_owned(), crate::LeafFault::NotAnObject),
        ("{".to_owned(), crate::LeafFault::NotAnObject),
    ] {
        assert_eq!(proposed_bounds(arguments.as_bytes()), Err(fault));
    }
}

#[test]
fn a_person_makes_a_bound_narrower_and_never_wider() {
    let bound = |rule: BoundRule| ArgumentBound { pointer: "/x".to_owned(), rule };
    let (most, least) = (bound(BoundRule::AtMost("100.0".to_owned())), bound(BoundRule::AtMost("-100.0".to_owned())));
    let folder = bound(BoundRule::Below("/srv/reports/".to_owned()));
    let (exact, origin) =
        (bound(BoundRule::Equal(json!("bob"))), bound(BoundRule::Origin("https://api.example:443".to_owned())));
    let at_most = |text: &str| Ok(BoundRule::AtMost(text.to_owned()));
    let below = |text: &str| Ok(BoundRule::Below(text.to_owned()));
    for (from, text, expected) in [
        (&most, "100", at_most("100.0")),
        (&most, " 12.50 ", at_most("12.5")),
        (&most, "0", at_most("0.0")),
        (&most, "100.0001", Err(BoundFault::Wider)),
        (&most, "101", Err(BoundFault::Wider)),
        (&most, "-1", Err(BoundFault::Wider)),
        (&most, "1e400", Err(BoundFault::Unreadable)),
        (&most, "-0", at_most("0.0")),
        (&most, "9999999999999999999999", Err(BoundFault::Unreadable)),
        (&most, "1.00001", Err(BoundFault::Unreadable)),
        (&most, "", Err(BoundFault::Unreadable)),
        (&least, "-5", at_most("-5.0")),
        (&least, "-101", Err(BoundFault::Wider)),
        (&least, "1", Err(BoundFault::Wider)),
        (&folder, "/srv/reports/2026/", below("/srv/reports/2026/")),
        (&folder, "/srv/reports/", below("/srv/reports/")),
        (&folder, "/srv/", Err(BoundFault::Wider)),
        (&folder, "/srv/reports", Err(BoundFault::Unreadable)),
        (&folder, "/srv/reports/../", Err(BoundFault::Unreadable)),
        (&folder, "/srv/reports/*/", Err(BoundFault::Unreadable)),
        (&exact, "eve", Err(BoundFault::Unreadable)),
        (&origin, "https://evil.example:443", Err(BoundFault::Unreadable)),
    ] {
        let narrowed = from.narrowed(NarrowedBound::Text(text)).map(|bound| bound.rule);
        assert_eq!(narrowed, expected, "{:?} to {text:?}", from.rule);
    }
    let exactly = most.narrowed(NarrowedBound::Exactly(&json!(100))).unwrap();
    assert_eq!(exactly.rule, BoundRule::Equal(json!(100)));
    assert_eq!(folder.narrowed(NarrowedBound::AsProposed), Ok(folder.clone()));
}
