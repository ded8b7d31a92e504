//! What every store of tickets has to do: the one in memory, the file, the shared database.

use std::{collections::BTreeSet, future::Future, pin::Pin};

use servanda_approval::{
    ApprovalVerdict, DENIALS_IN_A_ROW_MAX, DENIALS_IN_RUN_MAX, EscalationTier, Ineligible, SignedDecision, Ticket,
    TicketEvent, TicketId, TicketKey, TicketNotice, TicketNoticeKind, TicketReply, TicketRequest, TicketState,
    due_notice,
};
use servanda_contract::Caller;
use servanda_effects::{
    TicketStore,
    ticket_store::{TICKETS_PAGE_MAX, TicketQuery, TicketTarget},
};
use tokio::task::JoinSet;

use super::{
    kept::{Kept, Place},
    samples::{HOUR_MS, digest},
    ticket_samples::{USE_MS, approved, approver, ask, decide, demand, denied, happens, request, usage},
};

pub(super) type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a request opens a ticket, and the next one joins it", |kept| Box::pin(open_and_join(kept))),
    ("of requests at three gateways at once, one opens the ticket", |kept| Box::pin(three_gateways(kept))),
    ("two people approve, and one person is not two", |kept| Box::pin(quorum(kept))),
    ("of decisions at once, no more count than are needed", |kept| Box::pin(decisions_at_once(kept))),
    ("time ends a ticket; that is told once, and then there is a new one", |kept| Box::pin(time_over(kept))),
    ("a denial holds for an hour", |kept| Box::pin(denial(kept))),
    ("denials in a row stop a run", |kept| Box::pin(denials_in_a_row(kept))),
    ("many denials stop a run, in a row or not", |kept| Box::pin(many_denials(kept))),
    ("another contract supersedes the ticket", |kept| Box::pin(superseded(kept))),
    ("tickets that are due are found, the most overdue first", |kept| Box::pin(due(kept))),
    ("lists have what was asked for, newest first, without arguments", |kept| Box::pin(lists(kept))),
    ("names of any kind come back as they were", |kept| Box::pin(strange_names(kept))),
    ("events that only a dispatch makes are refused", |kept| Box::pin(refused_events(kept))),
    ("the same events come to the same as in memory", |kept| Box::pin(as_in_memory(kept))),
];

async fn open_and_join(kept: Kept) {
    let tickets = &*kept.tickets;
    let target = TicketTarget::Key(request("pay").key);
    assert_eq!(tickets.find_ticket(target).await.unwrap(), None);
    let first = request("pay");
    let (reply, ticket) = ask(tickets, first.clone()).await;
    assert_eq!((reply, &ticket.id, ticket.state), (TicketReply::Pending, &first.id, TicketState::Pending));
    assert_eq!((&ticket.subject, &ticket.demand), (&first.subject, &first.demand), "with its arguments");
    let (reply, joined) = ask(tickets, request("pay")).await;
    assert_eq!((reply, joined), (TicketReply::Pending, ticket.clone()));
    let (_, other) = ask(tickets, request("another payload")).await;
    assert_ne!(other.id, ticket.id);
    assert_eq!(tickets.find_ticket(TicketTarget::Id(TicketId::from("apr_x\0'".to_owned()))).await.unwrap(), None);
    let nobodys = TicketTarget::Id(TicketId::from("apr_\0".to_owned()));
    assert_eq!(tickets.apply_ticket(nobodys, TicketEvent::Tick).await.unwrap().reply, TicketReply::NotFound);
}

async fn three_gateways(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let mut tasks = JoinSet::new();
    for number in 0..120 {
        let tickets = gateways[number % 3].tickets.clone();
        tasks.spawn(async move {
            let request = request(&format!("payload {}", number / 12));
            let (own, key) = (request.id.clone(), request.key);
            let event = TicketEvent::Request(Box::new(request));
            let applied = tickets.apply_ticket(TicketTarget::Key(key), event).await.unwrap();
            assert_eq!(applied.reply, TicketReply::Pending);
            let id = applied.ticket.unwrap().id.clone();
            (key, id.clone(), id == own)
        });
    }
    let asked = tasks.join_all().await;
    let opened = asked.iter().filter(|(_, _, is_opened)| *is_opened).count();
    let distinct: BTreeSet<(TicketKey, TicketId)> = asked.into_iter().map(|(key, id, _)| (key, id)).collect();
    assert_eq!((opened, distinct.len()), (10, 10), "every payload has one ticket");
    assert_eq!(kept.tickets.count_pending(None, 100).await.unwrap(), 10);
}

async fn quorum(kept: Kept) {
    let tickets = &*kept.tickets;
    let (_, ticket) = ask(tickets, TicketRequest { demand: demand(2), ..request("pay") }).await;
    let decided =
        async |name: &str, verdict| happens(tickets, &ticket.id, decide(&ticket, approver(name), verdict)).await.reply;
    let not = |ineligible| TicketReply::NotEligible(ineligible);
    let approve = ApprovalVerdict::Approve;
    assert_eq!(decided("ada", approve).await, not(Ineligible::OwnRequest));
    assert_eq!(decided("bot", approve).await, not(Ineligible::OwnRequest), "nor does the agent decide");
    assert_eq!(decided("bob", approve).await, TicketReply::Recorded { missing: 1 });
    assert_eq!(decided("bob", approve).await, not(Ineligible::DecidedAlready));
    assert_eq!(ask(tickets, TicketRequest { demand: demand(2), ..request("pay") }).await.0, TicketReply::Pending);
    assert_eq!(decided("eve", approve).await, TicketReply::Approved);
    assert_eq!(decided("kim", ApprovalVerdict::Deny).await, TicketReply::NotNow);
    let (reply, taken_up) = ask(tickets, TicketRequest { demand: demand(2), ..request("pay") }).await;
    assert_eq!((reply, taken_up.approvals()), (TicketReply::Approved, 2));
    // Decisions about something else than the ticket.
    let (_, other) = ask(tickets, request("other")).await;
    let shown_another = Ticket { subject: ticket.subject.clone(), ..other.clone() };
    let event = decide(&shown_another, approver("bob"), approve);
    assert_eq!(happens(tickets, &other.id, event).await.reply, TicketReply::OtherPayload);
    let stranger = servanda_approval::Approver { tenant: "umbrella".to_owned(), ..approver("bob") };
    let event = decide(&other, stranger, approve);
    assert_eq!(happens(tickets, &other.id, event).await.reply, TicketReply::NotFound);
}

async fn decisions_at_once(kept: Kept) {
    let gateways = [kept.clone(), kept.replica().await, kept.replica().await];
    let (_, ticket) = ask(&*kept.tickets, TicketRequest { demand: demand(2), ..request("pay") }).await;
    let mut tasks = JoinSet::new();
    for number in 0..30 {
        let (tickets, ticket) = (gateways[number % 3].tickets.clone(), ticket.clone());
        tasks.spawn(async move {
            // Every person decides three times, at three gateways.
            let event = decide(&ticket, approver(&format!("person {}", number / 3)), ApprovalVerdict::Approve);
            tickets.apply_ticket(TicketTarget::Id(ticket.id.clone()), event).await.unwrap().reply
        });
    }
    let replies = tasks.join_all().await;
    let count = |wanted: &TicketReply| replies.iter().filter(|reply| *reply == wanted).count();
    assert_eq!((count(&TicketReply::Recorded { missing: 1 }), count(&TicketReply::Approved)), (1, 1));
    let stored = kept.tickets.find_ticket(TicketTarget::Id(ticket.id)).await.unwrap().unwrap();
    let people: BTreeSet<&str> = stored.decisions.iter().map(approver_of).collect();
    assert_eq!((stored.decisions.len(), people.len()), (2, 2));
}

fn approver_of(signed: &SignedDecision) -> &str {
    &signed.decision.approver
}

async fn time_over(kept: Kept) {
    let tickets = &*kept.tickets;
    let (_, undecided) = ask(tickets, request("undecided")).await;
    kept.advance(HOUR_MS + 1_000);
    let late = decide(&undecided, approver("bob"), ApprovalVerdict::Approve);
    assert_eq!(happens(tickets, &undecided.id, late).await.reply, TicketReply::NotNow, "time never approves");
    let (reply, told) = ask(tickets, request("undecided")).await;
    assert_eq!((reply, told.state, &told.id), (TicketReply::NobodyDecided, TicketState::AutoDenied, &undecided.id));
    let (reply, next) = ask(tickets, request("undecided")).await;
    assert_eq!((reply, next.continues), (TicketReply::Pending, Some(undecided.id)));
    // The same for an approval that was not used.
    let unused = approved(tickets, "unused").await;
    kept.advance(USE_MS + 1_000);
    let (reply, told) = ask(tickets, request("unused")).await;
    assert_eq!((reply, told.state, &told.id), (TicketReply::Lapsed, TicketState::Lapsed, &unused.id));
    let (reply, next) = ask(tickets, request("unused")).await;
    assert_eq!((reply, next.continues), (TicketReply::Pending, Some(unused.id)));
}

async fn denial(kept: Kept) {
    let tickets = &*kept.tickets;
    let ticket = denied(tickets, request("pay")).await;
    kept.advance(HOUR_MS - 60_000);
    let (reply, same) = ask(tickets, request("pay")).await;
    let until_ms = ticket.decided_ms.unwrap() + HOUR_MS;
    assert_eq!((reply, &same.id), (TicketReply::Denied { until_ms }, &ticket.id));
    kept.advance(61_000);
    let (reply, next) = ask(tickets, request("pay")).await;
    assert_eq!((reply, next.continues), (TicketReply::Pending, Some(ticket.id)));
}

/// A request whose run is stopped; there is no ticket of it.
async fn stopped(tickets: &dyn TicketStore, request: TicketRequest) -> bool {
    let (target, event) = (TicketTarget::Key(request.key), TicketEvent::Request(Box::new(request)));
    let applied = tickets.apply_ticket(target, event).await.unwrap();
    let is_stopped = matches!(applied.reply, TicketReply::RunStopped { .. });
    assert_eq!(is_stopped, applied.ticket.is_none());
    is_stopped
}

fn of_run(run: &str, payload: &str) -> TicketRequest {
    let mut request = request(payload);
    request.subject.run = run.to_owned();
    request
}

async fn denials_in_a_row(kept: Kept) {
    let tickets = &*kept.tickets;
    for number in 0..DENIALS_IN_A_ROW_MAX - 1 {
        denied(tickets, request(&format!("denied {number}"))).await;
        kept.advance(1_000);
    }
    approved(tickets, "approved between").await;
    for number in 0..DENIALS_IN_A_ROW_MAX {
        kept.advance(1_000);
        assert!(!stopped(tickets, request(&format!("asked {number}"))).await, "an approval began a new row");
        denied(tickets, request(&format!("asked {number}"))).await;
    }
    assert!(stopped(tickets, request("one more")).await);
    assert!(!stopped(tickets, of_run("another run", "one more there")).await);
    let mut elsewhere = request("one more elsewhere");
    elsewhere.subject.tenant = "umbrella".to_owned();
    assert!(!stopped(tickets, elsewhere).await, "a run of the same name of another tenant");
    kept.advance(HOUR_MS + 1_000);
    assert!(!stopped(tickets, request("one more")).await, "it may ask again when the denials hold no longer");
}

async fn many_denials(kept: Kept) {
    let tickets = &*kept.tickets;
    for number in 0..DENIALS_IN_RUN_MAX {
        approved(tickets, &format!("yes {number}")).await;
        kept.advance(10);
        denied(tickets, request(&format!("no {number}"))).await;
        kept.advance(10);
    }
    assert!(stopped(tickets, request("one more")).await);
}

async fn superseded(kept: Kept) {
    let tickets = &*kept.tickets;
    for (payload, is_approved) in [("pending", false), ("approved", true)] {
        let before =
            if is_approved { approved(tickets, payload).await } else { ask(tickets, request(payload)).await.1 };
        let mut newer = request(payload);
        newer.subject.payload = digest("the same arguments under another contract");
        newer.subject.contract_digest = digest("another contract");
        let (reply, ticket) = ask(tickets, newer.clone()).await;
        assert_eq!((reply, ticket.continues.as_ref()), (TicketReply::Pending, Some(&before.id)));
        let old = tickets.find_ticket(TicketTarget::Id(before.id.clone())).await.unwrap().unwrap();
        assert_eq!(old.state, TicketState::Superseded);
        let late = decide(&before, approver("eve"), ApprovalVerdict::Approve);
        assert_eq!(happens(tickets, &before.id, late).await.reply, TicketReply::NotNow);
        assert_eq!(ask(tickets, newer).await.1.id, ticket.id);
    }
    let taken_back = approved(tickets, "taken back").await;
    let event = TicketEvent::Supersede { reason: "bob left".to_owned() };
    assert_eq!(happens(tickets, &taken_back.id, event.clone()).await.reply, TicketReply::Done);
    assert_eq!(happens(tickets, &taken_back.id, event).await.reply, TicketReply::Unchanged);
    assert_eq!(ask(tickets, request("taken back")).await.0, TicketReply::Pending);
}

async fn due(kept: Kept) {
    let tickets = &*kept.tickets;
    let found = async |limit| -> Vec<TicketId> {
        tickets.due_tickets(limit).await.unwrap().into_iter().map(|ticket| ticket.id).collect()
    };
    let unused = approved(tickets, "unused").await;
    let (_, undecided) = ask(tickets, request("undecided")).await;
    let mut escalated = request("escalated");
    let groups: BTreeSet<String> = ["managers".to_owned()].into();
    escalated.demand.escalation = vec![EscalationTier { after_percent: 50, groups }];
    let (_, escalated) = ask(tickets, escalated).await;
    let refused = denied(tickets, request("denied")).await;
    assert_eq!(found(100).await, [unused.id.clone(), refused.id.clone()], "people are told what it came to");
    for ticket in [&unused, &refused, &undecided, &escalated] {
        tell(tickets, ticket).await;
    }
    assert!(found(100).await.is_empty());
    kept.advance(USE_MS + 1_000);
    assert_eq!(found(100).await, std::slice::from_ref(&unused.id), "an approval that can no longer be used");
    kept.advance(HOUR_MS / 2);
    assert_eq!(found(100).await, [unused.id.clone(), escalated.id.clone()], "a tier begins");
    let more = TicketEvent::Notified { notice: TicketNotice { kind: TicketNoticeKind::Escalated, number: 2 } };
    assert_eq!(happens(tickets, &escalated.id, more.clone()).await.reply, TicketReply::Done);
    assert_eq!(happens(tickets, &escalated.id, more).await.reply, TicketReply::Unchanged, "people are told once");
    assert_eq!(happens(tickets, &escalated.id, TicketEvent::Tick).await.reply, TicketReply::Unchanged);
    assert_eq!(found(100).await, std::slice::from_ref(&unused.id));
    kept.advance(HOUR_MS);
    assert_eq!(found(2).await, [unused.id.clone(), undecided.id.clone()], "the most overdue first");
    for ticket in tickets.due_tickets(100).await.unwrap() {
        assert!(ticket.subject.arguments.is_empty(), "a list has no arguments");
        assert_eq!(happens(tickets, &ticket.id, TicketEvent::Tick).await.reply, TicketReply::Done);
    }
    assert_eq!(found(100).await.len(), 2, "what the two that waited came to");
    for ticket in tickets.due_tickets(100).await.unwrap() {
        tell(tickets, &ticket).await;
    }
    assert!(found(100).await.is_empty());
}

/// People are told what the ticket has to say first.
async fn tell(tickets: &dyn TicketStore, ticket: &Ticket) {
    let notice = due_notice(ticket, 0).unwrap_or(TicketNotice::OPENED);
    assert_eq!(happens(tickets, &ticket.id, TicketEvent::Notified { notice }).await.reply, TicketReply::Done);
}

async fn lists(kept: Kept) {
    let tickets = &*kept.tickets;
    let mut all: Vec<TicketId> = Vec::new();
    for number in 0..6 {
        let ticket = match number % 3 {
            0 => approved(tickets, &format!("{number}")).await,
            1 => denied(tickets, request(&format!("{number}"))).await,
            _ => ask(tickets, request(&format!("{number}"))).await.1,
        };
        all.insert(0, ticket.id);
    }
    let mut elsewhere = request("elsewhere");
    elsewhere.subject.tenant = "umbrella".to_owned();
    let (_, elsewhere) = ask(tickets, elsewhere).await;
    let listed = async |tenant: Option<&str>, states: &[TicketState], before: Option<&TicketId>, limit| {
        let tenant = tenant.map(str::to_owned);
        let query = TicketQuery { tenant, states: states.to_vec(), before: before.cloned(), limit };
        let page = tickets.list_tickets(query).await.unwrap();
        assert!(page.iter().all(|ticket| ticket.subject.arguments.is_empty()));
        page.into_iter().map(|ticket| ticket.id).collect::<Vec<_>>()
    };
    let acme = Some("acme");
    assert_eq!(listed(acme, &[], None, 100).await, all);
    assert_eq!(listed(None, &[], None, 100).await, [&[elsewhere.id.clone()][..], &all].concat());
    assert_eq!(listed(acme, &[], None, 2).await, all[..2]);
    assert_eq!(listed(acme, &[], Some(&all[1]), 2).await, all[2..4]);
    assert_eq!(listed(None, &[], Some(&all[5]), 9).await, []);
    let of = |places: [usize; 2]| places.map(|place| all[place].clone());
    assert_eq!(listed(acme, &[TicketState::Denied], None, 100).await, of([1, 4]));
    let some = [TicketState::Approved, TicketState::Denied, TicketState::Denied];
    assert_eq!(listed(acme, &some, Some(&all[1]), 2).await, of([2, 4]));
    assert_eq!(listed(acme, &[TicketState::Lapsed], None, 100).await, []);
    assert_eq!(listed(Some("nobody"), &[], None, 100).await, []);
    assert_eq!(listed(acme, &[], Some(&TicketId::from("\0".to_owned())), 9).await, []);
    assert_eq!(listed(acme, &[], Some(&TicketId::from("b\0".to_owned())), 9).await, all);
    assert_eq!(listed(acme, &[], None, u32::MAX).await.len(), all.len());
    let counted =
        async |tenant: Option<&str>, limit| tickets.count_pending(tenant.map(str::to_owned), limit).await.unwrap();
    assert_eq!((counted(acme, 100).await, counted(None, 100).await, counted(None, 1).await), (2, 3, 1));
    for number in 0..=TICKETS_PAGE_MAX {
        ask(tickets, request(&format!("many {number}"))).await;
    }
    assert_eq!(listed(acme, &[], None, u32::MAX).await.len(), TICKETS_PAGE_MAX as usize, "a page has an end");
}

async fn strange_names(kept: Kept) {
    let tickets = &*kept.tickets;
    let long = "n".repeat(10_000);
    let strange = ["", "\0", "a\0b", "a\0c", "'; drop table tickets; --", "$1", "\u{1f980}", "\u{fffd}", &long];
    for name in strange {
        let caller = Caller::named(&format!("tenant {name}"), &format!("principal {name}"));
        let mut request = request(name);
        request.key = TicketKey::new(&caller, &digest(name));
        (request.subject.tenant, request.subject.principal) = (caller.tenant.clone(), caller.principal);
        request.subject.run = format!("run {name}");
        request.subject.consequence = Some(format!("pays {name}"));
        request.subject.arguments = bytes::Bytes::from_static(&[0, 159, 146, 150]);
        let (reply, ticket) = ask(tickets, request.clone()).await;
        assert_eq!((reply, &ticket.subject), (TicketReply::Pending, &request.subject));
        let event = TicketEvent::Supersede { reason: name.to_owned() };
        let over = happens(tickets, &ticket.id, event).await.ticket.unwrap();
        assert_eq!(over.reason.as_deref(), Some(name));
        let query = TicketQuery { tenant: Some(caller.tenant), states: Vec::new(), before: None, limit: 9 };
        assert_eq!(tickets.list_tickets(query).await.unwrap().len(), 1, "{name:?}");
    }
}

async fn refused_events(kept: Kept) {
    let tickets = &*kept.tickets;
    let ticket = approved(tickets, "pay").await;
    let consume = TicketEvent::Consume { usage: usage(&ticket, "call_1"), effect_id: "eff_1".to_owned() };
    let id = TicketTarget::Id(ticket.id.clone());
    assert!(tickets.apply_ticket(id.clone(), consume).await.unwrap_err().is_bad_content());
    let asked = || TicketEvent::Request(Box::new(request("pay")));
    assert!(tickets.apply_ticket(id.clone(), asked()).await.unwrap_err().is_bad_content());
    let elsewhere = TicketTarget::Key(request("other").key);
    assert!(tickets.apply_ticket(elsewhere, asked()).await.unwrap_err().is_bad_content());
    assert_eq!(tickets.find_ticket(id).await.unwrap(), Some(ticket));
}

/// A few hundred events of every kind, in random order: the store does exactly what the one in memory does.
async fn as_in_memory(kept: Kept) {
    if matches!(kept.place, Place::Memory(..)) {
        return;
    }
    let reference = Kept::in_memory();
    let mut dice = Dice(11);
    let mut known: Vec<Ticket> = Vec::new();
    for number in 0..400 {
        if dice.throw(8) == 0 {
            let by_ms = [1_000, USE_MS, HOUR_MS][dice.throw(3)];
            kept.advance(by_ms);
            reference.advance(by_ms);
        } else {
            // Decisions are ordered by the time of the store's clock.
            kept.advance(10);
            reference.advance(10);
        }
        let (target, event) = random_event(&mut dice, &known);
        let expected = reference.tickets.apply_ticket(target.clone(), event.clone()).await.unwrap();
        let got = kept.tickets.apply_ticket(target, event.clone()).await.unwrap();
        assert_eq!(timeless_reply(got.reply), timeless_reply(expected.reply), "event {number}: {event:?}");
        let expected = expected.ticket.map(|ticket| (*ticket).clone());
        assert_eq!(got.ticket.as_deref().map(timeless), expected.as_ref().map(timeless), "event {number}: {event:?}");
        known.extend(expected);
    }
    let all = || TicketQuery { tenant: None, states: Vec::new(), before: None, limit: TICKETS_PAGE_MAX };
    let (expected, got) =
        (reference.tickets.list_tickets(all()).await.unwrap(), kept.tickets.list_tickets(all()).await.unwrap());
    assert!(expected.len() > 40, "{}", expected.len());
    assert_eq!(got.iter().map(timeless).collect::<Vec<_>>(), expected.iter().map(timeless).collect::<Vec<_>>());
}

struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn random_event(dice: &mut Dice, known: &[Ticket]) -> (TicketTarget, TicketEvent) {
    let some = known.len().checked_sub(1 + dice.throw(6)).map(|place| &known[place]);
    let Some(ticket) = some.filter(|_| dice.throw(5) < 3) else {
        let mut request = of_run(["run-1", "run-2"][dice.throw(2)], &format!("payload {}", dice.throw(9)));
        request.demand = demand([1, 2][dice.throw(2)]);
        if dice.throw(6) == 0 {
            request.subject.payload = digest("another contract");
        }
        return (TicketTarget::Key(request.key), TicketEvent::Request(Box::new(request)));
    };
    let person = ["ada", "bob", "eve", "kim"][dice.throw(4)];
    let event = match dice.throw(9) {
        0..=3 => decide(ticket, approver(person), ApprovalVerdict::Approve),
        4 | 5 => decide(ticket, approver(person), ApprovalVerdict::Deny),
        6 => TicketEvent::Tick,
        7 => TicketEvent::Notified { notice: TicketNotice::OPENED },
        _ => TicketEvent::Supersede { reason: "it changed".to_owned() },
    };
    (TicketTarget::Id(ticket.id.clone()), event)
}

/// The ticket without its times, which differ between stores.
fn timeless(ticket: &Ticket) -> Ticket {
    let no_time = servanda_approval::Deadline { clock_ms: 0, ledger_ms: 0 };
    Ticket {
        created_ms: 0,
        changed_ms: 0,
        decide_by: no_time,
        use_by: ticket.use_by.map(|_| no_time),
        decided_ms: ticket.decided_ms.map(|_| 0),
        ..ticket.clone()
    }
}

fn timeless_reply(reply: TicketReply) -> TicketReply {
    match reply {
        TicketReply::Denied { .. } => TicketReply::Denied { until_ms: 0 },
        TicketReply::RunStopped { .. } => TicketReply::RunStopped { until_ms: 0 },
        other => other,
    }
}
