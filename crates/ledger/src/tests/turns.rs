//! No two effects of a tenant that change the same resource are under way at once, whichever gateway performs
//! them: what every store of effects has to do.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use servanda_contract::tool::EffectClass;
use servanda_effects::effect::{
    BeginRequest, DispatchEnd, EffectEvent, EffectReply, EffectState, EffectStore, EffectTarget, EffectWaitReason,
    OwnerId, owner_silence_ms_max,
};
use tokio::task::JoinSet;

use super::{
    kept::{Kept, Place},
    samples::{about, answer, begin, begun, claim_first, key, mine, settled},
};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a call that changes the same resource waits until the other is settled", |kept| Box::pin(waits(kept))),
    ("a claim blocks others while it is good", |kept| Box::pin(claims(kept))),
    ("an abandoned effect blocks others until it is settled", |kept| Box::pin(left_behind(kept))),
    ("a call that takes an effect over waits for others too", |kept| Box::pin(taken_over(kept))),
    ("of many calls that change the same at two gateways, one is under way", |kept| Box::pin(never_two(kept))),
    ("the same holds for gateways that have just started", |kept| Box::pin(newcomers(kept))),
];

fn changing(client_key: &str, resources: &[&str]) -> BeginRequest {
    let mut begin = begin(client_key);
    begin.order.resources = resources.iter().map(|&name| name.to_owned()).collect();
    begin
}

async fn reply(effects: &dyn EffectStore, begin: BeginRequest) -> EffectReply {
    effects.apply(begun(begin)).await.unwrap().reply
}

async fn waits(kept: Kept) {
    let other = kept.replica().await;
    let effects = &*kept.effects;
    let first = mine(reply(effects, changing("first", &["invoice/1", "ledger"])).await);
    let blocked = EffectReply::Blocked(first.id.clone());
    for (number, resources) in [&["invoice/1"][..], &["invoice/*"], &["*"], &["x", "ledger"]].iter().enumerate() {
        for effects in [effects, &*other.effects] {
            assert_eq!(reply(effects, changing(&format!("blocked{number}"), resources)).await, blocked);
        }
    }
    assert_eq!(effects.find(EffectTarget::Key(key("blocked0"))).await.unwrap(), None, "nothing of it is stored");
    mine(reply(effects, changing("another", &["invoice/2"])).await);
    mine(reply(effects, begin("nothing by name")).await);
    let mut elsewhere = changing("elsewhere", &["invoice/1"]);
    elsewhere.key.tenant = "other".to_owned();
    mine(reply(effects, elsewhere).await);
    let mut allowed = changing("allowed", &["invoice/1"]);
    allowed.order.overlaps = true;
    mine(reply(effects, allowed).await);
    let again = reply(effects, changing("first", &["invoice/1", "ledger"])).await;
    assert!(matches!(again, EffectReply::Running { .. }), "an effect does not block itself: {again:?}");
    // A task is still running and blocks; an effect that waits for input does not.
    let until_ms = u64::MAX / 4;
    effects
        .apply(settled(&first, DispatchEnd::Awaits(EffectWaitReason::Task("t".to_owned()), until_ms)))
        .await
        .unwrap();
    assert_eq!(reply(&*other.effects, changing("b", &["invoice/1"])).await, blocked);
    effects.apply(settled(&first, DispatchEnd::Completed(answer("x")))).await.unwrap();
    let second = mine(reply(&*other.effects, changing("b", &["invoice/1"])).await);
    let replayed = reply(effects, changing("first", &["invoice/1", "ledger"])).await;
    assert_eq!(replayed, EffectReply::Replay(answer("x")), "a stored answer is replayed without waiting");
    other.effects.apply(settled(&second, DispatchEnd::Unknown("reset".to_owned()))).await.unwrap();
    mine(reply(effects, changing("c", &["invoice/1"])).await);
}

async fn claims(kept: Kept) {
    let effects = &*kept.effects;
    let claim = mine(reply(effects, claim_first(changing("claimed", &["invoice/1"]))).await);
    assert_eq!(reply(effects, changing("b", &["invoice/1"])).await, EffectReply::Blocked(claim.id.clone()));
    kept.advance(10_500);
    let second = mine(reply(effects, changing("b", &["invoice/1"])).await);
    let fenced = effects.apply(about(&claim, EffectEvent::Fence(claim.clone()))).await.unwrap();
    assert_eq!(fenced.reply, EffectReply::Stale, "its time is over, and another has begun");
    let again = reply(effects, changing("claimed", &["invoice/1"])).await;
    assert_eq!(again, EffectReply::Blocked(second.id.clone()));
    effects.apply(settled(&second, DispatchEnd::Completed(answer("x")))).await.unwrap();
    mine(reply(effects, changing("claimed", &["invoice/1"])).await);
}

async fn left_behind(kept: Kept) {
    let effects = &*kept.effects;
    effects.heartbeat(OwnerId::from("own_a".to_owned())).await.unwrap();
    let dead = mine(reply(effects, changing("dead", &["invoice/1"])).await);
    kept.advance(owner_silence_ms_max() + 60_000);
    assert_eq!(reply(effects, changing("b", &["invoice/1"])).await, EffectReply::Blocked(dead.id.clone()));
    let recovery = EffectEvent::Recover(OwnerId::from("own_b".to_owned()));
    assert_eq!(effects.apply(about(&dead, recovery)).await.unwrap().reply, EffectReply::Unknown);
    mine(reply(effects, changing("b", &["invoice/1"])).await);
}

async fn taken_over(kept: Kept) {
    let effects = &*kept.effects;
    let keyed = || BeginRequest { class: EffectClass::K, ..changing("first", &["invoice/1"]) };
    let first = mine(reply(effects, keyed()).await);
    effects.apply(settled(&first, DispatchEnd::Unknown("reset".to_owned()))).await.unwrap();
    let second = mine(reply(effects, changing("second", &["invoice/*"])).await);
    assert_eq!(reply(effects, keyed()).await, EffectReply::Blocked(second.id.clone()));
    effects.apply(settled(&second, DispatchEnd::NotExecuted("refused".to_owned()))).await.unwrap();
    mine(reply(effects, keyed()).await);
}

/// A call that gets its effect checks that no other is under way, and settles the effect; a blocked call tries again.
async fn never_two(kept: Kept) {
    let other = kept.replica().await;
    let (under_way, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let names = ["invoice/1", "invoice/*", "*", "invoice/1/lines"];
    let mut tasks = JoinSet::new();
    for number in 0..48_usize {
        let effects = if number % 2 == 0 { kept.effects.clone() } else { other.effects.clone() };
        let (under_way, done) = (under_way.clone(), done.clone());
        // The last name does not overlap the first, so each comes together with a name that overlaps all.
        let resources = [names[number % names.len()], "invoice/9"];
        tasks.spawn(async move {
            for _ in 0..2_000 {
                match reply(&*effects, changing(&format!("k{number}"), &resources)).await {
                    EffectReply::Mine(claim) => {
                        assert_eq!(under_way.fetch_add(1, Ordering::SeqCst), 0, "two are under way at once");
                        tokio::task::yield_now().await;
                        under_way.fetch_sub(1, Ordering::SeqCst);
                        effects.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await.unwrap();
                        done.fetch_add(1, Ordering::SeqCst);
                        return;
                    }
                    EffectReply::Blocked(_) => tokio::task::yield_now().await,
                    other => panic!("{other:?}"),
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(done.load(Ordering::SeqCst), 48, "every call gets its turn");
    let state = kept.effects.find(EffectTarget::Key(key("k0"))).await.unwrap().unwrap().state;
    assert_eq!(state, EffectState::Completed);
    assert!(matches!(kept.place, Place::Memory(..)) || !Arc::ptr_eq(&kept.effects, &other.effects));
}

/// A gateway's first transaction takes longer: its lock has to last until it is done.
async fn newcomers(kept: Kept) {
    for round in 0..8 {
        let resource = format!("invoice/{round}");
        let mut replicas = Vec::new();
        for _ in 0..4 {
            replicas.push(kept.replica().await);
        }
        let mut tasks = JoinSet::new();
        for (number, replica) in replicas.iter().enumerate() {
            let (effects, resource) = (replica.effects.clone(), resource.clone());
            tasks.spawn(async move {
                let begin = changing(&format!("k{round}_{number}"), &[&resource]);
                matches!(reply(&*effects, begin).await, EffectReply::Mine(_))
            });
        }
        let begun = tasks.join_all().await.into_iter().filter(|is_mine| *is_mine).count();
        assert_eq!(begun, 1, "of those who change {resource}");
    }
}
