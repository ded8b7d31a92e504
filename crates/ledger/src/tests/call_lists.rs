//! Lists of calls: every condition, the order, what is under way, and where a list stops.

use std::sync::Arc;

use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, GateName, Refusal, TaxonomyClass, Timestamp, record::Outcome,
};
use servanda_effects::{CallHistory as _, Journal as _, call_history::HistoryQuery, effect::DispatchEnd};

use super::{
    kept::Kept,
    samples::{answer, begin, begun, mine, record, settled},
};
use crate::{CallFilter, CallList, LOOKED_AT_MAX};

const CALLS: u64 = 1_200;

/// Calls of two tenants; every third is refused by policy, every fourth has an agent.
fn nth(number: u64) -> CallRecord {
    let mut call = record(&format!("call_{number:06}"), Outcome::Completed, 1_000 + number / 2);
    let tenant = if number.is_multiple_of(2) { "acme" } else { "globex" };
    call.caller = Caller::named(tenant, if number.is_multiple_of(5) { "ada" } else { "bob" }).into();
    call.class = Some(TaxonomyClass::Success);
    call.finished_at = Some(Timestamp::from_unix_ms(1_007 + number / 2));
    call.tool = if number.is_multiple_of(7) { "bank__pay" } else { "bank__look" }.to_owned();
    call.trace_id = format!("{:032x}", number / 2);
    if number.is_multiple_of(10) {
        Arc::make_mut(&mut call.caller).session = Some(format!("session {}", number % 100));
    }
    if number.is_multiple_of(4) {
        Arc::make_mut(&mut call.caller).actors = vec![CallerActor { name: "planner".to_owned(), proven: true }];
        Arc::make_mut(&mut call.caller).credential = Some("key:0123".to_owned());
    }
    if number.is_multiple_of(3) {
        let (gate, class) = (GateName::Policy, TaxonomyClass::PolicyViolation);
        let refusal =
            Refusal::new(CallId::from(call.call_id.to_string()), gate, class, "no".to_owned(), "ask".to_owned());
        (call.outcome, call.class, call.refusal) = (Outcome::Refused, Some(class), Some(refusal));
    }
    call
}

/// Every condition by itself and two together, compared with filtering the records directly.
pub(super) async fn conditions(kept: Kept) {
    let (ledger, reader) = (kept.ledger(), kept.reader().await);
    let all: Vec<CallRecord> = (0..CALLS).map(nth).collect();
    // A page has the first half merged into the index; the second half is put aside.
    for half in all.chunks(all.len() / 2) {
        write(ledger, half).await;
        if half[0] == all[0] {
            ledger.list_calls(HistoryQuery { limit: 1, ..HistoryQuery::default() }).await.unwrap();
        }
    }
    let text = |text: &str| Some(text.to_owned());
    let none = CallFilter::default();
    let table = [
        (none.clone(), 1_200),
        (CallFilter { caller: text("ada"), ..none.clone() }, 240),
        (CallFilter { caller: text("acme/ada"), ..none.clone() }, 120),
        (CallFilter { caller: text("planner"), ..none.clone() }, 300),
        (CallFilter { caller: text("key:0123"), ..none.clone() }, 300),
        (CallFilter { caller: text("acme"), ..none.clone() }, 0),
        (CallFilter { tool: text("bank__pay"), ..none.clone() }, 172),
        (CallFilter { outcome: Some(Outcome::Refused), ..none.clone() }, 400),
        (CallFilter { class: Some(TaxonomyClass::Success), ..none.clone() }, 800),
        (CallFilter { gate: Some(GateName::Policy), ..none.clone() }, 400),
        (CallFilter { gate: Some(GateName::Scope), ..none.clone() }, 0),
        (CallFilter { since_ms: Some(1_300), ..none.clone() }, 600),
        (CallFilter { until_ms: Some(1_299), ..none.clone() }, 600),
        (CallFilter { since_ms: Some(1_299), until_ms: Some(1_300), ..none.clone() }, 4),
        (CallFilter { caller: text("ada"), gate: Some(GateName::Policy), ..none.clone() }, 80),
        (CallFilter { run: text("session 10"), ..none.clone() }, 12),
        (CallFilter { run: text("session 10"), tool: text("bank__pay"), ..none.clone() }, 2),
        (CallFilter { trace: Some(format!("{:032x}", 300)), ..none.clone() }, 2),
        (CallFilter { trace: Some(format!("{:032x}", 300)), outcome: Some(Outcome::Refused), ..none.clone() }, 1),
        (CallFilter { caller: text("key:0123"), outcome: Some(Outcome::Refused), ..none.clone() }, 100),
        (CallFilter { caller: text("globex/ada"), tool: text("bank__pay"), ..none.clone() }, 17),
        (CallFilter { since_ms: Some(1_299), until_ms: Some(1_300), caller: text("bob"), ..none.clone() }, 3),
    ];
    for (filter, count) in table {
        let listed = reader.calls(&filter, 5_000).await.unwrap();
        assert_eq!((listed.calls.len(), listed.stopped_at_ms), (count, None), "{filter:?}");
        let expected: Vec<_> =
            all.iter().rev().filter(|call| filter.matches(call)).map(|call| call.call_id.to_string()).collect();
        let found: Vec<_> = listed.calls.iter().map(|call| call.call_id.clone()).collect();
        assert_eq!(found, expected, "{filter:?}");
        let few = reader.calls(&filter, 7).await.unwrap().calls;
        assert_eq!(few, listed.calls[..count.min(7)], "{filter:?}");
    }
    let refused = reader.calls(&CallFilter { gate: Some(GateName::Policy), ..none }, 1).await.unwrap().calls;
    let one = serde_json::to_value(&refused[0]).unwrap();
    assert_eq!(one["gate"], "policy");
    assert_eq!((&one["outcome"], &one["class"]), (&"refused".into(), &"POLICY_VIOLATION".into()));
    assert_eq!(one["took_ms"], 7);
}

pub(super) async fn under_way(kept: Kept) {
    let (ledger, reader) = (kept.ledger(), kept.reader().await);
    let claim = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    ledger.record_finished(record("call_later", Outcome::Completed, 9), None, true).await.unwrap();
    let ids = async |filter: CallFilter| -> Vec<(String, &'static str)> {
        let listed = reader.calls(&filter, 10).await.unwrap().calls;
        listed.into_iter().map(|call| (call.call_id, call.outcome)).collect()
    };
    let later = ("call_later".to_owned(), "completed");
    assert_eq!(ids(CallFilter::default()).await, [later.clone(), ("call_k".to_owned(), "dispatching")]);
    let open = CallFilter { outcome: Some(Outcome::Dispatching), ..CallFilter::default() };
    assert_eq!(ids(open.clone()).await, [("call_k".to_owned(), "dispatching")]);
    assert_eq!(ids(CallFilter { since_ms: Some(2), ..open.clone() }).await, []);
    let mut done = settled(&claim, DispatchEnd::Completed(answer("x")));
    done.record = Some(record("call_k", Outcome::Completed, 1));
    kept.effects.apply(done).await.unwrap();
    assert_eq!(ids(CallFilter::default()).await, [later, ("call_k".to_owned(), "completed")]);
    assert_eq!(ids(open).await, []);
}

async fn write(ledger: &crate::Ledger, calls: &[CallRecord]) {
    // Each is awaited: records may be committed in another order than they were handed in.
    let kept = calls.iter().map(|call| ledger.record_finished(call.clone(), None, true));
    for kept in futures_util::future::join_all(kept).await {
        kept.unwrap();
    }
}

/// A ledger of an earlier version has records that the index does not have.
pub(super) async fn older_than_the_index(kept: Kept) {
    let (ledger, reader) = (kept.ledger(), kept.reader().await);
    let all: Vec<CallRecord> = (0..CALLS).map(nth).collect();
    write(ledger, &all).await;
    ledger.list_calls(HistoryQuery { limit: 1, ..HistoryQuery::default() }).await.unwrap();
    kept.forget_terms_before(1_200 / 16).await;
    let refused = CallFilter { outcome: Some(Outcome::Refused), ..CallFilter::default() };
    let pay = CallFilter { tool: Some("bank__pay".to_owned()), until_ms: Some(1_300), ..CallFilter::default() };
    for (filter, count) in [(refused, 400), (pay, 86)] {
        let listed = reader.calls(&filter, 5_000).await.unwrap();
        let expected: Vec<String> =
            all.iter().rev().filter(|call| filter.matches(call)).map(|call| call.call_id.to_string()).collect();
        assert_eq!(expected.len(), count, "{filter:?}");
        let found: Vec<String> = listed.calls.iter().map(|call| call.call_id.clone()).collect();
        assert_eq!((found, listed.stopped_at_ms), (expected, None), "{filter:?}");
    }
}

/// More records than a list looks at, none of which matches: by their time, and by the index, which knows at once.
pub(super) async fn stops(kept: Kept) {
    let (ledger, reader) = (kept.ledger(), kept.reader().await);
    let count = u64::from(LOOKED_AT_MAX) + 10;
    let numbers: Vec<u64> = (1..=count).collect();
    for some in numbers.chunks(1_000) {
        let call = |number: &u64| record(&format!("call_{number:06}"), Outcome::Completed, *number);
        let kept = some.iter().map(|number| ledger.record_finished(call(number), None, true));
        for kept in futures_util::future::join_all(kept).await {
            kept.unwrap();
        }
    }
    let refused = CallFilter { outcome: Some(Outcome::Refused), ..CallFilter::default() };
    ledger.list_calls(HistoryQuery { limit: 1, ..HistoryQuery::default() }).await.unwrap();
    assert_eq!(reader.calls(&refused, 5).await.unwrap(), CallList { calls: Vec::new(), stopped_at_ms: None });
    // The index finds every call of the tool, and none of them is of this run.
    let (run, tool) = (Some("none".to_owned()), Some(record("call_1", Outcome::Completed, 1).tool));
    let of_tool = CallFilter { run: run.clone(), tool, ..CallFilter::default() };
    let stopped_at_ms = reader.calls(&of_tool, 5).await.unwrap().stopped_at_ms.unwrap();
    assert!(stopped_at_ms <= count - u64::from(LOOKED_AT_MAX) + 2_000, "{stopped_at_ms}");
    let wanted = CallFilter { run, ..CallFilter::default() };
    let listed = reader.calls(&wanted, 5).await.unwrap();
    assert_eq!((listed.calls.len(), listed.stopped_at_ms), (0, Some(11)), "it looked at the newest and says how far");
    let rest = CallFilter { until_ms: Some(11), ..wanted };
    assert_eq!(reader.calls(&rest, 5).await.unwrap().stopped_at_ms, None, "the rest is looked at by its time");
}
