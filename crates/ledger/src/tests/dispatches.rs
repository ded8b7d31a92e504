//! Dispatches that use approvals: in every store, the effect, its record and the use of the approval are one write, or none of them is made.

use servanda_approval::{ApprovalUse, ApprovalVerdict, Ticket, TicketId, TicketReply, TicketState};
use servanda_contract::{CallId, tool::EffectClass};
use servanda_effects::{
    effect::{BeginRequest, Claim, DispatchEnd, EffectChange, EffectEvent, EffectReply, EffectState, EffectTarget},
    ticket_store::TicketTarget,
};
use tokio::task::JoinSet;

use super::{
    kept::Kept,
    samples::{about, answer, begin, begin_keyless, begun, claim_first, digest, key, mine, settled},
    ticket_samples::{USE_MS, approved, approver, ask, decide, denied, dispatch, happens, request, usage},
    tickets::Case,
};

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a dispatch and the use of its approval are one write", |kept| Box::pin(together(kept))),
    ("an approval that cannot be used leaves no effect and no record", |kept| Box::pin(neither(kept))),
    ("a claim is fenced with its approval, or stays a claim", |kept| Box::pin(fenced(kept))),
    ("a claim uses up no approval, and sending again does", |kept| Box::pin(claimed_again(kept))),
    ("the same use by the same call is made again", |kept| Box::pin(again(kept))),
    ("of many dispatches of one approval at three gateways, one is made", |kept| Box::pin(one_of_many(kept))),
    ("of many dispatches with one key, one is made, and the others see it", |kept| Box::pin(one_key(kept))),
    ("of many approvals for one key, one is used up", |kept| Box::pin(many_approvals(kept))),
    ("a key that is taken uses up no approval", |kept| Box::pin(taken_key(kept))),
    ("a refused dispatch takes no other with it", |kept| Box::pin(beside_others(kept))),
];

async fn state_of(kept: &Kept, ticket: &Ticket) -> TicketState {
    kept.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap().state
}

async fn together(kept: Kept) {
    let ticket = approved(&*kept.tickets, "pay").await;
    let applied = kept.effects.apply(dispatch("k", usage(&ticket, "call_k"))).await.unwrap();
    let claim = mine(applied.reply);
    let used = kept.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap().unwrap();
    assert_eq!(used.state, TicketState::Consumed);
    let consumption = used.consumed.unwrap();
    let says = (consumption.call_id.as_str(), consumption.effect_id.as_str(), consumption.warrant);
    assert_eq!(says, ("call_k", claim.id.as_str(), digest("warrant")));
    assert_eq!(kept.recorded().await, ["call_k"]);
    // The same call is another one now, and needs an approval of its own.
    let (reply, next) = ask(&*kept.tickets, request("pay")).await;
    assert_eq!((reply, next.continues), (TicketReply::Pending, None));
    // What was dispatched without an approval needs none.
    mine(kept.effects.apply(begun(begin("other"))).await.unwrap().reply);
}

/// Tries to dispatch, with a key and without one; nothing may come of it.
async fn refused(kept: &Kept, usage: ApprovalUse) -> TicketReply {
    let recorded = kept.recorded().await;
    let mut replies = Vec::new();
    for begin in [begin("refused"), begin_keyless("call_keyless")] {
        let change = EffectChange { consumes: Some(usage.clone()), ..begun(begin) };
        let target = change.target.clone();
        let applied = kept.effects.apply(change).await.unwrap();
        assert_eq!(applied.effect, None);
        assert_eq!(kept.effects.find(target).await.unwrap(), None, "no effect");
        assert_eq!(kept.recorded().await, recorded, "no record");
        let EffectReply::NotApproved(reply) = applied.reply else { panic!("{:?}", applied.reply) };
        replies.push(*reply);
    }
    assert_eq!(replies[0], replies[1]);
    replies.remove(0)
}

async fn neither(kept: Kept) {
    let tickets = &*kept.tickets;
    let ticket = approved(tickets, "pay").await;
    let changed = ApprovalUse { payload: digest("a changed payload"), ..usage(&ticket, "call_1") };
    assert_eq!(refused(&kept, changed).await, TicketReply::OtherPayload);
    let foreign = approved(tickets, "what somebody else wants").await;
    let with_foreign = ApprovalUse { payload: ticket.subject.payload, ..usage(&foreign, "call_1") };
    assert_eq!(refused(&kept, with_foreign).await, TicketReply::OtherPayload);
    for unknown in ["apr_x", "apr_\0", ""] {
        let unknown = ApprovalUse { ticket: TicketId::from(unknown.to_owned()), ..usage(&ticket, "call_1") };
        assert_eq!(refused(&kept, unknown).await, TicketReply::NotFound);
    }
    assert_eq!(
        (state_of(&kept, &ticket).await, state_of(&kept, &foreign).await),
        (TicketState::Approved, TicketState::Approved)
    );
    let (_, pending) = ask(tickets, request("pending")).await;
    assert_eq!(refused(&kept, usage(&pending, "call_1")).await, TicketReply::NotNow);
    let denied = denied(tickets, request("denied")).await;
    assert_eq!(refused(&kept, usage(&denied, "call_1")).await, TicketReply::NotNow);
    let used = approved(tickets, "used").await;
    mine(kept.effects.apply(dispatch("used", usage(&used, "call_used"))).await.unwrap().reply);
    assert_eq!(refused(&kept, usage(&used, "call_1")).await, TicketReply::NotNow, "an approval is used once");
    kept.advance(USE_MS + 1_000);
    assert_eq!(refused(&kept, usage(&ticket, "call_1")).await, TicketReply::Lapsed);
    assert_eq!(state_of(&kept, &ticket).await, TicketState::Lapsed);
    assert_eq!(refused(&kept, usage(&pending, "call_1")).await, TicketReply::NotNow);
    mine(kept.effects.apply(begun(begin("refused"))).await.unwrap().reply);
}

/// A claim may name the approval of its call. It is used up by the change that sends, be it the claim of an effect that was sent before.
async fn claimed_again(kept: Kept) {
    let claim = async |ticket: &Ticket| {
        let begin = BeginRequest { class: EffectClass::K, ..begin("k") };
        let change = EffectChange { consumes: Some(usage(ticket, "call_k")), ..begun(claim_first(begin)) };
        mine(kept.effects.apply(change).await.unwrap().reply)
    };
    let first = approved(&*kept.tickets, "first").await;
    let claimed = claim(&first).await;
    assert_eq!(state_of(&kept, &first).await, TicketState::Approved);
    let fence = about(&claimed, EffectEvent::Fence(claimed.clone()));
    mine(kept.effects.apply(EffectChange { consumes: Some(usage(&first, "call_k")), ..fence }).await.unwrap().reply);
    assert_eq!(state_of(&kept, &first).await, TicketState::Consumed);
    kept.effects.apply(settled(&claimed, DispatchEnd::Unknown("lost".to_owned()))).await.unwrap();
    let second = approved(&*kept.tickets, "second").await;
    claim(&second).await;
    assert_eq!(state_of(&kept, &second).await, TicketState::Consumed);
}

async fn fenced(kept: Kept) {
    let ticket = approved(&*kept.tickets, "pay").await;
    let claimed =
        async |client_key: &str| mine(kept.effects.apply(begun(claim_first(begin(client_key)))).await.unwrap().reply);
    let fence = |claim: &Claim, usage| EffectChange {
        consumes: Some(usage),
        ..about(claim, EffectEvent::Fence(claim.clone()))
    };
    let first = claimed("first").await;
    let other = ApprovalUse { payload: digest("a changed payload"), ..usage(&ticket, "call_first") };
    let applied = kept.effects.apply(fence(&first, other)).await.unwrap();
    assert_eq!(applied.reply, EffectReply::NotApproved(Box::new(TicketReply::OtherPayload)));
    assert_eq!(applied.effect.unwrap().state, EffectState::Claimed);
    let stored = kept.effects.find(EffectTarget::Id(first.id.clone())).await.unwrap().unwrap();
    assert_eq!(stored.state, EffectState::Claimed, "no byte may leave");
    let applied = kept.effects.apply(fence(&first, usage(&ticket, "call_first"))).await.unwrap();
    assert_eq!((mine(applied.reply), applied.effect.unwrap().state), (first.clone(), EffectState::Dispatching));
    assert_eq!(state_of(&kept, &ticket).await, TicketState::Consumed);
    // Another claim comes too late for this approval; a fence that is stale does not ask for it.
    let second = claimed("second").await;
    let applied = kept.effects.apply(fence(&second, usage(&ticket, "call_second"))).await.unwrap();
    assert_eq!(applied.reply, EffectReply::NotApproved(Box::new(TicketReply::NotNow)));
    let applied = kept.effects.apply(fence(&first, usage(&ticket, "call_first"))).await.unwrap();
    assert_eq!(applied.reply, EffectReply::Stale);
}

async fn again(kept: Kept) {
    let ticket = approved(&*kept.tickets, "pay").await;
    let used = || usage(&ticket, "call_k");
    let claim = mine(kept.effects.apply(dispatch("k", used())).await.unwrap().reply);
    // A caller whose answer was lost repeats its begin, and sees its own dispatch.
    let repeated = kept.effects.apply(dispatch("k", used())).await.unwrap().reply;
    assert!(matches!(repeated, EffectReply::Running { .. }), "{repeated:?}");
    // Nothing was sent, so the same call of the same effect goes on with the same approval; no other call does.
    kept.effects.apply(settled(&claim, DispatchEnd::NotExecuted("refused".to_owned()))).await.unwrap();
    let other = kept.effects.apply(dispatch("k", usage(&ticket, "call_other"))).await.unwrap();
    assert_eq!(other.reply, EffectReply::NotApproved(Box::new(TicketReply::NotNow)));
    assert_eq!(other.effect.unwrap().state, EffectState::FailedRetryable);
    let elsewhere = kept.effects.apply(dispatch("k2", used())).await.unwrap();
    assert_eq!(elsewhere.reply, EffectReply::NotApproved(Box::new(TicketReply::NotNow)), "nor another effect");
    assert_eq!(kept.effects.find(EffectTarget::Key(key("k2"))).await.unwrap(), None);
    let second = mine(kept.effects.apply(dispatch("k", used())).await.unwrap().reply);
    assert_eq!((second.id, second.epoch), (claim.id, claim.epoch + 1));
    assert_eq!(state_of(&kept, &ticket).await, TicketState::Consumed);
}

async fn one_of_many(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let ticket = approved(&*kept.tickets, "pay").await;
    let mut tasks = JoinSet::new();
    for number in 0..100 {
        let (effects, ticket) = (gateways[number % 3].effects.clone(), ticket.clone());
        tasks.spawn(async move {
            let client_key = format!("k{number}");
            let applied = effects.apply(dispatch(&client_key, usage(&ticket, &format!("call_{client_key}")))).await;
            match applied.unwrap().reply {
                EffectReply::Mine(_) => Some(client_key),
                EffectReply::NotApproved(reply) if *reply == TicketReply::NotNow => None,
                other => panic!("{other:?}"),
            }
        });
    }
    let won: Vec<String> = tasks.join_all().await.into_iter().flatten().collect();
    let [won] = &won[..] else { panic!("{won:?} were dispatched with one approval") };
    let mut dispatched = Vec::new();
    for number in 0..100 {
        let found = kept.effects.find(EffectTarget::Key(key(&format!("k{number}")))).await.unwrap();
        dispatched.extend(found.map(|effect| effect.call_id.to_string()));
    }
    assert_eq!(dispatched, [format!("call_{won}")]);
    assert_eq!(kept.recorded().await, dispatched);
    let used = kept.tickets.find_ticket(TicketTarget::Id(ticket.id)).await.unwrap().unwrap();
    assert_eq!(used.consumed.unwrap().call_id.as_str(), dispatched[0]);
}

async fn one_key(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    for round in 0..5 {
        let ticket = approved(&*kept.tickets, &format!("pay {round}")).await;
        let mut tasks = JoinSet::new();
        for number in 0..30 {
            let (effects, ticket) = (gateways[number % 3].effects.clone(), ticket.clone());
            tasks.spawn(async move {
                let call_id = CallId::from(format!("call_{round}_{number}"));
                let usage = usage(&ticket, call_id.as_str());
                let begin = BeginRequest { call_id, ..begin(&format!("k{round}")) };
                effects.apply(EffectChange { consumes: Some(usage), ..begun(begin) }).await.unwrap().reply
            });
        }
        let replies = tasks.join_all().await;
        let mine = replies.iter().filter(|reply| matches!(reply, EffectReply::Mine(_))).count();
        let running = replies.iter().filter(|reply| matches!(reply, EffectReply::Running { .. })).count();
        assert_eq!((mine, running), (1, 29), "{replies:?}");
    }
}

/// Calls with one key and an approval each: those that do not get the effect keep their approval.
async fn many_approvals(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    for round in 0..8 {
        let mut tickets = Vec::new();
        for number in 0..9 {
            tickets.push(approved(&*kept.tickets, &format!("pay {round} {number}")).await);
        }
        let mut tasks = JoinSet::new();
        for (number, ticket) in tickets.iter().enumerate() {
            let (effects, call_id) =
                (gateways[number % 3].effects.clone(), CallId::from(format!("call_{round}_{number}")));
            let usage = usage(ticket, call_id.as_str());
            let begin = BeginRequest { call_id, ..begin(&format!("k{round}")) };
            tasks.spawn(async move {
                let applied = effects.apply(EffectChange { consumes: Some(usage), ..begun(begin) }).await.unwrap();
                (number, applied.reply)
            });
        }
        let replies = tasks.join_all().await;
        let won: Vec<usize> = replies
            .iter()
            .filter(|(_, reply)| matches!(reply, EffectReply::Mine(_)))
            .map(|(number, _)| *number)
            .collect();
        let mut used = Vec::new();
        for (number, ticket) in tickets.iter().enumerate() {
            if state_of(&kept, ticket).await == TicketState::Consumed {
                used.push(number);
            }
        }
        assert_eq!((won.len(), &used), (1, &won), "an approval is used up only with its effect: {replies:?}");
    }
}

async fn taken_key(kept: Kept) {
    let ticket = approved(&*kept.tickets, "pay").await;
    let first = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    let reply = kept.effects.apply(dispatch("k", usage(&ticket, "call_k"))).await.unwrap().reply;
    assert!(matches!(reply, EffectReply::Running { .. }), "{reply:?}");
    kept.effects.apply(settled(&first, DispatchEnd::Completed(answer("paid")))).await.unwrap();
    let reply = kept.effects.apply(dispatch("k", usage(&ticket, "call_k"))).await.unwrap().reply;
    assert_eq!(reply, EffectReply::Replay(answer("paid")));
    let other = BeginRequest { request: digest("another payload"), ..begin("k") };
    let change = EffectChange { consumes: Some(usage(&ticket, "call_k")), ..begun(other) };
    assert_eq!(kept.effects.apply(change).await.unwrap().reply, EffectReply::Mismatch);
    assert_eq!(state_of(&kept, &ticket).await, TicketState::Approved);
}

async fn beside_others(kept: Kept) {
    let tickets = &*kept.tickets;
    let ticket = approved(tickets, "pay").await;
    let (_, pending) = ask(tickets, request("pending")).await;
    let mut tasks = JoinSet::new();
    for number in 0..60 {
        let (effects, ticket, pending) = (kept.effects.clone(), ticket.clone(), pending.clone());
        tasks.spawn(async move {
            let client_key = format!("k{number}");
            let change = match number % 3 {
                0 if number == 30 => dispatch(&client_key, usage(&ticket, "call_k30")),
                0 => dispatch(&client_key, usage(&pending, "call_pending")),
                _ => begun(begin(&client_key)),
            };
            (number, effects.apply(change).await.unwrap().reply)
        });
    }
    for (number, reply) in tasks.join_all().await {
        if number % 3 == 0 && number != 30 {
            assert_eq!(reply, EffectReply::NotApproved(Box::new(TicketReply::NotNow)), "{number}");
        } else {
            mine(reply);
        }
    }
    assert_eq!(kept.recorded().await.len(), 41);
    let event = decide(&pending, approver("bob"), ApprovalVerdict::Approve);
    assert_eq!(happens(tickets, &pending.id, event).await.reply, TicketReply::Approved, "it can still be approved");
}
