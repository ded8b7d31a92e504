//! Dispatches that draw on grants: in every store, the effect, its record and the draw are one write, and no grant is drawn on more often
//! than it says.

use servanda_approval::{
    ApprovalUse, ApprovalUseKind, ApprovalVerdict, CostCeiling, GrantEnd, GrantTerms, GrantedCall, SignedGrant, Ticket,
    TicketEvent, TicketReply, TicketState,
};
use servanda_contract::CallId;
use servanda_effects::{
    effect::{BeginRequest, DispatchEnd, EffectChange, EffectReply, EffectTarget},
    ticket_store::TicketTarget,
};
use tokio::task::JoinSet;

use super::{
    kept::Kept,
    samples::{HOUR_MS, answer, begin, begun, digest, key, mine, settled},
    ticket_samples::{approved, approver, decide, dispatch, happens, plan_request, request, usage},
    tickets::Case,
};

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a dispatch and the draw on its grant are one write", |kept| Box::pin(together(kept))),
    ("of many draws on a grant for one call at three gateways, one is made", |kept| Box::pin(many_draws(kept, 1))),
    ("of many draws on a grant for seven calls at three gateways, seven are made", |kept| {
        Box::pin(many_draws(kept, 7))
    }),
    ("many dispatches with one key draw once", |kept| Box::pin(one_key(kept))),
    ("a grant that was taken back is not drawn on at any gateway", |kept| Box::pin(taken_back(kept))),
    ("a revocation among draws ends them", |kept| Box::pin(revoked_among_draws(kept))),
    ("the calls of a grant have a number of times each and one revocation", |kept| Box::pin(plan(kept))),
    ("of many draws on two calls of one grant, each call gets as many as it has", |kept| Box::pin(many_of_two(kept))),
    ("many draws never take more than the money of a grant", |kept| Box::pin(money(kept))),
    ("a plan and its grant are approved in one write, or not at all", |kept| Box::pin(proposed(kept))),
    ("a call that a grant covers opens no ticket", |kept| Box::pin(covered(kept))),
];

/// A ticket with a grant for that many calls.
async fn granted(kept: &Kept, payload: &str, uses_max: u32) -> Ticket {
    let ticket = approved(&*kept.tickets, payload).await;
    granted_with(kept, ticket, uses_max, (Vec::new(), None)).await
}

async fn granted_with(
    kept: &Kept,
    ticket: Ticket,
    uses_max: u32,
    (others, cost_max): (Vec<GrantedCall>, Option<CostCeiling>),
) -> Ticket {
    let mut calls = vec![ticket.granted_call(ticket.proposed_bounds().unwrap(), uses_max)];
    calls.extend(others);
    let terms = GrantTerms { calls, cost_max, until_ms: ticket.created_ms + 24 * HOUR_MS };
    let maker = approver("bob");
    let grant = ticket.make_grant(terms, &maker, "console".to_owned(), ticket.created_ms);
    let (key_id, signature) = ("0123456789abcdef".to_owned(), "c2lnbmF0dXJl".to_owned());
    let grant = Box::new(SignedGrant { grant, key_id, signature });
    let applied = happens(&*kept.tickets, &ticket.id, TicketEvent::Grant { grant, approver: Box::new(maker) }).await;
    assert_eq!(applied.reply, TicketReply::Done);
    (*applied.ticket.unwrap()).clone()
}

fn draw(ticket: &Ticket, call_id: &str) -> ApprovalUse {
    draw_of(ticket, (0, 0), call_id)
}

/// A draw on one call of the grant, counted from zero, at a cost.
fn draw_of(ticket: &Ticket, (call, cost_micros): (usize, u64), call_id: &str) -> ApprovalUse {
    let warrant = ticket.grant.as_ref().unwrap().signed.digest();
    let payload = digest(call_id);
    ApprovalUse { kind: ApprovalUseKind::Grant { call, cost_micros }, payload, warrant, ..usage(ticket, call_id) }
}

fn revoke() -> TicketEvent {
    TicketEvent::Revoke { by: "olga".to_owned(), reason: "enough".to_owned() }
}

async fn drawn(kept: &Kept, ticket: &Ticket) -> Vec<String> {
    let found = kept.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap();
    let standing = found.grant.unwrap();
    standing.draws.iter().map(|draw| draw.call_id.to_string()).collect()
}

async fn together(kept: Kept) {
    let ticket = granted(&kept, "pay", 2).await;
    let claim = mine(kept.effects.apply(dispatch("k1", draw(&ticket, "call_k1"))).await.unwrap().reply);
    assert_eq!(kept.recorded().await, ["call_k1"]);
    let found = kept.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap();
    assert_eq!(found.state, ticket.state, "the approval of the call itself is not used");
    let draws = found.grant.unwrap().draws;
    assert_eq!((draws.len(), draws[0].effect_id.as_str()), (1, claim.id.as_str()));
    // The same effect again: its answer, and no further draw.
    kept.effects.apply(settled(&claim, DispatchEnd::Completed(answer("paid")))).await.unwrap();
    let again = kept.effects.apply(dispatch("k1", draw(&ticket, "call_k1"))).await.unwrap().reply;
    assert_eq!(again, EffectReply::Replay(answer("paid")));
    mine(kept.effects.apply(dispatch("k2", draw(&ticket, "call_k2"))).await.unwrap().reply);
    let refused = kept.effects.apply(dispatch("k3", draw(&ticket, "call_k3"))).await.unwrap();
    assert_eq!(refused.reply, EffectReply::NotApproved(Box::new(TicketReply::GrantEnded(GrantEnd::UsedUp))));
    assert_eq!(kept.effects.find(EffectTarget::Key(key("k3"))).await.unwrap(), None, "no effect");
    assert_eq!(kept.recorded().await, ["call_k1", "call_k2"], "no record");
    assert_eq!(drawn(&kept, &ticket).await, ["call_k1", "call_k2"]);
}

async fn plan(kept: Kept) {
    let elsewhere = kept.replica().await;
    let other = approved(&*kept.tickets, "refund").await;
    let others = vec![other.granted_call(other.proposed_bounds().unwrap(), 1)];
    let ticket = granted_with(&kept, approved(&*kept.tickets, "pay").await, 2, (others.clone(), None)).await;
    let found = elsewhere.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap();
    assert_eq!(found.grant, ticket.grant, "it is kept as it was signed");
    assert_eq!(found.grant.unwrap().signed.grant.calls[1..], others);
    let of_other = kept.tickets.find_ticket(TicketTarget::Id(other.id.clone())).await.unwrap().unwrap();
    assert_eq!(of_other.grant, None, "one place");
    // A refund and a payment, at two gateways: there is no second refund, and one more payment.
    let refund = |call_id| draw_of(&ticket, (1, 0), call_id);
    let ended = |end| EffectReply::NotApproved(Box::new(TicketReply::GrantEnded(end)));
    mine(kept.effects.apply(dispatch("k1", refund("call_refund"))).await.unwrap().reply);
    mine(elsewhere.effects.apply(dispatch("k2", draw(&ticket, "call_pay"))).await.unwrap().reply);
    let refused = elsewhere.effects.apply(dispatch("k3", refund("call_again"))).await.unwrap().reply;
    assert_eq!(refused, ended(GrantEnd::UsedUp));
    mine(kept.effects.apply(dispatch("k4", draw(&ticket, "call_pay_2"))).await.unwrap().reply);
    assert_eq!(drawn(&elsewhere, &ticket).await, ["call_refund", "call_pay", "call_pay_2"]);
    assert_eq!(happens(&*kept.tickets, &ticket.id, revoke()).await.reply, TicketReply::Done);
    let late = elsewhere.effects.apply(dispatch("k5", draw(&ticket, "call_late"))).await.unwrap().reply;
    assert_eq!(late, ended(GrantEnd::Revoked));
}

async fn many_of_two(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let other = approved(&*kept.tickets, "refund").await;
    let others = vec![other.granted_call(other.proposed_bounds().unwrap(), 3)];
    let ticket = granted_with(&kept, approved(&*kept.tickets, "pay").await, 5, (others, None)).await;
    let mut tasks = JoinSet::new();
    for number in 0..40 {
        let (effects, ticket) = (gateways[number % 3].effects.clone(), ticket.clone());
        tasks.spawn(async move {
            let usage = draw_of(&ticket, (number % 2, 0), &format!("call_k{number}"));
            let reply = effects.apply(dispatch(&format!("k{number}"), usage)).await.unwrap().reply;
            matches!(reply, EffectReply::Mine(_)).then_some(number % 2)
        });
    }
    let won: Vec<usize> = tasks.join_all().await.into_iter().flatten().collect();
    let of = |call: usize| won.iter().filter(|won| **won == call).count();
    assert_eq!((of(0), of(1), drawn(&kept, &ticket).await.len()), (5, 3, 8));
}

async fn money(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let cost_max = Some(CostCeiling::read("1.00 EUR").unwrap());
    let ticket = granted_with(&kept, approved(&*kept.tickets, "pay").await, 100, (Vec::new(), cost_max)).await;
    let mut tasks = JoinSet::new();
    for number in 0..40 {
        let (effects, ticket) = (gateways[number % 3].effects.clone(), ticket.clone());
        tasks.spawn(async move {
            let usage = draw_of(&ticket, (0, 300_000), &format!("call_k{number}"));
            match effects.apply(dispatch(&format!("k{number}"), usage)).await.unwrap().reply {
                EffectReply::Mine(_) => true,
                EffectReply::NotApproved(reply) if *reply == TicketReply::GrantEnded(GrantEnd::Spent) => false,
                other => panic!("{other:?}"),
            }
        });
    }
    let won = tasks.join_all().await.into_iter().filter(|won| *won).count();
    let found = kept.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap();
    let standing = found.grant.unwrap();
    assert_eq!((won, standing.draws.len(), standing.spent_micros()), (3, 3, 900_000));
}

async fn proposed(kept: Kept) {
    let elsewhere = kept.replica().await;
    let asked = plan_request();
    let target = TicketTarget::Key(asked.key);
    let opened = kept.tickets.apply_ticket(target, TicketEvent::Request(Box::new(asked))).await.unwrap();
    let (ticket, maker) = ((*opened.ticket.unwrap()).clone(), approver("bob"));
    let at_ms = ticket.created_ms;
    let grant = ticket.make_plan_grant(&maker, "console".to_owned(), (at_ms, at_ms + 24 * HOUR_MS)).unwrap();
    let signed = SignedGrant { grant, key_id: "0123456789abcdef".to_owned(), signature: "c2lnbmF0dXJl".to_owned() };
    let with = |grant: Option<SignedGrant>| {
        let TicketEvent::Decide { decision, approver, .. } = decide(&ticket, maker.clone(), ApprovalVerdict::Approve)
        else {
            panic!("a decision")
        };
        TicketEvent::Decide { decision, approver, grant: grant.map(Box::new) }
    };
    let mut wider = signed.clone();
    wider.grant.calls[0].uses_max += 1;
    for (grant, expected) in [(None, TicketReply::NotNow), (Some(wider), TicketReply::OtherPayload)] {
        assert_eq!(happens(&*kept.tickets, &ticket.id, with(grant)).await.reply, expected);
        let found = elsewhere.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap();
        assert_eq!(found, ticket, "neither the decision nor a grant");
    }
    let applied = happens(&*kept.tickets, &ticket.id, with(Some(signed.clone()))).await;
    assert_eq!(applied.reply, TicketReply::Approved);
    let found = elsewhere.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap();
    assert_eq!((found.state, found.grant.as_ref().map(|grant| &grant.signed)), (TicketState::Approved, Some(&signed)));
    mine(elsewhere.effects.apply(dispatch("k1", draw(&found, "call_k1"))).await.unwrap().reply);
    assert_eq!(drawn(&kept, &found).await, ["call_k1"]);
}

async fn many_draws(kept: Kept, uses_max: u32) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let ticket = granted(&kept, "pay", uses_max).await;
    let mut tasks = JoinSet::new();
    for number in 0..60 {
        let (effects, ticket) = (gateways[number % 3].effects.clone(), ticket.clone());
        tasks.spawn(async move {
            let client_key = format!("k{number}");
            let usage = draw(&ticket, &format!("call_{client_key}"));
            match effects.apply(dispatch(&client_key, usage)).await.unwrap().reply {
                EffectReply::Mine(_) => Some(format!("call_{client_key}")),
                EffectReply::NotApproved(reply) if *reply == TicketReply::GrantEnded(GrantEnd::UsedUp) => None,
                other => panic!("{other:?}"),
            }
        });
    }
    let mut won: Vec<String> = tasks.join_all().await.into_iter().flatten().collect();
    let (mut draws, mut recorded) = (drawn(&kept, &ticket).await, kept.recorded().await);
    for calls in [&mut won, &mut draws, &mut recorded] {
        calls.sort();
    }
    assert_eq!(won.len(), usize::try_from(uses_max).unwrap());
    assert_eq!((&draws, &recorded), (&won, &won));
}

async fn one_key(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let ticket = granted(&kept, "pay", 20).await;
    let mut tasks = JoinSet::new();
    for number in 0..30 {
        let (effects, ticket) = (gateways[number % 3].effects.clone(), ticket.clone());
        tasks.spawn(async move {
            let call_id = CallId::from(format!("call_{number}"));
            let usage = ApprovalUse { payload: digest("one"), ..draw(&ticket, call_id.as_str()) };
            let begin = BeginRequest { call_id, ..begin("k") };
            effects.apply(EffectChange { consumes: Some(usage), ..begun(begin) }).await.unwrap().reply
        });
    }
    let replies = tasks.join_all().await;
    let mine = replies.iter().filter(|reply| matches!(reply, EffectReply::Mine(_))).count();
    assert_eq!((mine, drawn(&kept, &ticket).await.len()), (1, 1), "{replies:?}");
}

async fn taken_back(kept: Kept) {
    let elsewhere = kept.replica().await;
    let ticket = granted(&kept, "pay", 20).await;
    mine(elsewhere.effects.apply(dispatch("k1", draw(&ticket, "call_k1"))).await.unwrap().reply);
    assert_eq!(happens(&*kept.tickets, &ticket.id, revoke()).await.reply, TicketReply::Done);
    let ended = EffectReply::NotApproved(Box::new(TicketReply::GrantEnded(GrantEnd::Revoked)));
    for gateway in [&kept, &elsewhere] {
        assert_eq!(gateway.effects.apply(dispatch("k2", draw(&ticket, "call_k2"))).await.unwrap().reply, ended);
    }
    assert_eq!(drawn(&elsewhere, &ticket).await, ["call_k1"], "what was drawn stays");
}

async fn revoked_among_draws(kept: Kept) {
    let elsewhere = kept.replica().await;
    let ticket = granted(&kept, "pay", 100).await;
    let mut tasks = JoinSet::new();
    for number in 0..40 {
        let (kept, effects, ticket) = (kept.clone(), elsewhere.effects.clone(), ticket.clone());
        tasks.spawn(async move {
            if number == 20 {
                kept.tickets.apply_ticket(TicketTarget::Id(ticket.id.clone()), revoke()).await.unwrap();
                return None;
            }
            let client_key = format!("k{number}");
            let usage = draw(&ticket, &format!("call_{client_key}"));
            let reply = effects.apply(dispatch(&client_key, usage)).await.unwrap().reply;
            matches!(reply, EffectReply::Mine(_)).then(|| format!("call_{client_key}"))
        });
    }
    let mut won: Vec<String> = tasks.join_all().await.into_iter().flatten().collect();
    let mut draws = drawn(&kept, &ticket).await;
    won.sort();
    draws.sort();
    assert_eq!(draws, won, "neither the revocation nor a draw was lost");
    let found = kept.tickets.find_ticket(TicketTarget::Id(ticket.id)).await.unwrap().unwrap();
    assert!(found.grant.unwrap().revoked.is_some());
}

async fn covered(kept: Kept) {
    let asked = request("covered");
    let target = TicketTarget::Key(asked.key);
    let cover = TicketEvent::Cover(Box::new(asked.clone()));
    let applied = kept.tickets.apply_ticket(target.clone(), cover.clone()).await.unwrap();
    assert_eq!((applied.reply, applied.ticket), (TicketReply::Covered, None));
    assert_eq!(kept.tickets.find_ticket(target.clone()).await.unwrap(), None);
    let wrong = TicketTarget::Key(request("other").key);
    assert!(kept.tickets.apply_ticket(wrong, cover.clone()).await.is_err(), "it names the key of its call");
    // One that waits is answered by the grant.
    kept.tickets.apply_ticket(target.clone(), TicketEvent::Request(Box::new(asked))).await.unwrap();
    let applied = kept.tickets.apply_ticket(target, cover).await.unwrap();
    assert_eq!(applied.reply, TicketReply::Covered);
    assert_eq!(applied.ticket.unwrap().state, servanda_approval::TicketState::Superseded);
}
