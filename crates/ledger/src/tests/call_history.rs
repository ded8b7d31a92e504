//! Lists, searches and counts of recorded calls as pages read them: the file and the shared database.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::Pin,
    sync::Arc,
};

use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, GateName, Refusal, TaxonomyClass, Timestamp,
    cost::{Cost, Price},
    record::Outcome,
};
use servanda_effects::{
    CallHistory, Journal as _,
    call_history::{
        CallCount, CallMeasure, CountWidth, CountsQuery, HistoryPosition, HistoryQuery, InMemoryCallHistory,
        LatencyBucket,
    },
    effect::DispatchEnd,
};

use super::{
    kept::Kept,
    samples::{answer, begin, begun, mine, record, settled},
};
use crate::{Ledger, Retention, call_search::TEXT_RECORDS_LOOKED_MAX};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("every condition of a page, alone and together, page by page", |kept| Box::pin(conditions(kept))),
    ("no call is on two pages or on none while new ones arrive", |kept| Box::pin(arriving(kept))),
    ("a call under way is listed apart until it has ended", |kept| Box::pin(under_way(kept))),
    ("calls are found by the beginnings of their ids, each tenant's apart", |kept| Box::pin(by_id(kept))),
    ("a search stops after so many records and goes on from there", |kept| Box::pin(stops(kept))),
    ("calls are counted once, by minute and hour", |kept| Box::pin(counts(kept))),
    ("what is found and counted is removed with its records", |kept| Box::pin(pruned(kept))),
    ("strange names are found", |kept| Box::pin(strange(kept))),
];

const CALLS: u64 = 900;

/// Calls of two tenants, some of the same millisecond; every third is refused, every fourth has an agent.
fn nth(number: u64) -> CallRecord {
    let received_ms = 60_000 + number * 7 / 2;
    let mut call = record(&format!("call_{number:06}"), Outcome::Completed, received_ms);
    let tenant = if number.is_multiple_of(2) { "acme" } else { "globex" };
    let mut caller = Caller::named(tenant, if number.is_multiple_of(5) { "ada" } else { "bob" });
    if number.is_multiple_of(4) {
        caller.actors = vec![CallerActor { name: "planner".to_owned(), proven: true }];
    }
    call.caller = Arc::new(caller);
    call.class = Some(TaxonomyClass::Success);
    call.finished_at = Some(Timestamp::from_unix_ms(received_ms + number % 11));
    call.dispatched_at = Some(Timestamp::from_unix_ms(received_ms));
    call.tool = if number.is_multiple_of(7) { "bank__pay" } else { "bank__look" }.to_owned();
    if number.is_multiple_of(3) {
        refuse(&mut call, GateName::Policy, TaxonomyClass::PolicyViolation);
    }
    call
}

fn refuse(call: &mut CallRecord, gate: GateName, class: TaxonomyClass) {
    let id = CallId::from(call.call_id.to_string());
    call.refusal = Some(Refusal::new(id, gate, class, "no".to_owned(), "ask".to_owned()));
    (call.outcome, call.class, call.dispatched_at) = (Outcome::Refused, Some(class), None);
}

async fn write(ledger: &Ledger, calls: &[CallRecord]) {
    for some in calls.chunks(500) {
        let written = some.iter().map(|call| ledger.record_finished(call.clone(), None, true));
        for written in futures_util::future::join_all(written).await {
            written.unwrap();
        }
    }
}

/// Every page of a query, with how many pages ended early.
async fn walk(history: &dyn CallHistory, query: &HistoryQuery) -> (Vec<CallRecord>, usize) {
    let (mut calls, mut early, mut before) = (Vec::new(), 0, query.before.clone());
    for _ in 0..10_000 {
        let page = history.list_calls(HistoryQuery { before: before.clone(), ..query.clone() }).await.unwrap();
        assert!(page.calls.len() <= query.page_max());
        assert!(page.stopped_early || page.next.is_none() || page.calls.len() == query.page_max());
        early += usize::from(page.stopped_early);
        calls.extend(page.calls);
        match page.next {
            Some(next) => {
                assert!(before.as_ref().is_none_or(|before| next < *before), "{next} goes on from {before:?}");
                before = Some(next);
            }
            None => return (calls, early),
        }
    }
    panic!("the pages do not end");
}

fn of(tenant: &str) -> HistoryQuery {
    HistoryQuery { tenant: tenant.to_owned(), limit: 200, ..HistoryQuery::default() }
}

#[expect(clippy::unnecessary_wraps, reason = "the conditions of queries are optional")]
fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

async fn conditions(kept: Kept) {
    let ledger = kept.ledger();
    let all: Vec<CallRecord> = (0..CALLS).map(nth).collect();
    write(ledger, &all).await;
    let acme = of("acme");
    let table = [
        (of("globex"), 450),
        (of("nobody"), 0),
        (acme.clone(), 450),
        (HistoryQuery { principal: text("ada"), ..acme.clone() }, 90),
        (HistoryQuery { caller: text("ada"), ..acme.clone() }, 90),
        (HistoryQuery { caller: text("planner"), ..acme.clone() }, 225),
        (HistoryQuery { caller: text("planner"), principal: text("ada"), ..acme.clone() }, 45),
        (HistoryQuery { tool: text("bank__pay"), ..acme.clone() }, 65),
        (HistoryQuery { tool: text("bank__"), ..acme.clone() }, 0),
        (HistoryQuery { outcome: Some(Outcome::Refused), ..acme.clone() }, 150),
        (HistoryQuery { class: Some(TaxonomyClass::Success), ..acme.clone() }, 300),
        (HistoryQuery { class: Some(TaxonomyClass::PolicyViolation), ..acme.clone() }, 150),
        (HistoryQuery { gate: Some(GateName::Policy), ..acme.clone() }, 150),
        (HistoryQuery { gate: Some(GateName::Scope), ..acme.clone() }, 0),
        (HistoryQuery { since_ms: Some(61_575), ..acme.clone() }, 225),
        (HistoryQuery { until_ms: Some(61_574), ..acme.clone() }, 225),
        (HistoryQuery { text: text("PAY"), ..acme.clone() }, 65),
        (HistoryQuery { text: text("plan"), tool: text("bank__pay"), ..acme.clone() }, 33),
        (
            HistoryQuery {
                principal: text("ada"),
                caller: text("planner"),
                tool: text("bank__pay"),
                outcome: Some(Outcome::Refused),
                class: Some(TaxonomyClass::PolicyViolation),
                gate: Some(GateName::Policy),
                ..acme.clone()
            },
            3,
        ),
    ];
    for (query, count) in table {
        let mut expected: Vec<&CallRecord> = all.iter().filter(|call| query.matches(call)).collect();
        expected.sort_by_key(|call| std::cmp::Reverse(HistoryPosition::of(call)));
        assert_eq!(expected.len(), count, "{query:?}");
        for limit in [1, 7, 200] {
            let (found, early) = walk(ledger, &HistoryQuery { limit, ..query.clone() }).await;
            assert!(found.iter().eq(expected.iter().copied()), "{limit} of {query:?}");
            assert!(early == 0 || query.text.is_some(), "{query:?}");
        }
    }
}

async fn arriving(kept: Kept) {
    let ledger = kept.ledger();
    let before: Vec<CallRecord> = (0..300).map(nth).collect();
    write(ledger, &before).await;
    let query = HistoryQuery { limit: 9, ..of("acme") };
    let (mut seen, mut place, mut number) = (BTreeSet::new(), None, 300);
    loop {
        let page = ledger.list_calls(HistoryQuery { before: place, ..query.clone() }).await.unwrap();
        for call in &page.calls {
            assert!(seen.insert(call.call_id.to_string()), "{} is on two pages", call.call_id);
        }
        write(ledger, &(number..number + 10).map(nth).collect::<Vec<_>>()).await;
        number += 10;
        place = page.next;
        if place.is_none() {
            break;
        }
    }
    let expected: BTreeSet<String> =
        before.iter().filter(|call| query.matches(call)).map(|call| call.call_id.to_string()).collect();
    assert_eq!(seen, expected);
}

async fn under_way(kept: Kept) {
    let ledger = kept.ledger();
    let claim = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    let local = of("local");
    let open = async |query: HistoryQuery| ledger.calls_under_way(query).await.unwrap().len();
    assert_eq!(open(local.clone()).await, 1);
    assert_eq!(open(HistoryQuery { tool: text("other"), ..local.clone() }).await, 0);
    assert_eq!(open(of("acme")).await, 0, "another tenant's");
    assert_eq!(walk(ledger, &local).await.0, []);
    let find = async |tenant: &str| ledger.find_call(tenant.to_owned(), "call_k".to_owned()).await.unwrap();
    assert_eq!(find("local").await.unwrap().outcome, Outcome::Dispatching);
    assert_eq!(find("acme").await, None);
    let mut done = settled(&claim, DispatchEnd::Completed(answer("x")));
    done.record = Some(record("call_k", Outcome::Completed, 1));
    kept.effects.apply(done).await.unwrap();
    assert_eq!(open(local.clone()).await, 0);
    assert_eq!(walk(ledger, &local).await.0, [record("call_k", Outcome::Completed, 1)]);
    assert_eq!(find("local").await.unwrap().outcome, Outcome::Completed);
    let done = HistoryQuery { outcome: Some(Outcome::Completed), ..local };
    assert_eq!(walk(ledger, &done).await.0.len(), 1);
}

async fn by_id(kept: Kept) {
    let ledger = kept.ledger();
    write(ledger, &(0..CALLS).map(nth).collect::<Vec<_>>()).await;
    let ids = async |text: &str, query: HistoryQuery| -> Vec<String> {
        let query = HistoryQuery { text: Some(text.to_owned()), ..query };
        let page = ledger.list_calls(query).await.unwrap();
        page.calls.iter().map(|call| call.call_id.to_string()).collect()
    };
    assert_eq!(ids("call_000002", of("acme")).await, ["call_000002"]);
    assert_eq!(ids("call_000002", of("globex")).await, [""; 0], "another tenant's");
    assert_eq!(
        ids("call_00010", of("acme")).await,
        ["call_000108", "call_000106", "call_000104", "call_000102", "call_000100"]
    );
    let of_ada = HistoryQuery { caller: text("ada"), ..of("acme") };
    assert_eq!(ids("call_00010", of_ada).await, ["call_000100"]);
    for (tenant, id, is_there) in [
        ("acme", "call_000002", true),
        ("globex", "call_000002", false),
        ("acme", "call_00000", false),
        ("acme", "", false),
    ] {
        let found = ledger.find_call(tenant.to_owned(), id.to_owned()).await.unwrap();
        assert_eq!(found.is_some(), is_there, "{tenant} {id}");
    }
}

/// More records than one page looks at, of which the oldest alone matches.
async fn stops(kept: Kept) {
    let ledger = kept.ledger();
    let count = TEXT_RECORDS_LOOKED_MAX as u64 + 200;
    let call = |number: u64| record(&format!("call_{number:06}"), Outcome::Completed, number / 3);
    let oldest = CallRecord { tool: "needle".to_owned(), ..call(0) };
    let calls: Vec<CallRecord> = std::iter::once(oldest.clone()).chain((1..=count).map(call)).collect();
    write(ledger, &calls).await;
    let query = HistoryQuery { text: text("needle"), ..of("local") };
    let page = ledger.list_calls(query.clone()).await.unwrap();
    assert!(page.stopped_early && page.calls.is_empty(), "{page:?}");
    let (found, early) = walk(ledger, &query).await;
    assert_eq!((found, early), (vec![oldest.clone()], 1));
    let by_tool = HistoryQuery { tool: text("needle"), ..of("local") };
    let page = ledger.list_calls(by_tool).await.unwrap();
    assert_eq!((page.calls, page.next), (vec![oldest], None), "a condition with a term needs no walk");
}

async fn counts(kept: Kept) {
    let ledger = kept.ledger();
    let mut all: Vec<CallRecord> = (0..CALLS).map(nth).collect();
    for (number, call) in (0..).zip(&mut all) {
        call.received_at = Timestamp::from_unix_ms(number * 17_000);
        call.finished_at = Some(Timestamp::from_unix_ms(number * 17_000 + number % 900));
        let cost = Cost { external_api_micros: 250_000, ..Cost::default() };
        call.price = Some(Box::new(Price { currency: "EUR".to_owned(), cost }));
    }
    write(ledger, &all).await;
    // Once more: a record that is there already is not counted.
    write(ledger, &all[..100]).await;
    let memory = InMemoryCallHistory::default();
    for call in all.clone() {
        memory.record_finished(call, None, true).await.unwrap();
    }
    for (tenant, width, from_ms, until_ms) in [
        ("acme", CountWidth::Minute, 0, u64::MAX),
        ("acme", CountWidth::Hour, 0, u64::MAX),
        ("globex", CountWidth::Minute, 120_000, 600_000),
        ("nobody", CountWidth::Hour, 0, u64::MAX),
    ] {
        let query = CountsQuery { tenant: tenant.to_owned(), width, from_ms, until_ms };
        let sums = async |history: &dyn CallHistory| -> BTreeMap<(u64, CallMeasure), u64> {
            let counts = history.call_counts(query.clone()).await.unwrap();
            counts.into_iter().map(|CallCount { start_ms, measure, amount }| ((start_ms, measure), amount)).collect()
        };
        assert!(sums(ledger).await == sums(&memory).await, "{query:?}");
    }
    a_task_is_counted_as_such_and_at_its_end(ledger).await;
    sums_do_not_overflow(ledger).await;
}

async fn a_task_is_counted_as_such_and_at_its_end(ledger: &Ledger) {
    let mut call =
        CallRecord { caller: Caller::named("tasks", "ada").into(), ..record("call_t", Outcome::TaskCreated, 1) };
    ledger.record_finished(call.clone(), None, true).await.unwrap();
    (call.outcome, call.dispatched_at) = (Outcome::Completed, Some(Timestamp::from_unix_ms(1)));
    call.finished_at = Some(Timestamp::from_unix_ms(5_001));
    ledger.record_finished(call, None, true).await.unwrap();
    let query = CountsQuery { tenant: "tasks".to_owned(), width: CountWidth::Hour, from_ms: 0, until_ms: 1 };
    let counts = ledger.call_counts(query).await.unwrap();
    let measures: BTreeSet<CallMeasure> = counts.iter().map(|count| count.measure.clone()).collect();
    let took = CallMeasure::Took(LatencyBucket::of_ms(5_000));
    let outcomes = [Outcome::TaskCreated, Outcome::Completed].map(CallMeasure::Outcome);
    assert_eq!(measures, outcomes.into_iter().chain([took]).collect());
}

async fn sums_do_not_overflow(ledger: &Ledger) {
    let cost = Cost { token_micros: u64::MAX, ..Cost::default() };
    for number in 0..3 {
        let call = CallRecord {
            caller: Caller::named("rich", "ada").into(),
            price: Some(Box::new(Price { currency: "EUR".to_owned(), cost })),
            dispatched_at: Some(Timestamp::from_unix_ms(1)),
            ..record(&format!("call_rich_{number}"), Outcome::Completed, 1)
        };
        ledger.record_finished(call, None, true).await.unwrap();
    }
    let query = CountsQuery { tenant: "rich".to_owned(), width: CountWidth::Hour, from_ms: 0, until_ms: 1 };
    let counts = ledger.call_counts(query).await.unwrap();
    let of = |measure: &CallMeasure| counts.iter().find(|count| count.measure == *measure).map(|count| count.amount);
    assert_eq!(of(&CallMeasure::Spend("EUR".to_owned())), Some(i64::MAX.unsigned_abs()));
    assert_eq!(of(&CallMeasure::Outcome(Outcome::Completed)), Some(3));
}

async fn pruned(kept: Kept) {
    let ledger = kept.ledger();
    let old: Vec<CallRecord> = (0..400).map(nth).collect();
    let young: Vec<CallRecord> = (0..20)
        .map(|number| CallRecord {
            received_at: Timestamp::from_unix_ms(7_200_000 + number),
            ..record(&format!("call_young_{number}"), Outcome::Completed, 1)
        })
        .collect();
    write(ledger, &old).await;
    write(ledger, &young).await;
    let retention = Retention { records_ms: Some(3_600_000), tombstones_ms: None };
    let now = Timestamp::from_unix_ms(7_200_000 + 60_000);
    for _ in 0..500 {
        if !ledger.prune(retention, now).await.unwrap().is_behind {
            break;
        }
    }
    // One more look at every term.
    ledger.prune(retention, now).await.unwrap();
    assert_eq!(walk(ledger, &of("acme")).await.0, []);
    assert_eq!(walk(ledger, &of("local")).await.0.len(), 20);
    let counts = async |tenant: &str, width: CountWidth| {
        let query = CountsQuery { tenant: tenant.to_owned(), width, from_ms: 0, until_ms: u64::MAX };
        ledger.call_counts(query).await.unwrap().len()
    };
    assert_eq!((counts("acme", CountWidth::Minute).await, counts("acme", CountWidth::Hour).await), (0, 0));
    assert_eq!((counts("local", CountWidth::Minute).await, counts("local", CountWidth::Hour).await), (1, 1));
    assert_eq!(kept.term_spans().await, 8, "4 terms in 2 spans");
}

async fn strange(kept: Kept) {
    let ledger = kept.ledger();
    let names = ["a\0b", "'; drop table calls --", "\u{202e}x", "%_", "é\u{301}", " "];
    for (number, name) in (0..).zip(names) {
        let caller = Caller::named(name, name);
        let call = CallRecord {
            caller: caller.into(),
            tool: (*name).to_owned(),
            ..record(&format!("call_{number}"), Outcome::Completed, number)
        };
        ledger.record_finished(call, None, true).await.unwrap();
    }
    for name in names {
        for query in [of(name), HistoryQuery { tool: text(name), caller: text(name), ..of(name) }] {
            assert_eq!(walk(ledger, &query).await.0.len(), 1, "{query:?}");
        }
        let query = CountsQuery { tenant: name.to_owned(), width: CountWidth::Minute, from_ms: 0, until_ms: u64::MAX };
        assert_eq!(ledger.call_counts(query).await.unwrap().len(), 1, "{name:?}");
    }
}
