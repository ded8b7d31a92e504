//! Where the records of calls under way are, and that none is lost on its way to `calls`: in the file, in the
//! shared database, and in a database of the previous version.

use std::{future::Future, pin::Pin};

use servanda_contract::{CallId, CallRecord, record::Outcome, tool::EffectClass};
use servanda_effects::{
    Journal as _,
    effect::{
        BeginRequest, Claim, DispatchEnd, EffectChange, EffectEvent, EffectReply, EffectState, EffectTarget,
        EffectWaitReason, OwnerId,
    },
};

use super::{
    kept::Kept,
    samples::{HOUR_MS, about, answer, begin, begun, claim_first, mine, record, settled},
};
use crate::{CallFilter, CallQuery, LedgerReader};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a call under way is found like any other", |kept| Box::pin(found_like_any_other(kept))),
    ("a record that comes without a change is the later one", |kept| Box::pin(by_itself(kept))),
    ("an effect that ends without a record leaves its call on record", |kept| Box::pin(ends_without_a_record(kept))),
    ("a call that takes an effect over leaves the other call on record", |kept| Box::pin(taken_over(kept))),
    ("a late answer finishes the record of an unknown outcome", |kept| Box::pin(late(kept))),
    ("a call that waits is on record as what it waits for", |kept| Box::pin(waiting(kept))),
];

async fn outcome(reader: &LedgerReader, call_id: &str) -> Option<Outcome> {
    let mut found = reader.find(&CallQuery::Id(call_id.to_owned()), 10).await.unwrap();
    found.retain(|record| record.call_id.as_str() == call_id);
    assert!(found.len() <= 1, "{call_id} is on record once: {found:?}");
    let summaries = reader.calls(&CallFilter::default(), 100).await.unwrap().calls;
    let listed = summaries.into_iter().find(|call| call.call_id == call_id);
    let outcome = found.first().map(|record| record.outcome);
    assert_eq!(listed.map(|call| call.outcome), outcome.map(Outcome::name), "{call_id}");
    outcome
}

fn recorded(change: EffectChange, call_id: &str, outcome: Outcome) -> EffectChange {
    EffectChange { record: Some(record(call_id, outcome, 1)), ..change }
}

async fn found_like_any_other(kept: Kept) {
    let reader = kept.reader().await;
    let mut strange: CallRecord = record("call_k", Outcome::Dispatching, 7);
    strange.tool = "no\0such'tool\\u0000".to_owned();
    let begun = EffectChange { record: Some(strange.clone()), ..begun(begin("k")) };
    let claim = mine(kept.effects.apply(begun).await.unwrap().reply);
    kept.ledger().record_finished(record("call_other", Outcome::Refused, 9), None, true).await.unwrap();
    assert_eq!(reader.find(&CallQuery::Id("call_k".to_owned()), 2).await.unwrap(), [strange]);
    let listed = reader.calls(&CallFilter::default(), 10).await.unwrap().calls;
    let ids: Vec<(&str, u64)> = listed.iter().map(|call| (call.call_id.as_str(), call.received_ms)).collect();
    assert_eq!(ids, [("call_other", 9), ("call_k", 7)], "newest first, wherever they are");
    assert_eq!(reader.count().await.unwrap(), 2);
    let done = recorded(settled(&claim, DispatchEnd::Completed(answer("x"))), "call_k", Outcome::Completed);
    kept.effects.apply(done).await.unwrap();
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Completed));
    assert_eq!(reader.count().await.unwrap(), 2);
}

async fn by_itself(kept: Kept) {
    let reader = kept.reader().await;
    let claim = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    kept.ledger().record_finished(record("call_k", Outcome::Unknown, 1), None, true).await.unwrap();
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Unknown));
    assert_eq!(reader.count().await.unwrap(), 1);
    // Neither moving the record that was stored with the effect nor another end overwrites it.
    let done = recorded(settled(&claim, DispatchEnd::Completed(answer("x"))), "call_resent", Outcome::Completed);
    kept.effects.apply(done).await.unwrap();
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Unknown));
    assert_eq!(outcome(&reader, "call_resent").await, Some(Outcome::Completed));
}

async fn ends_without_a_record(kept: Kept) {
    let reader = kept.reader().await;
    let ends = [
        (DispatchEnd::Completed(answer("x")), Outcome::Completed),
        (DispatchEnd::Failed(answer("no")), Outcome::ToolError),
        (DispatchEnd::NotExecuted("refused".to_owned()), Outcome::NotExecuted),
        (DispatchEnd::Unknown("reset".to_owned()), Outcome::Dispatching),
    ];
    for (number, (end, expected)) in ends.into_iter().enumerate() {
        let claim = mine(kept.effects.apply(begun(begin(&format!("k{number}")))).await.unwrap().reply);
        kept.effects.apply(settled(&claim, end)).await.unwrap();
        assert_eq!(outcome(&reader, &format!("call_k{number}")).await, Some(expected));
    }
    // The same by another gateway, which has to read first.
    let other = kept.replica().await;
    let claim = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    other.effects.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Completed));
    // A claim has sent nothing, and has no record of its own to lose.
    let quiet = EffectChange { record: None, ..begun(claim_first(begin("claimed"))) };
    let claim = mine(kept.effects.apply(quiet).await.unwrap().reply);
    kept.effects.apply(about(&claim, EffectEvent::Release(claim.clone(), "given up".to_owned()))).await.unwrap();
    assert_eq!(reader.count().await.unwrap(), 5);
}

async fn taken_over(kept: Kept) {
    let reader = kept.reader().await;
    let keyed = |call_id: &str| {
        let mut begin = BeginRequest { class: EffectClass::K, call_id: CallId::from(call_id.to_owned()), ..begin("k") };
        begin.order.timeout_ms = 1_000;
        begin
    };
    kept.effects.apply(begun(keyed("call_1"))).await.unwrap();
    kept.advance(HOUR_MS / 2);
    // Taken over by a call that wants it, and then by recovery.
    let second = mine(kept.effects.apply(begun(keyed("call_2"))).await.unwrap().reply);
    assert_eq!(outcome(&reader, "call_1").await, Some(Outcome::Dispatching));
    assert_eq!(outcome(&reader, "call_2").await, Some(Outcome::Dispatching));
    kept.advance(60_000);
    let recovery = EffectEvent::Recover(OwnerId::from("own_b".to_owned()));
    let third = mine(kept.effects.apply(about(&second, recovery)).await.unwrap().reply);
    assert_eq!(outcome(&reader, "call_2").await, Some(Outcome::Dispatching), "its record stays with it");
    let done = recorded(settled(&third, DispatchEnd::Completed(answer("x"))), "call_resent", Outcome::Completed);
    assert_eq!(kept.effects.apply(done).await.unwrap().reply, EffectReply::Settled);
    for (call_id, expected) in
        [("call_1", Outcome::Dispatching), ("call_2", Outcome::Completed), ("call_resent", Outcome::Completed)]
    {
        assert_eq!(outcome(&reader, call_id).await, Some(expected), "{call_id}");
    }
    assert_eq!(reader.count().await.unwrap(), 3);
}

async fn late(kept: Kept) {
    let reader = kept.reader().await;
    let claim = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    kept.effects.apply(settled(&claim, DispatchEnd::Unknown("silent".to_owned()))).await.unwrap();
    let done = recorded(settled(&claim, DispatchEnd::Completed(answer("x"))), "call_k", Outcome::Completed);
    kept.effects.apply(done).await.unwrap();
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Completed));
}

async fn waiting(kept: Kept) {
    let reader = kept.reader().await;
    let claim = mine(kept.effects.apply(begun(begin("k"))).await.unwrap().reply);
    let awaits = DispatchEnd::Awaits(EffectWaitReason::Task("t".to_owned()), u64::MAX / 4);
    kept.effects.apply(recorded(settled(&claim, awaits), "call_k", Outcome::TaskCreated)).await.unwrap();
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::TaskCreated));
    let done = recorded(settled(&claim, DispatchEnd::Completed(answer("x"))), "call_k", Outcome::Completed);
    kept.effects.apply(done).await.unwrap();
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Completed));
}

/// What a gateway of the previous version left behind in version 3 of the schema: an effect under way, its
/// record in `calls`.
pub(super) struct Left {
    pub(super) effect_id: String,
    pub(super) body: String,
    pub(super) record: String,
}

pub(super) fn left_behind() -> Left {
    let begin = begin("k");
    let around = servanda_effects::effect::EffectContext::at(servanda_effects::effect::LedgerNow::plain(1_000));
    let effect = servanda_effects::effect::step(None, &EffectEvent::Begin(Box::new(begin)), &around).change.unwrap();
    assert_eq!(effect.state, EffectState::Dispatching);
    Left {
        effect_id: effect.id.to_string(),
        body: serde_json::to_string(&effect).unwrap(),
        record: serde_json::to_string(&record("call_k", Outcome::Dispatching, 1)).unwrap(),
    }
}

/// The effect is found, and ends as usual.
pub(super) async fn comes_over(kept: Kept, effect_id: &str) {
    let reader = kept.reader().await;
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Dispatching));
    let effect = kept.effects.find(EffectTarget::Key(super::samples::key("k"))).await.unwrap().unwrap();
    assert_eq!((effect.id.as_str(), effect.state), (effect_id, EffectState::Dispatching));
    let claim = Claim { id: effect.id, epoch: 1 };
    let done = recorded(settled(&claim, DispatchEnd::Completed(answer("x"))), "call_k", Outcome::Completed);
    assert_eq!(kept.effects.apply(done).await.unwrap().reply, EffectReply::Settled);
    assert_eq!(outcome(&reader, "call_k").await, Some(Outcome::Completed));
    assert_eq!(reader.count().await.unwrap(), 1);
}
