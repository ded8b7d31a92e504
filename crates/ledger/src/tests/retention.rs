//! Finished records, tombstones and notes are removed, and nothing else, in both ledgers.

use std::{pin::Pin, sync::Arc};

use bytes::Bytes;
use servanda_contract::{CallRecord, Timestamp, record::Outcome, tool::EffectClass};
use servanda_effects::{
    Journal as _, Note, NoteKind, Notebook as _,
    effect::{
        BeginRequest, Claim, DispatchEnd, EffectChange, EffectEvent, EffectReply, EffectTarget, ManualSettlement,
        OrphanQuery, OwnerId,
    },
};

use super::{
    kept::{Both, Kept},
    samples::{HOUR_MS, about, answer, begin, begun, key, mine, record, settled},
};
use crate::{PruneReport, Retention, retention::PRUNED_MAX};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("old records are removed, page by page", |kept| Box::pin(records(kept))),
    ("an effect that is unknown or under way keeps its record", |kept| Box::pin(unsettled(kept))),
    ("a key is known until its retention is over", |kept| Box::pin(tombstones(kept))),
    ("orphans are listed by upstream, the oldest first", |kept| Box::pin(fair(kept))),
    ("orphans are found page by page", |kept| Box::pin(page_by_page(kept))),
    ("a sweep passes reservations that it cannot close", |kept| Box::pin(sweeps_on(kept))),
];

const FOREVER: Retention = Retention { records_ms: None, tombstones_ms: None };

async fn records(kept: Kept) {
    let (ledger, reader) = (kept.ledger(), kept.reader().await);
    let pages = 3 * u64::from(PRUNED_MAX) + 7;
    for number in 0..pages {
        // Many records of the same millisecond.
        let outcome = if number % 2 == 0 { Outcome::Completed } else { Outcome::Refused };
        ledger.record_finished(record(&format!("call_{number:04}"), outcome, number / 150), None, false).await.unwrap();
    }
    let body = Some(Bytes::from_static(b"broken"));
    ledger.record_finished(record("call_broken", Outcome::Quarantined, 3), body.clone(), true).await.unwrap();
    ledger.record_finished(record("call_young", Outcome::Quarantined, 1_000), body, true).await.unwrap();
    for key in ["over", "there"] {
        let expires_at = Some(Timestamp::from_unix_ms(if key == "over" { 1_500 } else { 1_501 }));
        let note = Note { kind: NoteKind::Session, key: key.to_owned(), value: "x".to_owned(), expires_at };
        ledger.write(note).await.unwrap();
    }
    let now = Timestamp::from_unix_ms(1_500);
    let forever = PruneReport { notes: 1, ..PruneReport::default() };
    assert_eq!(
        ledger.prune(FOREVER, now).await.unwrap(),
        forever,
        "records are kept forever if the retention is not set"
    );
    let retention = Retention { records_ms: Some(501), tombstones_ms: None };
    let (mut rounds, mut gone) = (0, 0);
    loop {
        let PruneReport { records, is_behind, .. } = ledger.prune(retention, now).await.unwrap();
        assert!(records <= u64::from(PRUNED_MAX), "a round is small");
        (rounds, gone) = (rounds + 1, gone + records);
        if !is_behind {
            break;
        }
        assert!(rounds < 50);
    }
    assert_eq!(gone, pages + 1);
    assert_eq!(reader.count().await.unwrap(), 1);
    assert_eq!(
        reader.quarantined("call_broken").await.unwrap(),
        None,
        "a quarantined answer is removed with its record"
    );
    assert!(reader.quarantined("call_young").await.unwrap().is_some());
    assert!(ledger.read(NoteKind::Session, "there", Timestamp::from_unix_ms(0)).await.unwrap().is_some());
}

fn of_effect(call_id: &str, outcome: Outcome, claim: &Claim) -> CallRecord {
    CallRecord { effect_id: Some(claim.id.to_string()), ..record(call_id, outcome, 1) }
}

async fn unsettled(kept: Kept) {
    let ledger = kept.ledger();
    // Under way, with its record in its own row; unknown, and recorded as such; unknown without a record of its
    // end; waiting for a task.
    mine(kept.effects.apply(begun(begin("open"))).await.unwrap().reply);
    let unknown = mine(kept.effects.apply(begun(begin("unknown"))).await.unwrap().reply);
    let end = settled(&unknown, DispatchEnd::Unknown("reset".to_owned()));
    let told = Some(of_effect("call_unknown", Outcome::Unknown, &unknown));
    kept.effects.apply(EffectChange { record: told, ..end }).await.unwrap();
    let left = mine(kept.effects.apply(begun(begin("left"))).await.unwrap().reply);
    kept.effects.apply(settled(&left, DispatchEnd::Unknown("reset".to_owned()))).await.unwrap();
    let task = mine(kept.effects.apply(begun(begin("task"))).await.unwrap().reply);
    ledger.record_finished(of_effect("call_task", Outcome::TaskCreated, &task), None, true).await.unwrap();
    // It is unknown which effect this record belongs to.
    ledger.record_finished(record("call_nameless", Outcome::Dispatching, 1), None, true).await.unwrap();
    // A read with an unknown outcome changed nothing.
    ledger.record_finished(record("call_read", Outcome::Unknown, 1), None, true).await.unwrap();
    let retention = Retention { records_ms: Some(1), tombstones_ms: Some(1) };
    let prune = async || ledger.prune(retention, Timestamp::from_unix_ms(HOUR_MS)).await.unwrap().records;
    assert_eq!(prune().await, 1);
    let all = ["call_left", "call_nameless", "call_open", "call_task", "call_unknown"];
    assert_eq!(kept.recorded().await, all);
    for claim in [&unknown, &left] {
        let by_hand = ManualSettlement {
            epoch: None,
            completed: true,
            by: "ada".to_owned(),
            evidence: "bank statement".to_owned(),
        };
        kept.effects.apply(about(claim, EffectEvent::SettleByHand(by_hand))).await.unwrap();
    }
    kept.effects.apply(settled(&task, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!(prune().await, 3, "records of settled effects are removed");
    assert_eq!(kept.recorded().await, ["call_nameless", "call_open"]);
}

async fn tombstones(kept: Kept) {
    let (effects, ledger) = (&*kept.effects, kept.ledger());
    for name in ["done", "unknown", "young"] {
        let claim = mine(effects.apply(begun(begin(name))).await.unwrap().reply);
        let unknown = name == "unknown";
        let end = if unknown { DispatchEnd::Unknown("reset".to_owned()) } else { DispatchEnd::Completed(answer("x")) };
        effects.apply(settled(&claim, end)).await.unwrap();
        if name == "unknown" {
            kept.advance(HOUR_MS / 2);
        }
    }
    let retention = Retention { records_ms: None, tombstones_ms: Some(HOUR_MS) };
    let prune = async || ledger.prune(retention, Timestamp::from_unix_ms(0)).await.unwrap().tombstones;
    let known = async |name: &str| effects.find(EffectTarget::Key(key(name))).await.unwrap().is_some();
    kept.advance(HOUR_MS);
    effects.expire(100).await.unwrap();
    assert_eq!(prune().await, 0, "its window is over, its retention is not");
    kept.advance(HOUR_MS / 4);
    assert_eq!(prune().await, 0);
    kept.advance(HOUR_MS / 4 + 1_000);
    assert_eq!(effects.apply(begun(begin("done"))).await.unwrap().reply, EffectReply::KeyExpired);
    assert_eq!(prune().await, 1);
    assert!(!known("done").await && known("young").await && known("unknown").await);
    // Settled and not yet a tombstone: an effect is not removed before it is one.
    kept.advance(10 * HOUR_MS);
    assert_eq!(prune().await, 1, "the one that is a tombstone");
    assert!(known("unknown").await, "an unknown outcome is never forgotten");
    mine(effects.apply(begun(begin("done"))).await.unwrap().reply);
}

/// Continuing after the last orphan of a page reaches all of them, and the asking process's own effects hide
/// none.
async fn page_by_page(kept: Kept) {
    let effects = &*kept.effects;
    let asks = OwnerId::from("own_asks".to_owned());
    let by =
        |name: String, owner: &OwnerId| BeginRequest { class: EffectClass::N, owner: owner.clone(), ..begin(&name) };
    for number in 0..4 {
        effects.apply(begun(by(format!("own{number}"), &asks))).await.unwrap();
    }
    let gone = OwnerId::from("own_gone".to_owned());
    for number in 0..7 {
        effects.apply(begun(by(format!("gone{number}"), &gone))).await.unwrap();
        // Some are due at the same moment.
        kept.advance(number % 2);
    }
    kept.advance(HOUR_MS);
    let (mut query, mut seen) = (OrphanQuery::oldest(asks.clone(), 3), Vec::new());
    loop {
        let orphans = effects.orphans(query.clone()).await.unwrap();
        let (own, others): (Vec<_>, Vec<_>) = orphans.into_iter().partition(|orphan| orphan.owner == asks);
        assert_eq!(own.len(), 3, "counted apart");
        let Some(last) = others.last() else { break };
        query.after.insert(String::new(), last.orphan_cursor());
        seen.extend(others.iter().map(|orphan| orphan.key.client_key.to_string()));
    }
    seen.sort();
    let all: Vec<String> = (0..7).map(|number| format!("key:gone{number}")).collect();
    assert_eq!(seen, all);
}

/// A thousand orphans of one upstream hide no orphan of another upstream, and none that needs no upstream.
async fn fair(kept: Kept) {
    let effects = &*kept.effects;
    let at = |name: String, upstream: &str, class: EffectClass| {
        let mut begin = BeginRequest { class, ..begin(&name) };
        begin.order.upstream = upstream.to_owned();
        begin
    };
    for number in 0..100 {
        effects.apply(begun(at(format!("dead{number:03}"), "dead", EffectClass::K))).await.unwrap();
        kept.advance(1);
    }
    effects.apply(begun(at("live".to_owned(), "live", EffectClass::Q))).await.unwrap();
    effects.apply(begun(at("lost".to_owned(), "dead", EffectClass::N))).await.unwrap();
    kept.advance(HOUR_MS);
    let owner = OwnerId::from("own_b".to_owned());
    let orphans = effects.orphans(OrphanQuery::oldest(owner.clone(), 3)).await.unwrap();
    let mut keys: Vec<String> = orphans.iter().map(|effect| effect.key.client_key.to_string()).collect();
    keys.sort();
    assert_eq!(keys, ["key:dead000", "key:dead001", "key:dead002", "key:live", "key:lost"]);
    let lost = orphans.iter().find(|effect| effect.class == EffectClass::N).unwrap();
    let recovered = effects.apply(about(&lost.claim(), EffectEvent::Recover(owner.clone()))).await.unwrap();
    assert_eq!(recovered.reply, EffectReply::Unknown);
    assert_eq!(
        effects.orphans(OrphanQuery::oldest(owner, 1)).await.unwrap().len(),
        2,
        "settled effects hide no orphans"
    );
}

/// More reservations than a sweep looks at belong to effects with an unknown outcome; the one behind them is
/// still closed.
async fn sweeps_on(kept: Kept) {
    use super::budgets::pay;
    let ledger = &kept.both();
    let effect = |ledger: Arc<Both>, name: String, end: DispatchEnd| async move {
        let claim = mine(ledger.apply(begun(begin(&name))).await.unwrap().reply);
        ledger.apply(settled(&claim, end)).await.unwrap();
        ledger.book(pay(&format!("call_{name}"), Some(&claim.id), 1_000_000, 1)).await.unwrap();
    };
    let mut booking = tokio::task::JoinSet::new();
    for number in 0..crate::retention::HOLDS_EXAMINED_MAX + 10 {
        booking.spawn(effect(kept.both(), format!("k{number}"), DispatchEnd::Unknown("reset".to_owned())));
    }
    booking.join_all().await;
    kept.advance(1_000);
    effect(kept.both(), "done".to_owned(), DispatchEnd::Completed(answer("x"))).await;
    let mut settled = 0;
    for _ in 0..3 {
        settled += ledger.sweep(100).await.unwrap().settled;
    }
    assert_eq!(settled, 1);
}
