//! While the store is running out of room nothing new begins, by either way to the fence; calls under way go
//! on.

use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use servanda_contract::{GateName, TaxonomyClass, refusal::EffectKnowledge};

use super::{
    admitted, booking, cleared,
    fence::{effects, intent, now},
    passed,
};
use crate::{NotFenced, NotFencedReason, begin};
use servanda_effects::{
    JournalError, PortFuture,
    effect::{
        AppliedChange, ClientKey, DispatchEnd, Effect, EffectChange, EffectEvent, EffectQuery, EffectReply,
        EffectStore, EffectTarget, InMemoryEffects, OrphanQuery, OwnerId, StoredAnswer,
    },
};

const LEASE_MS: u64 = 1_000;

/// A store that reports whether it has room.
#[derive(Debug)]
struct Full {
    effects: InMemoryEffects,
    lacks_room: AtomicBool,
    log_is_behind: AtomicBool,
    unreadable: AtomicBool,
}

impl EffectStore for Full {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        self.effects.apply(change)
    }

    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        if self.unreadable.load(Ordering::Relaxed) {
            return Box::pin(async { Err(JournalError::new("gone")) });
        }
        self.effects.find(target)
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.list(query)
    }

    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.effects.orphans(query)
    }

    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        self.effects.heartbeat(owner)
    }

    fn out_of_room(&self) -> Option<String> {
        self.lacks_room.load(Ordering::Relaxed).then(|| "its disk has 7 bytes left".to_owned())
    }

    fn log_is_behind(&self) -> Option<String> {
        self.log_is_behind.load(Ordering::Relaxed).then(|| "a leaf has waited for 31 s".to_owned())
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        self.effects.expire(limit)
    }
}

/// Begins a call. The error says why it was not begun.
fn begun(store: &Full, changes: &[(&str, Value)], key: &str) -> Result<(), Box<NotFenced>> {
    let permit = passed(&admitted(changes), &booking(&json!({})));
    let intent = intent(&permit, ClientKey::Given(key.to_owned()));
    now(begin(cleared(permit), intent, LEASE_MS, store)).map(drop)
}

/// One contract that is fenced at once, and one with a precondition.
fn ways() -> [Vec<(&'static str, Value)>; 2] {
    let asks = json!([{
        "id": "free", "tool": "office.room", "arguments": { "id": "{room}" },
        "expect": { "rule": "result.free", "message": "the room is taken" },
    }]);
    [Vec::new(), vec![("/preconditions", asks)]]
}

#[test]
fn a_new_call_is_refused_before_the_disk_lacks_room_and_passes_when_there_is_room() {
    for changes in ways() {
        let store =
            Full { effects: effects(), lacks_room: true.into(), log_is_behind: false.into(), unreadable: false.into() };
        let refused = begun(&store, &changes, "k").unwrap_err();
        let NotFencedReason::NotOnRecord(refusal) = refused.why else { panic!("{refused:?}") };
        assert_eq!((refusal.gate, refusal.error_code), (GateName::Fence, TaxonomyClass::DependencyUnavailable));
        assert_eq!((refusal.effect, refusal.retryable), (EffectKnowledge::None, true), "the key was looked up");
        assert!(refusal.message.contains("out of room") && refusal.message.contains("7 bytes"), "{}", refusal.message);
        let hint = refusal.operator_hint.unwrap_or_default();
        assert!(hint.contains("ledger_limits") && hint.contains("retention"), "{hint}");
        assert_eq!(store.effects.applied_count(), 0, "nothing was written");
        store.lacks_room.store(false, Ordering::Relaxed);
        begun(&store, &changes, "k").unwrap();
    }
}

#[test]
fn a_log_that_cannot_keep_up_stops_high_risk_calls_and_no_others() {
    for changes in ways() {
        for (class, begins) in
            [("MEDIUM_RISK_WRITE", true), ("HIGH_RISK_EXTERNAL", false), ("CRITICAL_MUTATION", false)]
        {
            let mut changes = changes.clone();
            changes.push(("/transactional/side_effect_class", json!(class)));
            let store = Full {
                effects: effects(),
                lacks_room: false.into(),
                log_is_behind: true.into(),
                unreadable: false.into(),
            };
            let Err(refused) = begun(&store, &changes, "k") else {
                assert!(begins, "{class}");
                continue;
            };
            assert!(!begins, "{class}: {refused:?}");
            let NotFencedReason::NotOnRecord(refusal) = refused.why else { panic!("{refused:?}") };
            assert_eq!((refusal.gate, refusal.error_code), (GateName::Fence, TaxonomyClass::DependencyUnavailable));
            assert_eq!((refusal.effect, refusal.retryable), (EffectKnowledge::None, true));
            assert!(refusal.message.contains("waited for 31 s"), "{}", refusal.message);
            store.log_is_behind.store(false, Ordering::Relaxed);
            begun(&store, &changes, "k").unwrap();
            store.log_is_behind.store(true, Ordering::Relaxed);
            let again = begun(&store, &changes, "k").unwrap_err().why;
            assert!(matches!(again, NotFencedReason::Reply { .. }), "a used key is answered as ever: {again:?}");
        }
    }
}

#[test]
fn a_key_that_was_used_is_answered_as_ever() {
    let store =
        Full { effects: effects(), lacks_room: false.into(), log_is_behind: false.into(), unreadable: false.into() };
    begun(&store, &[], "k").unwrap();
    store.lacks_room.store(true, Ordering::Relaxed);
    let reply = || match begun(&store, &[], "k").unwrap_err().why {
        NotFencedReason::Reply { reply, effect } => (reply, effect.unwrap()),
        NotFencedReason::NotOnRecord(refusal) => panic!("{refusal:?}"),
    };
    let (running, effect) = reply();
    assert!(matches!(running, EffectReply::Running { .. }), "{running:?}");
    let answer = StoredAnswer::Known("done".to_owned());
    let event = EffectEvent::Settle(effect.claim(), DispatchEnd::Completed(answer.clone()));
    let target = EffectTarget::Id(effect.id.clone());
    now(store.apply(EffectChange::new(target, event))).unwrap();
    assert_eq!(reply().0, EffectReply::Replay(answer));
    // A key that cannot be looked up is not reported as new.
    store.unreadable.store(true, Ordering::Relaxed);
    let NotFencedReason::NotOnRecord(refusal) = begun(&store, &[], "k").unwrap_err().why else {
        panic!("it is not on record")
    };
    assert!(!refusal.message.contains("out of room"), "{}", refusal.message);
}
