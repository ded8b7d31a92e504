//! Owners that are alive, dead, late or stopped, and answers that come after a takeover: what every store of
//! effects has to do. Issue 15, A1 and A6.

use std::{future::Future, pin::Pin};

use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{
    BeginRequest, DispatchEnd, EffectEvent, EffectReply, EffectState, EffectStore, EffectTarget, OrphanQuery, OwnerId,
    owner_silence_ms_max,
};

use super::{
    kept::{Kept, Place},
    samples::{HOUR_MS, about, answer, begin, begun, claim_first, key, mine, settled},
};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("an owner whose beat is late keeps what it begins", |kept| Box::pin(late_beats(kept))),
    ("an owner that never beat keeps what it begins while its lease lasts", |kept| Box::pin(no_beat(kept))),
    ("a claim is kept as long as its lease, whether or not its owner beats", |kept| Box::pin(late_claims(kept))),
    ("a live owner keeps a long call", |kept| Box::pin(long_calls(kept))),
    ("an owner takes back what none of its calls holds", |kept| Box::pin(own_leftovers(kept))),
    ("an answer after a takeover settles a keyed effect", |kept| Box::pin(late_answers(kept))),
    ("an answer that contradicts the ledger is kept", |kept| Box::pin(contradictions(kept))),
];

/// What only a store whose clock is not the process's clock has to do.
pub(super) const DURABLE_CASES: &[(&str, Case)] = &[
    ("a clock that goes back stops nothing", |kept| Box::pin(clock_back(kept))),
    ("a clock that leaps ahead ends nothing", |kept| Box::pin(clock_ahead(kept))),
];

fn owner(name: &str) -> OwnerId {
    OwnerId::from(name.to_owned())
}

fn by(name: &str, class: EffectClass, client_key: &str) -> BeginRequest {
    let mut begin = BeginRequest { owner: owner(name), class, ..begin(client_key) };
    begin.order.key_window_ms = Some(24 * HOUR_MS);
    begin
}

async fn reply(effects: &dyn EffectStore, begin: BeginRequest) -> EffectReply {
    effects.apply(begun(begin)).await.unwrap().reply
}

async fn state(effects: &dyn EffectStore, client_key: &str) -> EffectState {
    effects.find(EffectTarget::Key(key(client_key))).await.unwrap().unwrap().state
}

fn is_running(reply: &EffectReply) -> bool {
    matches!(reply, EffectReply::Running { .. })
}

async fn late_beats(kept: Kept) {
    let effects = &*kept.effects;
    effects.heartbeat(owner("late")).await.unwrap();
    kept.advance(owner_silence_ms_max() + 5_000);
    for class in [EffectClass::N, EffectClass::K] {
        let client_key = format!("{class:?}");
        let first = mine(reply(effects, by("late", class, &client_key)).await);
        let again = reply(effects, by("other", class, &client_key)).await;
        assert!(is_running(&again), "{class:?}: {again:?}");
        assert!(effects.orphans(OrphanQuery::oldest(owner("other"), 10)).await.unwrap().is_empty());
        let recovered = effects.apply(about(&first, EffectEvent::Recover(owner("other")))).await.unwrap().reply;
        assert_eq!(recovered, EffectReply::NotNow, "{class:?}");
        kept.advance(1_000);
        let done = effects.apply(settled(&first, DispatchEnd::Completed(answer("x")))).await.unwrap();
        assert_eq!(done.reply, EffectReply::Settled, "{class:?}");
    }
}

async fn no_beat(kept: Kept) {
    let effects = &*kept.effects;
    mine(reply(effects, by("unheard", EffectClass::N, "k")).await);
    kept.advance(owner_silence_ms_max() - 1_000);
    assert!(is_running(&reply(effects, by("other", EffectClass::N, "k")).await));
    kept.advance(2_000);
    assert_eq!(reply(effects, by("other", EffectClass::N, "k")).await, EffectReply::Unknown);
}

async fn late_claims(kept: Kept) {
    let effects = &*kept.effects;
    effects.heartbeat(owner("late")).await.unwrap();
    kept.advance(owner_silence_ms_max() + 5_000);
    let claimed = mine(reply(effects, claim_first(by("late", EffectClass::N, "k"))).await);
    assert!(is_running(&reply(effects, by("other", EffectClass::N, "k")).await));
    let fenced = effects.apply(about(&claimed, EffectEvent::Fence(claimed.clone()))).await.unwrap();
    mine(fenced.reply);
    assert!(is_running(&reply(effects, by("other", EffectClass::N, "k")).await));
}

async fn long_calls(kept: Kept) {
    let effects = &*kept.effects;
    effects.heartbeat(owner("live")).await.unwrap();
    let first = mine(reply(effects, by("live", EffectClass::N, "k")).await);
    // Long past its time, while its owner keeps beating.
    for _ in 0..6 {
        kept.advance(owner_silence_ms_max() - 1_000);
        effects.heartbeat(owner("live")).await.unwrap();
        assert!(is_running(&reply(effects, by("other", EffectClass::N, "k")).await));
        assert!(effects.orphans(OrphanQuery::oldest(owner("other"), 10)).await.unwrap().is_empty());
    }
    assert_eq!(
        effects.apply(settled(&first, DispatchEnd::Completed(answer("x")))).await.unwrap().reply,
        EffectReply::Settled
    );
}

async fn own_leftovers(kept: Kept) {
    let effects = &*kept.effects;
    effects.heartbeat(owner("live")).await.unwrap();
    let first = mine(reply(effects, by("live", EffectClass::N, "k")).await);
    kept.advance(owner_silence_ms_max() + 5_000);
    effects.heartbeat(owner("live")).await.unwrap();
    let own = effects.orphans(OrphanQuery::oldest(owner("live"), 10)).await.unwrap();
    assert_eq!(own.iter().map(|effect| &effect.id).collect::<Vec<_>>(), [&first.id]);
    assert!(effects.orphans(OrphanQuery::oldest(owner("other"), 10)).await.unwrap().is_empty());
    let recovered = effects.apply(about(&first, EffectEvent::Recover(owner("other")))).await.unwrap().reply;
    assert_eq!(recovered, EffectReply::NotNow);
    let recovered = effects.apply(about(&first, EffectEvent::Recover(owner("live")))).await.unwrap().reply;
    assert_eq!(recovered, EffectReply::Unknown);
}

async fn late_answers(kept: Kept) {
    let effects = &*kept.effects;
    let first = mine(reply(effects, by("stopped", EffectClass::K, "k")).await);
    kept.advance(owner_silence_ms_max() + 1_000);
    let taken = mine(reply(effects, by("other", EffectClass::K, "k")).await);
    assert_eq!(taken.epoch, first.epoch + 1);
    let late = effects.apply(settled(&first, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!(late.reply, EffectReply::Settled, "a late answer is evidence");
    assert_eq!(reply(effects, by("third", EffectClass::K, "k")).await, EffectReply::Replay(answer("x")));
    let same = effects.apply(settled(&taken, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!(same.reply, EffectReply::Settled);
    let other = effects.apply(settled(&taken, DispatchEnd::Completed(answer("y")))).await.unwrap();
    assert_eq!(other.reply, EffectReply::Stale, "the first answer stays");
    // An effect that cannot be repeated became unknown; its owner's answer settles it.
    let first = mine(reply(effects, by("stopped", EffectClass::N, "n")).await);
    kept.advance(owner_silence_ms_max() + 1_000);
    assert_eq!(reply(effects, by("other", EffectClass::N, "n")).await, EffectReply::Unknown);
    let late = effects.apply(settled(&first, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!((late.reply, state(effects, "n").await), (EffectReply::Settled, EffectState::Completed));
}

async fn contradictions(kept: Kept) {
    let effects = &*kept.effects;
    let first = mine(reply(effects, by("a", EffectClass::N, "k")).await);
    effects.apply(settled(&first, DispatchEnd::NotExecuted("refused".to_owned()))).await.unwrap();
    mine(reply(effects, by("b", EffectClass::N, "k")).await);
    let late = effects.apply(settled(&first, DispatchEnd::Completed(answer("x")))).await.unwrap();
    assert_eq!(late.reply, EffectReply::Contradicted);
    let found = effects.find(EffectTarget::Id(first.id)).await.unwrap().unwrap();
    assert_eq!(
        (found.state, found.conflict.map(|conflict| conflict.state)),
        (EffectState::Completed, Some(EffectState::Dispatching),)
    );
}

/// Ledger time goes on from where it was: orphans are found and accounts open as if the clock had not gone
/// back.
async fn clock_back(kept: Kept) {
    let effects = &*kept.effects;
    let claimed = || {
        let mut begin = claim_first(by("dead", EffectClass::N, "k"));
        begin.order.resources = vec!["account".to_owned()];
        begin
    };
    mine(reply(effects, claimed()).await);
    kept.jump(-i64::try_from(HOUR_MS).unwrap());
    effects.heartbeat(owner("live")).await.unwrap();
    assert!(is_running(&reply(effects, claimed()).await));
    kept.advance(11_000);
    assert_eq!(effects.orphans(OrphanQuery::oldest(owner("live"), 10)).await.unwrap().len(), 1);
    let mut next = by("live", EffectClass::N, "next");
    next.order.resources = vec!["account".to_owned()];
    mine(reply(effects, next).await);
}

/// However far the clock leaps: an answer is kept for its window, an owner is alive and a claim is good.
async fn clock_ahead(kept: Kept) {
    let effects = &*kept.effects;
    effects.heartbeat(owner("live")).await.unwrap();
    let done = mine(reply(effects, by("live", EffectClass::N, "done")).await);
    effects.apply(settled(&done, DispatchEnd::Completed(answer("x")))).await.unwrap();
    mine(reply(effects, by("live", EffectClass::N, "under way")).await);
    kept.jump(i64::try_from(2 * HOUR_MS).unwrap());
    assert_eq!(reply(effects, by("other", EffectClass::N, "done")).await, EffectReply::Replay(answer("x")));
    assert!(is_running(&reply(effects, by("other", EffectClass::N, "under way")).await));
    assert!(effects.orphans(OrphanQuery::oldest(owner("other"), 10)).await.unwrap().is_empty());
    assert_eq!(effects.expire(10).await.unwrap(), 0);
    // In ledger time, the window is over an hour later.
    kept.advance(HOUR_MS);
    assert_eq!(reply(effects, by("other", EffectClass::N, "done")).await, EffectReply::KeyExpired);
    assert!(!matches!(kept.place, Place::Memory(..)));
}
