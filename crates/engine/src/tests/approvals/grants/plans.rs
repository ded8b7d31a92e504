//! Plans through the whole engine: one grant for calls of two tools, drawn on by both, and what cannot be part of one.

use super::*;
use crate::approvals::WantedCall;

/// The second tool that needs an approval.
pub(super) const CLOSE: &str = "close";

/// A gateway with two tools that need an approval.
async fn office_of_two_tools() -> Office {
    let office = Office::paying();
    change(&office, settings(), |_| {}).await;
    office
}

async fn change(office: &Office, settings: ApprovalSettings, change: impl FnOnce(&mut ToolContract)) {
    let mut close = draft("up", CLOSE, true);
    close.transactional.confirmation_required = true;
    paying(&mut close);
    change(&mut close);
    let contracts = vec![contract(paying), close, draft("up", "echo", false)];
    office.harness.engine.replace_snapshot(world(&office.server, settings, contracts)).await.unwrap();
}

pub(super) fn request(office: &Office, tool: &str, arguments: &Value) -> CallRequest {
    let arguments = Bytes::from(arguments.to_string());
    CallRequest { arguments, ..call(&office.agent(), tool, RequestTerms::default()) }
}

/// Olga approves a call.
async fn approved(office: &Office, tool: &str, arguments: &Value) -> TicketId {
    office.clock.pass_ms(1);
    office.refusal_of(request(office, tool, arguments)).await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    id
}

async fn with(office: &Office, wanted: &WantedGrant, further: &[&TicketId]) -> WantedGrant {
    let mut wanted = wanted.clone();
    for id in further {
        let payload = office.ticket(id).await.subject.payload;
        wanted.further.push(WantedCall { ticket: (*id).clone(), payload, is_exact: false, uses_max: wanted.uses_max });
    }
    wanted
}

/// A plan of payments to Bob of at most 100, to Kim of at most 5, and ends of Bob's account of at most 7, each so many times; Olga made it.
async fn planned(office: &Office, uses_max: u32) -> TicketId {
    let first = approved(office, "write", &json!({"to": "bob", "amount": 100})).await;
    let second = approved(office, "write", &json!({"to": "kim", "amount": 5})).await;
    let third = approved(office, CLOSE, &json!({"to": "bob", "amount": 7})).await;
    let wanted = with(office, &office.wanted(&first, uses_max).await, &[&second, &third]).await;
    office.grant(&person("olga"), &wanted).await.unwrap();
    first
}

async fn asks(office: &Office, tool: &str, arguments: &Value) {
    let refusal = office.refusal_of(request(office, tool, arguments)).await;
    assert!(refusal.message.contains("waits for approval"), "{tool} {arguments}: {refusal:?}");
}

#[tokio::test]
async fn each_call_of_a_plan_has_its_number_of_times_and_they_are_taken_back_together() {
    let office = office_of_two_tools().await;
    let id = planned(&office, 1).await;
    for (tool, outside) in [
        ("write", json!({"to": "kim", "amount": 6})),
        ("write", json!({"to": "eve", "amount": 1})),
        (CLOSE, json!({"to": "bob", "amount": 8})),
        (CLOSE, json!({"to": "kim", "amount": 1})),
    ] {
        asks(&office, tool, &outside).await;
    }
    let within = [
        (CLOSE, json!({"to": "bob", "amount": 1})),
        ("write", json!({"to": "kim", "amount": 1})),
        ("write", json!({"to": "bob", "amount": 99})),
    ];
    for (number, (tool, arguments)) in within.iter().enumerate() {
        content(office.harness.engine.call(request(&office, tool, arguments)).await);
        let record = office.harness.last_record();
        assert_eq!(record.ticket_id.as_deref(), Some(id.as_str()), "{tool}");
        let standing = office.ticket(&id).await.grant.unwrap();
        assert_eq!(standing.use_of(&record.call_id), Some((1, 1)), "{tool}");
        assert_eq!(standing.draws[number].call, 2 - number, "{tool}: each draws on its own call");
        // One more of the same call is asked about; the others still go on.
        let mut again = arguments.clone();
        again["amount"] = json!(0);
        asks(&office, tool, &again).await;
    }
    assert_eq!((office.draws(&id).await, office.sent()), (3, 2));

    let office = office_of_two_tools().await;
    let id = planned(&office, 20).await;
    content(office.harness.engine.call(request(&office, CLOSE, &json!({"to": "bob", "amount": 1}))).await);
    office.revoke(&person("oscar"), &id).await.unwrap();
    for (tool, arguments) in within {
        asks(&office, tool, &arguments).await;
    }
}

#[tokio::test]
async fn the_calls_of_a_grant_cost_no_more_than_its_money() {
    let office = Office::paying();
    let of_cost = |cost: f64, currency: &'static str| {
        move |contract: &mut ToolContract| {
            paying(contract);
            contract.runtime.cost_profile.cost_per_call = cost;
            contract.runtime.cost_profile.currency = currency.to_owned();
        }
    };
    office.change(settings(), of_cost(0.4, "EUR")).await;
    office.refusal_of(office.pay(&json!({"to": "bob", "amount": 100}))).await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    let wanted = office.wanted(&id, 20).await;
    let cost_max = Some(servanda_approval::CostCeiling::read("1.00 EUR").unwrap());
    office.grant(&person("olga"), &WantedGrant { cost_max, ..wanted }).await.unwrap();
    for amount in [1, 2] {
        content(office.harness.engine.call(office.pay(&json!({"to": "bob", "amount": amount}))).await);
    }
    let standing = office.ticket(&id).await.grant.unwrap();
    assert_eq!(standing.money_in_words().as_deref(), Some("0.80 of 1.00 EUR"));
    office.asks_about(&json!({"to": "bob", "amount": 3})).await;
    assert_eq!((office.draws(&id).await, office.sent()), (2, 2));

    // Another currency is another contract, and what is counted there is not covered by this money.
    let office = Office::paying();
    office.change(settings(), of_cost(0.4, "USD")).await;
    office.refusal_of(office.pay(&json!({"to": "bob", "amount": 100}))).await;
    let id = office.ticket_id();
    office.approve(&person("olga"), &id).await.unwrap();
    let wanted = office.wanted(&id, 20).await;
    let cost_max = Some(servanda_approval::CostCeiling::read("1.00 EUR").unwrap());
    office.grant(&person("olga"), &WantedGrant { cost_max, ..wanted }).await.unwrap();
    office.asks_about(&json!({"to": "bob", "amount": 1})).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_forty_calls_of_two_tools_at_once_a_plan_for_three_each_lets_three_of_each_through() {
    let office = Arc::new(office_of_two_tools().await);
    let id = planned(&office, 3).await;
    let mut calls = JoinSet::new();
    for number in 0..40 {
        let office = Arc::clone(&office);
        calls.spawn(async move {
            let (tool, most) = if number % 2 == 0 { ("write", 99) } else { (CLOSE, 6) };
            let arguments = json!({"to": "bob", "amount": f64::from(number) * f64::from(most) / 40.0});
            let answer = office.harness.engine.call(request(&office, tool, &arguments)).await;
            matches!(answer, CallAnswer::Result(result) if !result.is_error).then_some(tool)
        });
    }
    let done: Vec<&str> = calls.join_all().await.into_iter().flatten().collect();
    let of = |tool: &str| done.iter().filter(|done| **done == tool).count();
    assert_eq!((of("write"), of(CLOSE), office.draws(&id).await), (3, 3, 6));
}

#[tokio::test]
async fn what_changes_for_one_call_of_a_plan_ends_that_call_and_no_other() {
    let office = office_of_two_tools().await;
    planned(&office, 20).await;
    change(&office, settings(), |close| close.identity.version = "9.9.9".to_owned()).await;
    asks(&office, CLOSE, &json!({"to": "bob", "amount": 1})).await;
    content(office.harness.engine.call(request(&office, "write", &json!({"to": "kim", "amount": 1}))).await);
    // The maker lost the role: nothing of it holds.
    let mut now = settings();
    now.roles = RoleAssignments::default().with(PersonRole::Approver, [member("acme/oscar")]);
    change(&office, now, |_| {}).await;
    asks(&office, "write", &json!({"to": "kim", "amount": 2})).await;
    asks(&office, CLOSE, &json!({"to": "bob", "amount": 2})).await;
}

#[tokio::test]
async fn only_approved_calls_of_one_caller_that_the_person_was_shown_are_part_of_a_plan() {
    let office = office_of_two_tools().await;
    let first = approved(&office, "write", &json!({"to": "bob", "amount": 100})).await;
    let second = approved(&office, CLOSE, &json!({"to": "bob", "amount": 7})).await;
    office.refusal_of(request(&office, CLOSE, &json!({"to": "kim", "amount": 1}))).await;
    let waiting = office.ticket_id();
    office.refusal_of(request(&office, CLOSE, &json!({"to": "kim", "amount": 2}))).await;
    let denied = office.ticket_id();
    office.decide(&person("olga"), &denied, ApprovalVerdict::Deny).await.unwrap();
    let of_eve = requester_of("acme", "eve", office.clock.now());
    let theirs = request(&office, CLOSE, &json!({"to": "bob", "amount": 7}));
    office.refusal_of(CallRequest { requester: of_eve, ..theirs }).await;
    let theirs = office.ticket_id();
    office.approve(&person("olga"), &theirs).await.unwrap();

    let wanted = office.wanted(&first, 20).await;
    let not_approved = || GrantFailure::Obstacle(GrantObstacle::NotApproved);
    let none = TicketId::from("apr_none".to_owned());
    for (other, expected) in [
        (&waiting, not_approved()),
        (&denied, not_approved()),
        (&theirs, GrantFailure::OtherCaller),
        (&first, GrantFailure::Repeated),
    ] {
        let wanted = with(&office, &wanted, &[&second, other]).await;
        let expected = GrantFailure::Planned { ticket: other.clone(), reason: Box::new(expected) };
        assert_eq!(office.grant(&person("olga"), &wanted).await, Err(expected));
    }
    let shown = with(&office, &wanted, &[&second]).await.further.remove(0);
    let with_call = |call: WantedCall| WantedGrant { further: vec![call], ..wanted.clone() };
    for (call, expected) in [
        (WantedCall { ticket: none.clone(), ..shown.clone() }, GrantFailure::NoTicket(none.clone())),
        (WantedCall { payload: wanted.payload, ..shown.clone() }, GrantFailure::OtherPayload),
        (WantedCall { uses_max: 0, ..shown.clone() }, GrantFailure::Uses),
        (WantedCall { uses_max: 101, ..shown.clone() }, GrantFailure::Uses),
    ] {
        let expected = GrantFailure::Planned { ticket: call.ticket.clone(), reason: Box::new(expected) };
        assert_eq!(office.grant(&person("olga"), &with_call(call)).await, Err(expected));
    }
    let many = WantedGrant { further: vec![shown.clone(); 20], ..wanted.clone() };
    assert_eq!(office.grant(&person("olga"), &many).await, Err(GrantFailure::TooManyCalls));

    let (engine, olga) = (&office.harness.engine, person("olga"));
    let (approvals, settings) = (engine.approvals(), engine.authorities());
    let ticket = office.ticket(&first).await;
    let offered = |who: &Person| {
        let who = who.clone();
        let (approvals, settings, ticket) = (approvals, settings.clone(), ticket.clone());
        async move { approvals.plannable_tickets(&who, &ticket, settings.approvals()).await.unwrap() }
    };
    let ids: Vec<TicketId> = offered(&olga).await.into_iter().map(|ticket| ticket.id).collect();
    assert_eq!(ids, std::slice::from_ref(&second), "what cannot be part of it is not offered");
    assert_eq!(offered(&person("vera")).await, []);

    // Exactly as approved: no smaller amount either.
    office.grant(&olga, &with_call(WantedCall { is_exact: true, ..shown })).await.unwrap();
    asks(&office, CLOSE, &json!({"to": "bob", "amount": 6})).await;
    assert_eq!(offered(&olga).await.len(), 1, "a ticket may be part of several plans");
}

#[tokio::test]
async fn what_a_plan_would_have_done_counts_the_calls_of_all_its_tools() {
    let office = office_of_two_tools().await;
    let first = approved(&office, "write", &json!({"to": "bob", "amount": 100})).await;
    let second = approved(&office, CLOSE, &json!({"to": "bob", "amount": 7})).await;
    office.refusal_of(request(&office, CLOSE, &json!({"to": "bob", "amount": 6}))).await;
    office.decide(&person("olga"), &office.ticket_id(), ApprovalVerdict::Deny).await.unwrap();
    office.refusal_of(request(&office, "write", &json!({"to": "bob", "amount": 6}))).await;
    let (engine, wanted) = (&office.harness.engine, office.wanted(&first, 20).await);
    let (approvals, settings) = (engine.approvals(), engine.authorities());
    for (wanted, expected) in [
        (wanted.clone(), GrantPreview { held: 2, covered: 2, ..GrantPreview::default() }),
        (
            with(&office, &wanted, &[&second]).await,
            GrantPreview { held: 4, covered: 4, denied: 1, denied_covered: 1, is_cut: false },
        ),
    ] {
        let (_, draft) = approvals.draft_grant(&person("olga"), &wanted, settings.approvals()).await.unwrap();
        assert_eq!(approvals.preview_grant(&draft).await.unwrap(), expected, "{}", draft.calls.len());
    }
}
