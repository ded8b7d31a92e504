//! What every store of effects has to do: the one in memory, the file, the shared database.

use std::{future::Future, pin::Pin};

use bytes::Bytes;
use servanda_contract::{CallId, record::Outcome, tool::EffectClass};
use servanda_effects::effect::{
    AppliedChange, BeginRequest, Claim, Conflict, DispatchEnd, Effect, EffectChange, EffectEvent, EffectId,
    EffectQuery, EffectReply, EffectState, EffectStore, EffectTarget, EffectWaitReason, ManualSettlement, OrphanQuery,
    OwnerId, StoredAnswer, owner_silence_ms_max,
};
use tokio::task::JoinSet;

use super::{
    filters,
    kept::{Kept, Place},
    notices,
    samples::{HOUR_MS, about, answer, begin, begin_keyless, begun, claim_first, digest, key, mine, record, settled},
    settlements,
};

type Case = fn(Kept) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// The suite.
pub(super) const CASES: &[(&str, Case)] = &[
    ("a life is kept and read back equal", |kept| Box::pin(a_life(kept))),
    ("every end leads where it should", |kept| Box::pin(every_end(kept))),
    ("a person settles the dispatch that they looked at", |kept| Box::pin(settlements::stale(kept))),
    ("of many calls that begin at once, one gets the effect", |kept| Box::pin(one_of_many(kept))),
    ("of two gateways, one gets the effect", |kept| Box::pin(two_gateways(kept))),
    ("a record is written if and only if the effect changes", |kept| Box::pin(records(kept))),
    ("notices are written with the end of an effect, and with no other change", |kept| {
        Box::pin(notices::notices(kept))
    }),
    ("a restart keeps everything", |kept| Box::pin(restart(kept))),
    ("expiry and a retry cannot cross", |kept| Box::pin(expiry(kept))),
    ("effects whose key cannot come again are forgotten", |kept| Box::pin(forgotten(kept))),
    ("a blind retry finds its twin", |kept| Box::pin(twins(kept))),
    ("orphans are found", |kept| Box::pin(orphans(kept))),
    ("an owner that is silent is gone", |kept| Box::pin(heartbeats(kept))),
    ("lists have what was asked for, newest first", |kept| Box::pin(lists(kept))),
    ("lists have what the conditions say, page by page", |kept| Box::pin(filters::filters(kept))),
    ("big answers and strange keys come back as they were", |kept| Box::pin(big_and_strange(kept))),
    ("one bad event takes no other with it", |kept| Box::pin(one_bad_event(kept))),
    ("a zombie changes nothing", |kept| Box::pin(zombie(kept))),
    ("the same events come to the same as in memory", |kept| Box::pin(as_in_memory(kept))),
];

/// Applies a change, and checks that the stored effect equals the returned one.
pub(super) async fn apply(effects: &dyn EffectStore, change: EffectChange) -> AppliedChange {
    let target = change.target.clone();
    let applied = effects.apply(change).await.unwrap();
    assert_eq!(effects.find(target).await.unwrap().as_ref(), applied.effect.as_deref());
    applied
}

async fn state_of(effects: &dyn EffectStore, id: &EffectId) -> EffectState {
    effects.find(EffectTarget::Id(id.clone())).await.unwrap().unwrap().state
}

async fn a_life(kept: Kept) {
    let effects = &*kept.effects;
    let claimed = apply(effects, begun(claim_first(begin("k")))).await;
    let claim = mine(claimed.reply);
    let effect = claimed.effect.unwrap();
    assert_eq!((effect.state, effect.epoch), (EffectState::Claimed, 1));
    let fenced = apply(effects, about(&claim, EffectEvent::Fence(claim.clone()))).await;
    assert_eq!(mine(fenced.reply), claim);
    let fence_again = apply(effects, about(&claim, EffectEvent::Fence(claim.clone()))).await;
    assert_eq!(fence_again.reply, EffectReply::Stale, "I1: bytes leave once");
    let running = apply(effects, begun(begin("k"))).await;
    assert!(matches!(running.reply, EffectReply::Running { .. }), "{:?}", running.reply);
    let done = apply(effects, settled(&claim, DispatchEnd::Completed(answer("{\"paid\":true}")))).await;
    assert_eq!(done.reply, EffectReply::Settled);
    let replayed = apply(effects, begun(begin("k"))).await;
    assert_eq!(replayed.reply, EffectReply::Replay(answer("{\"paid\":true}")));
    let other = BeginRequest { request: digest("another payload"), ..begin("k") };
    assert_eq!(apply(effects, begun(other)).await.reply, EffectReply::Mismatch);
    // I5: callers never meet another caller's key.
    for part in 0..4 {
        let mut begin = begin("k");
        match part {
            0 => begin.key.tenant = "other".to_owned(),
            1 => begin.key.principal = "bob".to_owned(),
            2 => begin.key.tool = "bank.take".to_owned(),
            _ => begin.key.contract_major = 2,
        }
        mine(apply(effects, begun(begin)).await.reply);
    }
}

async fn every_end(kept: Kept) {
    let effects = &*kept.effects;
    let by_hand = |completed| {
        let (by, evidence) = ("ada".to_owned(), "the bank's list".to_owned());
        EffectEvent::SettleByHand(ManualSettlement { epoch: None, completed, by, evidence })
    };
    let unknown = || DispatchEnd::Unknown("reset".to_owned());
    let ends = [
        (DispatchEnd::Completed(answer("x")), None, EffectState::Completed),
        (DispatchEnd::Failed(answer("no")), None, EffectState::FailedFinal),
        (DispatchEnd::NotExecuted("refused".to_owned()), None, EffectState::FailedRetryable),
        (unknown(), None, EffectState::OutcomeUnknown),
        (unknown(), Some(by_hand(true)), EffectState::Completed),
        (unknown(), Some(by_hand(false)), EffectState::FailedRetryable),
        (DispatchEnd::Awaits(EffectWaitReason::Task("t".to_owned()), u64::MAX / 4), None, EffectState::Dispatching),
    ];
    for (number, (end, then, state)) in ends.into_iter().enumerate() {
        let claim = mine(apply(effects, begun(begin(&format!("k{number}")))).await.reply);
        assert_eq!(apply(effects, settled(&claim, end)).await.reply, EffectReply::Settled);
        if let Some(event) = then {
            assert_eq!(apply(effects, about(&claim, event)).await.reply, EffectReply::Settled);
        }
        assert_eq!(state_of(effects, &claim.id).await, state, "{number}");
    }
    // I4: a late answer of the same epoch settles an unknown outcome.
    let claim = mine(apply(effects, begun(begin("late"))).await.reply);
    apply(effects, settled(&claim, unknown())).await;
    assert_eq!(apply(effects, begun(begin("late"))).await.reply, EffectReply::Unknown);
    assert_eq!(
        apply(effects, settled(&claim, DispatchEnd::Completed(answer("late")))).await.reply,
        EffectReply::Settled
    );
    assert_eq!(apply(effects, begun(begin("late"))).await.reply, EffectReply::Replay(answer("late")));
    let nobody = Claim { id: EffectId::new(), epoch: 1 };
    assert_eq!(apply(effects, settled(&nobody, unknown())).await.reply, EffectReply::NotFound);
    let strange = Claim { id: EffectId::from("eff_\0'".to_owned()), epoch: 1 };
    assert_eq!(apply(effects, settled(&strange, unknown())).await.reply, EffectReply::NotFound);
}

async fn one_of_many(kept: Kept) {
    let mut tasks = JoinSet::new();
    for _ in 0..64 {
        let effects = kept.effects.clone();
        tasks.spawn(async move { effects.apply(begun(begin("k"))).await.unwrap().reply });
    }
    let replies = tasks.join_all().await;
    let mine = replies.iter().filter(|reply| matches!(reply, EffectReply::Mine(_))).count();
    let running = replies.iter().filter(|reply| matches!(reply, EffectReply::Running { .. })).count();
    assert_eq!((mine, running), (1, 63));
}

async fn two_gateways(kept: Kept) {
    let other = kept.replica().await;
    let mut tasks = JoinSet::new();
    for number in 0..200_u32 {
        let effects = if number % 2 == 0 { kept.effects.clone() } else { other.effects.clone() };
        tasks.spawn(async move {
            let client_key = format!("k{}", number / 4);
            let call_id = CallId::from(format!("call_{number}"));
            let applied = effects.apply(begun(BeginRequest { call_id, ..begin(&client_key) })).await.unwrap();
            matches!(applied.reply, EffectReply::Mine(_)).then(|| (client_key, format!("call_{number}")))
        });
    }
    let mut won: Vec<(String, String)> = tasks.join_all().await.into_iter().flatten().collect();
    won.sort();
    let mut calls: Vec<String> = won.iter().map(|(_, call_id)| call_id.clone()).collect();
    won.dedup_by(|one, other| one.0 == other.0);
    assert_eq!((won.len(), calls.len()), (50, 50), "every key belongs to exactly one gateway");
    calls.sort();
    assert_eq!(kept.recorded().await, calls, "a call that did not get the effect left no record");
}

async fn records(kept: Kept) {
    let effects = &*kept.effects;
    let with_record = |change: EffectChange, call_id: &str| EffectChange {
        record: Some(record(call_id, Outcome::Completed, 1)),
        quarantine: Some(Bytes::from_static(b"kept back")),
        ..change
    };
    let claim = mine(apply(effects, begun(begin("k"))).await.reply);
    assert_eq!(kept.recorded().await, ["call_k"]);
    apply(effects, with_record(begun(begin("k")), "call_running")).await;
    let old = Claim { epoch: 0, ..claim.clone() };
    apply(effects, with_record(settled(&old, DispatchEnd::Unknown("late".to_owned())), "call_stale")).await;
    apply(effects, with_record(settled(&claim, DispatchEnd::Completed(answer("x"))), "call_done")).await;
    apply(effects, with_record(begun(begin("k")), "call_replayed")).await;
    assert_eq!(kept.recorded().await, ["call_done", "call_k"]);
    if !matches!(kept.place, Place::Memory(..)) {
        let reader = kept.reader().await;
        let kept_back = async |call_id| reader.quarantined(call_id).await.unwrap().map(|kept| kept.body);
        assert_eq!(kept_back("call_done").await.as_deref(), Some(&b"kept back"[..]));
        assert_eq!(kept_back("call_stale").await, None);
    }
}

async fn restart(kept: Kept) {
    let mut before = Vec::new();
    for (number, end) in
        [DispatchEnd::Completed(answer("x")), DispatchEnd::Unknown("reset".to_owned())].into_iter().enumerate()
    {
        let claim = mine(kept.effects.apply(begun(begin(&format!("k{number}")))).await.unwrap().reply);
        before.extend(kept.effects.apply(settled(&claim, end)).await.unwrap().effect);
    }
    before.extend(kept.effects.apply(begun(claim_first(begin("claimed")))).await.unwrap().effect);
    // Not closed: what was acknowledged is durable without closing.
    let again = kept.replica().await;
    for effect in before {
        assert_eq!(again.effects.find(EffectTarget::Key(effect.key.clone())).await.unwrap().as_ref(), Some(&*effect));
    }
}

async fn expiry(kept: Kept) {
    for number in 0..20 {
        let claim = mine(kept.effects.apply(begun(begin(&format!("k{number}")))).await.unwrap().reply);
        kept.effects.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await.unwrap();
    }
    let unknown = mine(kept.effects.apply(begun(begin("unknown"))).await.unwrap().reply);
    kept.effects.apply(settled(&unknown, DispatchEnd::Unknown("reset".to_owned()))).await.unwrap();
    assert_eq!(kept.effects.expire(100).await.unwrap(), 0, "their time is not over");
    kept.advance(HOUR_MS + 1_000);
    let other = kept.replica().await;
    if !matches!(kept.place, Place::Memory(..)) {
        other.advance(HOUR_MS + 1_000);
    }
    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let effects = kept.effects.clone();
        tasks.spawn(async move { effects.apply(begun(begin(&format!("k{number}")))).await.unwrap().reply });
        let effects = other.effects.clone();
        tasks.spawn(async move { effects.expire(3).await.map(|_| EffectReply::KeyExpired).unwrap() });
    }
    for reply in tasks.join_all().await {
        assert_eq!(reply, EffectReply::KeyExpired, "I7: never a second run");
    }
    while kept.effects.expire(100).await.unwrap() > 0 {}
    for number in 0..20 {
        let tombstone = kept.effects.find(EffectTarget::Key(key(&format!("k{number}")))).await.unwrap().unwrap();
        assert_eq!((tombstone.state, tombstone.answer), (EffectState::Expired, None));
        assert!(tombstone.order.arguments.is_empty(), "a tombstone has no body");
    }
    let state = state_of(&*kept.effects, &unknown.id).await;
    assert_eq!(state, EffectState::OutcomeUnknown, "an unknown outcome is not forgotten");
}

async fn forgotten(kept: Kept) {
    let claim = mine(kept.effects.apply(begun(begin_keyless("call_1"))).await.unwrap().reply);
    kept.effects.apply(settled(&claim, DispatchEnd::Completed(answer("x")))).await.unwrap();
    kept.advance(HOUR_MS + 1_000);
    assert_eq!(kept.effects.expire(100).await.unwrap(), 1);
    assert_eq!(kept.effects.find(EffectTarget::Id(claim.id)).await.unwrap(), None);
}

async fn twins(kept: Kept) {
    let effects = &*kept.effects;
    let first = mine(apply(effects, begun(begin_keyless("call_1"))).await.reply);
    mine(apply(effects, begun(begin_keyless("call_2"))).await.reply);
    apply(effects, settled(&first, DispatchEnd::Unknown("reset".to_owned()))).await;
    assert_eq!(apply(effects, begun(begin_keyless("call_3"))).await.reply, EffectReply::Twin(first.id.clone()));
    mine(apply(effects, begun(BeginRequest { request: digest("other"), ..begin_keyless("call_4") })).await.reply);
    let mut others = begin_keyless("call_5");
    others.key.principal = "bob".to_owned();
    mine(apply(effects, begun(others)).await.reply);
    mine(apply(effects, begun(begin("a key says that it is meant"))).await.reply);
    apply(effects, settled(&first, DispatchEnd::Completed(answer("late")))).await;
    mine(apply(effects, begun(begin_keyless("call_6"))).await.reply);
}

async fn orphans(kept: Kept) {
    let effects = &*kept.effects;
    let owner = OwnerId::from("own_b".to_owned());
    let found = async || {
        let orphans = effects.orphans(OrphanQuery::oldest(owner.clone(), 100)).await.unwrap();
        let mut keys: Vec<String> = orphans.iter().map(|effect| effect.key.client_key.to_string()).collect();
        keys.sort();
        keys
    };
    let live = OwnerId::from("own_live".to_owned());
    let slow = || BeginRequest { owner: live.clone(), ..begin("slow") };
    apply(effects, begun(claim_first(begin("claimed")))).await;
    apply(effects, begun(begin("sent"))).await;
    apply(effects, begun(slow())).await;
    let done = mine(apply(effects, begun(begin("done"))).await.reply);
    apply(effects, settled(&done, DispatchEnd::Completed(answer("x")))).await;
    assert_eq!(found().await, Vec::<String>::new());
    kept.advance(10_500);
    assert_eq!(found().await, ["key:claimed"]);
    kept.advance(owner_silence_ms_max() - 10_000);
    effects.heartbeat(live.clone()).await.unwrap();
    assert_eq!(found().await, ["key:claimed", "key:sent"]);
    assert_eq!(effects.orphans(OrphanQuery::oldest(owner.clone(), 1)).await.unwrap().len(), 1);
    for effect in effects.orphans(OrphanQuery::oldest(owner.clone(), 100)).await.unwrap() {
        apply(effects, about(&effect.claim(), EffectEvent::Recover(owner.clone()))).await;
    }
    assert_eq!(found().await, Vec::<String>::new());
    let state = async |client_key| effects.find(EffectTarget::Key(key(client_key))).await.unwrap().unwrap().state;
    assert_eq!(state("claimed").await, EffectState::FailedRetryable);
    assert_eq!(state("sent").await, EffectState::OutcomeUnknown, "I3: class N is never sent again");
    assert_eq!(state("slow").await, EffectState::Dispatching);
}

async fn heartbeats(kept: Kept) {
    let effects = &*kept.effects;
    let (here, away) = (OwnerId::from("own_here".to_owned()), OwnerId::from("own_away".to_owned()));
    let long = |client_key: &str, owner: &OwnerId, class| {
        let mut begin = BeginRequest { owner: owner.clone(), class, ..begin(client_key) };
        begin.order.timeout_ms = HOUR_MS;
        begin
    };
    effects.heartbeat(here.clone()).await.unwrap();
    effects.heartbeat(away.clone()).await.unwrap();
    apply(effects, begun(long("here", &here, EffectClass::N))).await;
    apply(effects, begun(long("away", &away, EffectClass::N))).await;
    apply(effects, begun(long("asked", &away, EffectClass::Q))).await;
    let waits = mine(apply(effects, begun(long("task", &away, EffectClass::N))).await.reply);
    apply(effects, settled(&waits, DispatchEnd::Awaits(EffectWaitReason::Task("t".to_owned()), HOUR_MS))).await;
    kept.advance(owner_silence_ms_max() + 1_000);
    effects.heartbeat(here.clone()).await.unwrap();
    let orphans = effects.orphans(OrphanQuery::oldest(OwnerId::from("own_third".to_owned()), 100)).await.unwrap();
    let keys: Vec<String> = orphans.iter().map(|effect| effect.key.client_key.to_string()).collect();
    assert_eq!(keys, ["key:away"], "for class Q only the time counts, and an effect that waits needs no owner");
    let again = apply(effects, begun(long("here", &here, EffectClass::N))).await;
    assert!(matches!(again.reply, EffectReply::Running { .. }), "{:?}", again.reply);
    let again = apply(effects, begun(long("away", &here, EffectClass::N))).await;
    assert_eq!(again.reply, EffectReply::Unknown);
}

async fn lists(kept: Kept) {
    let mut ids = Vec::new();
    for number in 0..6 {
        let claim = mine(kept.effects.apply(begun(begin(&format!("k{number}")))).await.unwrap().reply);
        if number % 2 == 0 {
            kept.effects.apply(settled(&claim, DispatchEnd::Unknown("reset".to_owned()))).await.unwrap();
        }
        ids.insert(0, claim.id);
    }
    let listed = async |states: &[EffectState], limit| {
        let query = EffectQuery { states: states.to_vec(), limit, ..EffectQuery::default() };
        kept.effects.list(query).await.unwrap().into_iter().map(|effect| effect.id).collect::<Vec<_>>()
    };
    assert_eq!(listed(&[], 100).await, ids);
    assert_eq!(listed(&[], 2).await, ids[..2]);
    let unknown = [ids[1].clone(), ids[3].clone(), ids[5].clone()];
    assert_eq!(listed(&[EffectState::OutcomeUnknown], 100).await, unknown);
    assert_eq!(listed(&[EffectState::OutcomeUnknown, EffectState::Dispatching], 100).await, ids);
    assert!(listed(&[EffectState::Expired], 100).await.is_empty());
}

async fn big_and_strange(kept: Kept) {
    let effects = &*kept.effects;
    let big = Bytes::from(vec![b'x'; 5 << 20]);
    let claim = mine(apply(effects, begun(begin("big"))).await.reply);
    apply(effects, settled(&claim, DispatchEnd::Completed(StoredAnswer::Result(big.clone())))).await;
    assert_eq!(apply(effects, begun(begin("big"))).await.reply, EffectReply::Replay(StoredAnswer::Result(big)));
    let long = "k".repeat(10_000);
    let strange = ["", "\0", "a\0b", "a\0c", "'; drop table effects; --", "$1", "\u{1f980}", "\u{fffd}", &long];
    for client_key in strange {
        let mut call = begin(client_key);
        call.call_id = CallId::new();
        call.key.tenant = format!("tenant {client_key}");
        call.key.principal = format!("principal {client_key}");
        call.order.arguments = Bytes::from_static(&[0, 159, 146, 150]);
        let mut change = begun(call);
        if let Some(record) = &mut change.record {
            record.tool = format!("tool {client_key}");
        }
        let applied = apply(effects, change).await;
        mine(applied.reply);
        assert_eq!(applied.effect.unwrap().order.arguments, &[0, 159, 146, 150][..]);
    }
    assert_eq!(kept.recorded().await.len(), strange.len() + 1);
}

/// Two effects cannot have the same handle. The store in memory does not check that.
async fn one_bad_event(kept: Kept) {
    let taken = mine(kept.effects.apply(begun(begin("first"))).await.unwrap().reply);
    let mut tasks = JoinSet::new();
    for number in 0..40 {
        let effects = kept.effects.clone();
        let mut begin = begin(&format!("k{number}"));
        if number == 20 {
            begin.id = taken.id.clone();
        }
        tasks.spawn(async move { (number, effects.apply(begun(begin)).await) });
    }
    for (number, applied) in tasks.join_all().await {
        if number == 20 && !matches!(kept.place, Place::Memory(..)) {
            assert!(applied.is_err());
        } else {
            mine(applied.unwrap().reply);
        }
    }
    if !matches!(kept.place, Place::Memory(..)) {
        assert!(!kept.recorded().await.contains(&"call_k20".to_owned()), "a change that was not made is not recorded");
    }
}

async fn zombie(kept: Kept) {
    let other = kept.replica().await;
    let claim = mine(kept.effects.apply(begun(claim_first(begin("k")))).await.unwrap().reply);
    kept.advance(11_000);
    if !matches!(kept.place, Place::Memory(..)) {
        other.advance(11_000);
    }
    let taken = mine(other.effects.apply(begun(begin("k"))).await.unwrap().reply);
    assert_eq!(taken.epoch, claim.epoch + 1);
    for event in [
        EffectEvent::Fence(claim.clone()),
        EffectEvent::Release(claim.clone(), "late".to_owned()),
        EffectEvent::Settle(claim.clone(), DispatchEnd::Unknown("late".to_owned())),
    ] {
        assert_eq!(kept.effects.apply(about(&claim, event)).await.unwrap().reply, EffectReply::Stale);
    }
    assert_eq!(state_of(&*kept.effects, &claim.id).await, EffectState::Dispatching);
}

/// A few hundred events of every kind, in random order: the store does exactly what the one in memory does.
async fn as_in_memory(kept: Kept) {
    let reference = Kept::in_memory();
    let mut dice = Dice(7);
    let mut claims: Vec<Claim> = Vec::new();
    for number in 0..400 {
        let make = random_change(&mut dice, &claims);
        if dice.throw(10) == 0 {
            let by_ms = [1_000, 12_000, HOUR_MS][dice.throw(3)];
            kept.advance(by_ms);
            reference.advance(by_ms);
        }
        let (expected, got) =
            (reference.effects.apply(make()).await.unwrap(), kept.effects.apply(make()).await.unwrap());
        assert_eq!(coarse(&got.reply), coarse(&expected.reply), "event {number}");
        assert_eq!(timeless(got.effect.as_deref()), timeless(expected.effect.as_deref()), "event {number}");
        claims.extend(expected.effect.map(|effect| effect.claim()));
    }
    let all = EffectQuery { limit: 1_000, ..EffectQuery::default() };
    let (expected, got) = (reference.effects.list(all.clone()).await.unwrap(), kept.effects.list(all).await.unwrap());
    let timeless = |effects: Vec<Effect>| effects.iter().map(|effect| timeless(Some(effect))).collect::<Vec<_>>();
    assert_eq!(timeless(got), timeless(expected));
}

struct Dice(u64);

impl Dice {
    fn throw(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

fn random_change(dice: &mut Dice, claims: &[Claim]) -> impl Fn() -> EffectChange + use<> {
    let classes = [EffectClass::R, EffectClass::K, EffectClass::Q, EffectClass::N];
    let (kind, which, class, end) = (dice.throw(10), dice.throw(12), classes[dice.throw(4)], dice.throw(6));
    let claim = claims.get(claims.len().saturating_sub(1 + dice.throw(20))).cloned();
    let id = EffectId::new();
    move || {
        let first = BeginRequest { id: id.clone(), class, ..begin(&format!("k{which}")) };
        let Some(claim) = &claim else { return begun(first) };
        let end = match end {
            0 => DispatchEnd::Completed(answer("done")),
            1 => DispatchEnd::Failed(answer("no")),
            2 => DispatchEnd::NotExecuted("refused".to_owned()),
            3 => DispatchEnd::Absent("not there".to_owned()),
            4 => DispatchEnd::Unknown("reset".to_owned()),
            _ => DispatchEnd::Awaits(EffectWaitReason::Input("nonce".to_owned()), u64::MAX / 4),
        };
        match kind {
            0 | 1 => begun(first),
            2 => begun(claim_first(first)),
            3 => begun(BeginRequest { continues: Some("nonce".to_owned()), ..first }),
            4 => about(claim, EffectEvent::Fence(claim.clone())),
            5 => about(claim, EffectEvent::Release(claim.clone(), "given up".to_owned())),
            6 => about(claim, EffectEvent::Recover(OwnerId::from("own_b".to_owned()))),
            7 => about(claim, EffectEvent::Expire),
            _ => settled(claim, end),
        }
    }
}

/// The effect without its times, which differ between stores.
fn timeless(effect: Option<&Effect>) -> Option<Effect> {
    effect.map(|effect| Effect {
        lease_until_ms: 0,
        overdue_at_ms: 0,
        first_dispatched_ms: effect.first_dispatched_ms.map(|_| 0),
        first_dispatched_ledger_ms: effect.first_dispatched_ledger_ms.map(|_| 0),
        conflict: effect.conflict.clone().map(|conflict| Conflict { at_ms: 0, ..conflict }),
        created_ms: 0,
        changed_ms: 0,
        expires_ms: 0,
        ..effect.clone()
    })
}

fn coarse(reply: &EffectReply) -> EffectReply {
    match reply.clone() {
        EffectReply::Running { awaits, .. } => EffectReply::Running { retry_after_ms: 0, awaits },
        other => other,
    }
}
