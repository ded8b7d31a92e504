//! Tickets over time in durable stores: clocks that jump, stores that were stopped, restarts, retention, damage.

use servanda_approval::{ApprovalVerdict, DENIAL_HOLD_MS, Ticket, TicketEvent, TicketId, TicketReply, TicketState};
use servanda_contract::Timestamp;
use servanda_effects::{
    effect::EffectReply,
    ticket_store::{TicketQuery, TicketTarget},
};

use super::{
    kept::{Kept, Place},
    samples::HOUR_MS,
    ticket_samples::{USE_MS, approved, approver, ask, decide, denied, dispatch, happens, request, usage},
    tickets::Case,
};
use crate::{LedgerLimits, Retention, retention::PRUNED_MAX};

/// The suite of stores that outlive their process.
pub(super) const DURABLE_CASES: &[(&str, Case)] = &[
    ("a clock that jumps ahead ends tickets, and going back revives none", |kept| Box::pin(ahead(kept))),
    ("a clock that is set back does not make tickets last longer", |kept| Box::pin(back(kept))),
    ("a store that was stopped over the deadline approves nothing", |kept| Box::pin(stopped(kept))),
    ("a restart keeps tickets, and gateways see each other's", |kept| Box::pin(restart(kept))),
    ("the latest ticket of a key is the one opened last, whatever its id", |kept| Box::pin(latest(kept))),
    ("tickets that are over are removed, and no others", |kept| Box::pin(retention(kept))),
    ("a store without room opens no tickets", |kept| Box::pin(out_of_room(kept))),
];

const AN_HOUR: i64 = 3_600_000;

/// Tries to dispatch with an approval. Returns the ticket's reply if it cannot be used.
async fn use_up(kept: &Kept, ticket: &Ticket, client_key: &str) -> Option<TicketReply> {
    match kept.effects.apply(dispatch(client_key, usage(ticket, "call_1"))).await.unwrap().reply {
        EffectReply::Mine(_) => None,
        EffectReply::NotApproved(reply) => Some(*reply),
        other => panic!("{other:?}"),
    }
}

async fn late_decision(kept: &Kept, ticket: &Ticket) -> TicketReply {
    let event = decide(ticket, approver("bob"), ApprovalVerdict::Approve);
    happens(&*kept.tickets, &ticket.id, event).await.reply
}

async fn ahead(kept: Kept) {
    let tickets = &*kept.tickets;
    let (_, undecided) = ask(tickets, request("undecided")).await;
    let unused = approved(tickets, "unused").await;
    kept.jump(AN_HOUR + 1_000);
    assert_eq!(tickets.due_tickets(9).await.unwrap().len(), 2);
    assert_eq!(late_decision(&kept, &undecided).await, TicketReply::NotNow);
    assert_eq!(use_up(&kept, &unused, "k1").await, Some(TicketReply::Lapsed));
    kept.jump(-AN_HOUR - 1_000);
    assert_eq!(late_decision(&kept, &undecided).await, TicketReply::NotNow, "what is over stays over");
    assert_eq!(use_up(&kept, &unused, "k2").await, Some(TicketReply::Lapsed));
    assert_eq!(ask(tickets, request("undecided")).await.0, TicketReply::NobodyDecided);
    // A jump in each direction that nothing saw.
    let fresh = approved(tickets, "fresh").await;
    kept.jump(AN_HOUR);
    kept.jump(-AN_HOUR);
    assert_eq!(use_up(&kept, &fresh, "k3").await, None);
}

async fn back(kept: Kept) {
    let tickets = &*kept.tickets;
    let (_, undecided) = ask(tickets, request("undecided")).await;
    let unused = approved(tickets, "unused").await;
    kept.jump(-AN_HOUR);
    assert_eq!(ask(tickets, request("undecided")).await.0, TicketReply::Pending);
    kept.advance(USE_MS + 1_000);
    let due: Vec<TicketId> = tickets.due_tickets(9).await.unwrap().into_iter().map(|ticket| ticket.id).collect();
    assert_eq!(due, std::slice::from_ref(&unused.id), "ledger time goes on");
    assert_eq!(use_up(&kept, &unused, "k1").await, Some(TicketReply::Lapsed));
    kept.advance(HOUR_MS);
    assert_eq!(happens(tickets, &undecided.id, TicketEvent::Tick).await.reply, TicketReply::Done);
    assert_eq!(late_decision(&kept, &undecided).await, TicketReply::NotNow);
    kept.jump(AN_HOUR);
    assert_eq!(late_decision(&kept, &undecided).await, TicketReply::NotNow);
}

async fn stopped(kept: Kept) {
    let (_, undecided) = ask(&*kept.tickets, request("undecided")).await;
    let unused = approved(&*kept.tickets, "unused").await;
    kept.ledger().close().await;
    let again = kept.replica().await;
    again.jump(2 * AN_HOUR);
    assert_eq!(late_decision(&again, &undecided).await, TicketReply::NotNow);
    assert_eq!(use_up(&again, &unused, "k1").await, Some(TicketReply::Lapsed));
    for (payload, reply) in [("undecided", TicketReply::NobodyDecided), ("unused", TicketReply::Lapsed)] {
        assert_eq!(ask(&*again.tickets, request(payload)).await.0, reply);
        assert_eq!(ask(&*again.tickets, request(payload)).await.0, TicketReply::Pending);
    }
}

async fn restart(kept: Kept) {
    let other = kept.replica().await;
    let unused = approved(&*kept.tickets, "unused").await;
    let denied = denied(&*other.tickets, request("denied")).await;
    let (_, open) = ask(&*kept.tickets, request("open")).await;
    // Not closed: what was acknowledged is durable without closing.
    let again = kept.replica().await;
    for ticket in [unused, denied, open] {
        for gateway in [&kept, &other, &again] {
            let found = gateway.tickets.find_ticket(TicketTarget::Id(ticket.id.clone())).await.unwrap();
            assert_eq!(found.as_ref(), Some(&ticket));
        }
    }
}

/// Ids are made by gateways, whose clocks may differ by hours.
async fn latest(kept: Kept) {
    let tickets = &*kept.tickets;
    let mut ahead = request("pay");
    ahead.id = TicketId::from("apr_z".to_owned());
    let (_, first) = ask(tickets, ahead).await;
    assert_eq!(late_decision(&kept, &first).await, TicketReply::Approved);
    assert_eq!(use_up(&kept, &first, "k1").await, None);
    let mut behind = request("pay");
    behind.id = TicketId::from("apr_a".to_owned());
    let (reply, second) = ask(tickets, behind.clone()).await;
    assert_eq!((reply, second.id.as_str()), (TicketReply::Pending, "apr_a"));
    let (reply, joined) = ask(tickets, request("pay")).await;
    assert_eq!((reply, joined.id.as_str()), (TicketReply::Pending, "apr_a"), "the open ticket is found");
}

async fn retention(kept: Kept) {
    let tickets = &*kept.tickets;
    let rounds = PRUNED_MAX + 20;
    let mut over = Vec::new();
    for number in 0..rounds {
        let (_, ticket) = ask(tickets, request(&format!("superseded {number}"))).await;
        let event = TicketEvent::Supersede { reason: "a test".to_owned() };
        over.push(happens(tickets, &ticket.id, event).await.ticket.unwrap().id.clone());
    }
    let denied = denied(tickets, request("denied")).await;
    let mut open = request("open");
    open.demand.decide_within_ms = 30 * 24 * HOUR_MS;
    let (_, open) = ask(tickets, open).await;
    let prune = async |records_ms: Option<u64>| {
        let retention = Retention { records_ms, tombstones_ms: None };
        kept.ledger().prune(retention, Timestamp::from_unix_ms(0)).await.unwrap()
    };
    let is_there = async |id: &TicketId| tickets.find_ticket(TicketTarget::Id(id.clone())).await.unwrap().is_some();
    assert_eq!(prune(Some(1)).await.tickets, 0, "a denial is remembered for as long as it holds");
    kept.advance(DENIAL_HOLD_MS + 1_000);
    assert_eq!(prune(None).await.tickets, 0, "forever");
    assert_eq!(prune(Some(2 * DENIAL_HOLD_MS)).await.tickets, 0);
    let first = prune(Some(1)).await;
    assert_eq!((first.tickets, first.is_behind), (u64::from(PRUNED_MAX), true), "a round is small");
    assert!(!is_there(&over[0]).await && is_there(&denied.id).await, "the oldest first");
    let rest = prune(Some(1)).await;
    assert_eq!((rest.tickets, rest.is_behind), (21, false));
    assert!(!is_there(&denied.id).await);
    kept.advance(7 * 24 * HOUR_MS);
    assert_eq!(prune(Some(1)).await.tickets, 0);
    assert!(is_there(&open.id).await, "what is open is not over");
}

async fn out_of_room(kept: Kept) {
    if matches!(kept.place, Place::Server(..)) {
        // The server's disk is not seen from here, and its size is only read with a beat.
        return;
    }
    let (tickets, ledger) = (&*kept.tickets, kept.ledger());
    let (_, waits) = ask(tickets, request("waits")).await;
    ledger.set_limits(LedgerLimits { bytes_max: Some(1), ..LedgerLimits::default() }).await.unwrap();
    let request_of = |payload: &str| {
        let request = request(payload);
        (TicketTarget::Key(request.key), TicketEvent::Request(Box::new(request)))
    };
    let (target, event) = request_of("another");
    assert!(tickets.apply_ticket(target, event).await.is_err());
    assert_eq!(late_decision(&kept, &waits).await, TicketReply::Approved, "what is open goes on");
    ledger.set_limits(LedgerLimits::default()).await.unwrap();
    let query = TicketQuery { tenant: None, states: vec![TicketState::Pending], before: None, limit: 9 };
    assert_eq!(tickets.list_tickets(query).await.unwrap(), []);
    let (target, event) = request_of("another");
    assert_eq!(tickets.apply_ticket(target, event).await.unwrap().reply, TicketReply::Pending);
}
