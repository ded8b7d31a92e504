//! Grants for several calls: each call's own bounds, demand and number of times, and one sum of money.

use servanda_contract::cost::{Cost, Price};

use super::*;
use crate::{CostCeiling, GrantedCall, PLAN_CALLS_MAX};

/// Another approved call of the same caller, of another tool.
fn refunding(demand: crate::ApprovalDemand, uses_max: u32) -> GrantedCall {
    let mut other = approved_by(request_of(&json!({ "invoice": 7 })), &["bob"]);
    other.id = TicketId::from("apr_2".to_owned());
    other.subject.contract = "bank.refund".to_owned();
    other.subject.contract_digest = digest("of refunds");
    other.demand = demand;
    other.granted_call(other.proposed_bounds().unwrap(), uses_max)
}

/// A ticket with a grant for two payments and one refund, and with a limit of money.
fn granted_with(cost_max: Option<&str>) -> Ticket {
    let ticket = approved_by(request(), &["bob"]);
    let bob = approver("bob");
    let grant = signed_by(&ticket, &bob, |grant| {
        grant.calls.push(refunding(demand(ApprovalPattern::Operator, 1), 1));
        grant.cost_max = cost_max.map(|text| CostCeiling::read(text).unwrap());
    });
    let event = TicketEvent::Grant { grant: Box::new(grant), approver: Box::new(bob) };
    let (ticket, reply) = happens(&ticket, &event, &after(2_000));
    assert_eq!(reply, TicketReply::Done);
    ticket
}

#[test]
fn each_call_is_drawn_on_as_often_as_it_says_and_the_others_go_on() {
    let ended = TicketReply::GrantEnded(GrantEnd::UsedUp);
    let mut ticket = granted_with(None);
    for (call, effect_id, expected, is_over) in [
        (1, "eff_1", TicketReply::Consumed, false),
        (1, "eff_2", ended.clone(), false),
        // The repetition of an effect draws once, also where nothing is left.
        (1, "eff_1", TicketReply::Consumed, false),
        (0, "eff_3", TicketReply::Consumed, false),
        (0, "eff_4", TicketReply::Consumed, true),
        (0, "eff_5", ended.clone(), true),
        (2, "eff_6", ended.clone(), true),
        (usize::MAX, "eff_7", ended, true),
    ] {
        let (next, reply) = happens(&ticket, &draw_of(&ticket, (call, 0), effect_id, effect_id), &after(3_000));
        assert_eq!(reply, expected, "{call} {effect_id}");
        ticket = next;
        let standing = ticket.grant.as_ref().unwrap();
        assert_eq!(standing.end(START_MS + 3_000, 0), is_over.then_some(GrantEnd::UsedUp), "{effect_id}");
    }
    let standing = ticket.grant.as_ref().unwrap();
    assert_eq!((standing.uses(0), standing.uses(1), standing.draws.len()), (2, 1, 3));
    let use_of = |call: &str| standing.use_of(&CallId::from(call.to_owned()));
    assert_eq!((use_of("eff_1"), use_of("eff_4"), use_of("eff_5")), (Some((1, 1)), Some((2, 2)), None));
}

#[test]
fn money_is_drawn_by_all_calls_together_and_never_beyond_the_limit() {
    let spent = TicketReply::GrantEnded(GrantEnd::Spent);
    let mut ticket = granted_with(Some("1.00 EUR"));
    for (call, cost_micros, effect_id, expected) in [
        (0, 1_000_001, "eff_0", spent.clone()),
        (0, u64::MAX, "eff_0", spent.clone()),
        (0, 600_000, "eff_1", TicketReply::Consumed),
        (0, 600_000, "eff_1", TicketReply::Consumed),
        (1, 400_001, "eff_2", spent.clone()),
        (1, 400_000, "eff_2", TicketReply::Consumed),
        // Nothing is left, and a call that costs nothing is not covered either.
        (0, 0, "eff_3", spent),
    ] {
        let event = draw_of(&ticket, (call, cost_micros), effect_id, effect_id);
        let (next, reply) = happens(&ticket, &event, &after(3_000));
        assert_eq!(reply, expected, "{cost_micros} {effect_id}");
        ticket = next;
    }
    let standing = ticket.grant.as_ref().unwrap();
    assert_eq!((standing.spent_micros(), standing.draws.len()), (1_000_000, 2));
    assert_eq!(standing.end(START_MS + 3_000, 0), Some(GrantEnd::Spent));
    assert_eq!(standing.money_in_words().as_deref(), Some("1.00 of 1.00 EUR"));
}

#[test]
fn a_call_is_covered_by_a_call_that_is_left_and_at_a_cost_that_is_counted() {
    let ticket = granted_with(Some("1.00 EUR"));
    let subject = &ticket.subject;
    let (keys, payload, asked) = ([key(1).public().clone()], digest("a call"), demand(ApprovalPattern::Operator, 1));
    let price = |currency: &str, micros: u64| Price {
        currency: currency.to_owned(),
        cost: Cost { external_api_micros: micros, ..Cost::default() },
    };
    let (one, much, free, dollars) = (price("EUR", 250_000), price("EUR", 1_000_001), price("USD", 0), price("USD", 1));
    let expected = GrantExpectation {
        tenant: &subject.tenant,
        principal: &subject.principal,
        actors: &subject.actors,
        tool: &subject.contract,
        contract_digest: &subject.contract_digest,
        demand: &asked,
        payload: &payload,
        price: Some(&one),
        now_ms: START_MS + 1,
    };
    let standing = ticket.grant.as_ref().unwrap();
    let verified = standing.verify(&keys, &expected, |_| true).unwrap();
    assert_eq!((verified.call(), verified.cost_micros()), (0, 250_000));
    let free = GrantExpectation { price: Some(&free), ..expected };
    assert_eq!(standing.verify(&keys, &free, |_| true).unwrap().cost_micros(), 0);
    for (price, fault) in [
        (Some(&much), GrantFault::UsedUp(GrantEnd::Spent.describe())),
        (Some(&dollars), GrantFault::OtherCalls("calls that cost another currency")),
        (None, GrantFault::OtherCalls("calls whose cost can be counted")),
    ] {
        let refused = standing.verify(&keys, &GrantExpectation { price, ..expected }, |call| call == 0);
        // The second call is of another tool, which is the last reason.
        assert_eq!(refused, Err(GrantFault::OtherCalls("another tool")));
        let mut of_one = ticket.grant.clone().unwrap();
        of_one.signed.grant.calls.truncate(1);
        of_one.signed = of_one.signed.grant.sign(&key(1)).unwrap();
        assert_eq!(of_one.verify(&keys, &GrantExpectation { price, ..expected }, |_| true), Err(fault));
    }
    // Two calls of one tool: when the first is used up, the second covers it.
    let mut of_same = ticket.grant.clone().unwrap();
    of_same.signed.grant.calls[1] = of_same.signed.grant.calls[0].clone();
    of_same.signed = of_same.signed.grant.sign(&key(1)).unwrap();
    for (uses, expected_call) in [(0, Some(0)), (1, Some(0)), (2, Some(1)), (3, Some(1)), (4, None)] {
        of_same.draws = (0..uses)
            .map(|number: usize| crate::GrantDraw {
                call_id: CallId::from(format!("call_{number}")),
                effect_id: format!("eff_{number}"),
                payload: digest("a call"),
                call: number / 2,
                cost_micros: 0,
                at_ms: START_MS,
            })
            .collect();
        let covering = of_same.verify(&keys, &expected, |_| true).ok().map(|verified| verified.call());
        assert_eq!(covering, expected_call, "{uses}");
    }
}

#[test]
fn a_plan_pairs_each_call_with_what_that_call_needed() {
    let ticket = approved_by(request(), &["bob"]);
    let weak = demand(ApprovalPattern::Operator, 1);
    let strong = crate::ApprovalDemand { groups: ["finance".to_owned()].into(), ..weak.clone() };
    let of_finance = Approver { groups: ["finance".to_owned()].into(), ..approver("bob") };
    let signed = standing(signed_by(&ticket, &of_finance, |grant| grant.calls.push(refunding(strong.clone(), 1))));
    let (keys, payload, subject) = ([key(1).public().clone()], digest("a call"), &ticket.subject);
    let refunds = digest("of refunds");
    let pay = GrantExpectation {
        tenant: &subject.tenant,
        principal: &subject.principal,
        actors: &subject.actors,
        tool: &subject.contract,
        contract_digest: &subject.contract_digest,
        demand: &weak,
        payload: &payload,
        price: None,
        now_ms: START_MS + 1,
    };
    let refund = GrantExpectation { tool: "bank.refund", contract_digest: &refunds, demand: &strong, ..pay };
    for (expected, number) in [(pay, 0), (refund, 1)] {
        let verified = signed.verify(&keys, &expected, |call| call == number).unwrap();
        assert_eq!((verified.ticket(), *verified.digest()), (&ticket.id, signed.signed.digest()), "the plan's own");
        assert_eq!(verified.call(), number);
    }
    for (expected, name) in [
        (GrantExpectation { demand: &strong, ..pay }, "what a refund was approved by does not count for a payment"),
        (GrantExpectation { contract_digest: &refunds, ..pay }, "the contract of the other call"),
        (GrantExpectation { contract_digest: &subject.contract_digest, ..refund }, "the contract of the first call"),
        (GrantExpectation { tool: "bank.close", ..pay }, "a third tool"),
        (GrantExpectation { now_ms: START_MS + DAY_MS, ..refund }, "too late"),
    ] {
        assert!(signed.verify(&keys, &expected, |_| true).is_err(), "{name}");
    }
    let mut wider = signed.clone();
    wider.signed.grant.calls[1].bounds.clear();
    assert_eq!(wider.verify(&keys, &pay, |_| true), Err(GrantFault::Signature));
    assert_eq!(signed.signed.grant.keys().len(), 2);
}

#[test]
fn a_plan_is_made_by_who_may_approve_every_call_of_it() {
    let ticket = approved_by(request(), &["bob"]);
    let weak = demand(ApprovalPattern::Operator, 1);
    let with = |change: fn(&mut crate::ApprovalDemand)| {
        let mut changed = weak.clone();
        change(&mut changed);
        vec![refunding(changed, 1)]
    };
    let not_finance = TicketReply::NotEligible(Ineligible::OtherGroup);
    let not_fresh = TicketReply::NotEligible(Ineligible::Presence { needed: Presence::Fresh });
    let of = |ticket: Option<TicketId>| vec![GrantedCall { ticket, ..refunding(weak.clone(), 1) }];
    for (others, expected) in [
        (with(|_| {}), TicketReply::Done),
        (with(|demand| demand.groups = ["finance".to_owned()].into()), not_finance),
        (with(|demand| demand.presence = Presence::Fresh), not_fresh),
        (with(|demand| demand.class = SideEffectClass::CriticalMutation), TicketReply::NotNow),
        (with(|demand| demand.quorum = 2), TicketReply::NotNow),
        (with(|demand| demand.pattern = ApprovalPattern::Compliance), TicketReply::NotNow),
        (of(Some(ticket.id.clone())), TicketReply::NotNow),
        (of(None), TicketReply::NotNow),
        (vec![refunding(weak.clone(), 0)], TicketReply::NotNow),
        (vec![refunding(weak.clone(), GRANT_USES_MAX + 1)], TicketReply::NotNow),
        (vec![refunding(weak.clone(), 1); PLAN_CALLS_MAX - 1], TicketReply::Done),
        (vec![refunding(weak.clone(), 1); PLAN_CALLS_MAX], TicketReply::NotNow),
    ] {
        let bob = approver("bob");
        let grant = Box::new(signed_by(&ticket, &bob, |grant| grant.calls.extend(others.clone())));
        let event = TicketEvent::Grant { grant, approver: Box::new(bob) };
        assert_eq!(happens(&ticket, &event, &after(2_000)).1, expected, "{others:?}");
    }
}

#[test]
fn a_sum_of_money_is_a_decimal_number_and_a_currency() {
    for (text, expected) in [
        ("5 EUR", Some(5_000_000)),
        (" 12.50 EUR ", Some(12_500_000)),
        ("0.000001 points", Some(1)),
        ("999999999.999999 EUR", Some(999_999_999_999_999)),
        ("1000000000 EUR", None),
        ("1.0000001 EUR", None),
        ("-1 EUR", None),
        ("+1 EUR", None),
        ("1e3 EUR", None),
        (".5 EUR", None),
        ("5. EUR", None),
        ("5", None),
        ("5 ", None),
        ("EUR", None),
        ("5 E\u{202e}R", None),
        ("\u{0665} EUR", None),
    ] {
        assert_eq!(CostCeiling::read(text).ok().map(|ceiling| ceiling.micros()), expected, "{text:?}");
    }
    let written = serde_json::to_value(CostCeiling::read("12.5 EUR").unwrap()).unwrap();
    assert_eq!(written, json!({ "amount": "12.50", "currency": "EUR" }));
    assert_eq!(serde_json::from_value::<CostCeiling>(written).unwrap().describe(), "12.50 EUR");
    assert!(serde_json::from_value::<CostCeiling>(json!({ "amount": "x", "currency": "EUR" })).is_err());
}
