//! No call that may change the world is sent without its mark.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker},
};

use serde_json::{Value, json};
use servanda_contract::{
    CallRecord, GateName, TaxonomyClass, Timestamp, record::Outcome, refusal::EffectKnowledge, time::Clock,
};

use super::{admitted, booking, cleared, passed};
use crate::{FenceRequest, Fenced, NotFenced, NotFencedReason, Permit, Recovery, fence, recover};
use servanda_effects::{
    JournalError, PortFuture,
    budget::InMemoryBudgets,
    effect::{
        AppliedChange, ClientKey, DispatchEnd, Effect, EffectChange, EffectEvent, EffectQuery, EffectReply,
        EffectState, EffectStore, EffectTarget, InMemoryEffects, OrphanQuery, OwnerId,
    },
};

/// A clock that stands still until it is set.
#[derive(Debug, Default)]
pub(super) struct Still(Mutex<u64>);

impl Clock for Still {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(*self.0.lock().unwrap())
    }
}

/// A store whose acknowledgement gets lost, with or without the change.
#[derive(Debug)]
struct Flaky {
    effects: InMemoryEffects,
    applies: bool,
    unreadable: AtomicBool,
}

impl EffectStore for Flaky {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        Box::pin(async move {
            if self.applies {
                self.effects.apply(change).await?;
            }
            Err(JournalError::new("the connection was lost"))
        })
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

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        self.effects.expire(limit)
    }
}

/// Polls once: the store of these tests never waits.
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the fence waits for something else than the store"),
    }
}

pub(super) fn effects() -> InMemoryEffects {
    InMemoryEffects::new(Arc::new(Still::default()))
}

pub(super) fn budgets() -> InMemoryBudgets {
    InMemoryBudgets::new(Arc::new(Still::default()), Arc::new(effects()))
}

fn flaky(applies: bool) -> Flaky {
    Flaky { effects: effects(), applies, unreadable: AtomicBool::new(false) }
}

fn owner() -> OwnerId {
    OwnerId::from("own_1".to_owned())
}

pub(super) fn intent(permit: &Permit, key: ClientKey) -> FenceRequest {
    let record = CallRecord {
        contract: Some(permit.contract().reference()),
        proposal_digest: Some(permit.proposal_digest()),
        outcome: Outcome::Dispatching,
        ..CallRecord::new(permit.proposal())
    };
    FenceRequest {
        key,
        owner: owner(),
        timeout_ms: 5_000,
        continues: None,
        outlasts: false,
        record,
        accepts_lost_commits: false,
    }
}

fn keyless(permit: Permit, effects: &dyn EffectStore) -> Result<Fenced, Box<NotFenced>> {
    let key = ClientKey::Call(permit.call_id().clone());
    let intent = intent(&permit, key);
    now(fence(cleared(permit), intent, effects))
}

fn keyed(permit: Permit, effects: &dyn EffectStore) -> Result<Fenced, Box<NotFenced>> {
    let intent = intent(&permit, ClientKey::Given("k".to_owned()));
    now(fence(cleared(permit), intent, effects))
}

fn permit(changes: &[(&str, Value)]) -> Permit {
    passed(&admitted(changes), &booking(&json!({})))
}

fn read_only() -> Permit {
    permit(&[
        ("/effect", json!({ "class": "R", "mutation_class": "read_only" })),
        ("/transactional/side_effect_class", json!("READ_ONLY")),
        ("/transactional/semantics", json!("read_only")),
    ])
}

fn of_class_k() -> Permit {
    let manifest = json!([{ "resource": "room", "operation": "UPDATE", "scope": "tenant" }]);
    permit(&[(
        "/effect",
        json!({ "class": "K", "mutation_class": "write_irreversible", "key": { "meta": "key" },
        "key_window_sec": 3_600, "manifest": manifest }),
    )])
}

#[test]
fn a_call_that_may_change_something_is_an_effect_on_record_first() {
    let permit = permit(&[]);
    let (arguments, effects) = (permit.arguments().bytes().clone(), effects());
    let fenced = keyless(permit, &effects).unwrap();
    let records = effects.records();
    assert_eq!(records.len(), 1);
    assert_eq!((&records[0].call_id, records[0].outcome), (fenced.call_id(), Outcome::Dispatching));
    let claim = fenced.claim().unwrap();
    assert_eq!(records[0].effect_id.as_deref(), Some(claim.id.as_str()));
    let effect = now(effects.find(EffectTarget::Id(claim.id.clone()))).unwrap().unwrap();
    assert_eq!((effect.state, effect.epoch), (EffectState::Dispatching, claim.epoch));
    assert_eq!((fenced.upstream(), fenced.upstream_tool()), ("office", "book"));
    assert_eq!(fenced.arguments(), &arguments, "the upstream gets the bytes that were judged");
}

#[test]
fn without_the_mark_nothing_is_sent() {
    let refused = keyless(permit(&[]), &flaky(false)).unwrap_err();
    let NotFencedReason::NotOnRecord(refusal) = refused.why else { panic!("{refused:?}") };
    assert_eq!((refusal.gate, refusal.error_code), (GateName::Fence, TaxonomyClass::DependencyUnavailable));
    assert_eq!(refusal.effect, EffectKnowledge::None);
    assert!(refusal.retryable && !refusal.repairable);
    assert!(refusal.message.contains("not sent"), "{}", refusal.message);
}

#[test]
fn a_lost_acknowledgement_is_replaced_by_a_read() {
    let effects = flaky(true);
    let fenced = keyless(permit(&[]), &effects).unwrap();
    assert_eq!(fenced.claim().unwrap().epoch, 1);
    let unreadable = flaky(true);
    unreadable.unreadable.store(true, Ordering::Relaxed);
    assert!(keyless(permit(&[]), &unreadable).is_err(), "an effect that cannot be read is no evidence");
}

#[test]
fn another_calls_dispatch_is_no_evidence_for_this_one() {
    let effects = flaky(false);
    keyed(permit(&[]), &effects.effects).unwrap();
    let mut other = super::proposal(booking(&json!({})).to_string());
    other.call_id = servanda_contract::CallId::from("call_2".to_owned());
    let other = super::propose(&admitted(&[]), other).0.unwrap();
    let refused = keyed(other, &effects).unwrap_err();
    assert!(matches!(refused.why, NotFencedReason::NotOnRecord(_)), "{refused:?}");
}

#[test]
fn a_read_only_call_needs_no_mark_unless_it_is_an_operation() {
    let broken = flaky(false);
    assert!(keyless(read_only(), &broken).unwrap().claim().is_none());
    assert!(keyed(read_only(), &broken).is_err());
    assert!(keyed(read_only(), &effects()).unwrap().claim().is_some());
}

#[test]
fn a_read_whose_end_can_be_asked_for_later_is_an_effect() {
    let permit = read_only();
    let key = ClientKey::Call(permit.call_id().clone());
    let effects = effects();
    let lasting = FenceRequest { outlasts: true, ..intent(&permit, key) };
    let claim = now(fence(cleared(permit), lasting, &effects)).unwrap().claim().cloned().unwrap();
    let effect = now(effects.find(EffectTarget::Id(claim.id))).unwrap().unwrap();
    assert_eq!(effect.state, EffectState::Dispatching);
}

#[test]
fn every_class_but_r_waits_for_its_mark() {
    let manifest = json!([{ "resource": "room", "operation": "UPDATE", "scope": "tenant" }]);
    let queried = json!({ "class": "Q", "mutation_class": "write_irreversible", "key": { "meta": "key" },
        "status": { "tool": "office.status", "key_argument": "key", "absence_is_authoritative": true },
        "manifest": manifest });
    for permit in [of_class_k(), permit(&[("/effect", queried)])] {
        assert!(keyless(permit, &flaky(false)).is_err());
    }
}

#[test]
fn the_same_key_is_not_this_calls_to_send() {
    let effects = effects();
    keyed(permit(&[]), &effects).unwrap();
    let again = keyed(permit(&[]), &effects).unwrap_err();
    assert!(
        matches!(again.why, NotFencedReason::Reply { reply: EffectReply::Running { .. }, effect: Some(_) }),
        "{again:?}"
    );
    let other = passed(&admitted(&[]), &booking(&json!({ "seats": 2 })));
    let mismatch = keyed(other, &effects).unwrap_err();
    assert!(matches!(mismatch.why, NotFencedReason::Reply { reply: EffectReply::Mismatch, .. }), "{mismatch:?}");
}

#[test]
fn an_effect_that_was_sent_before_is_sent_again_in_the_same_bytes() {
    let clock = Arc::new(Still::default());
    let effects = InMemoryEffects::new(clock.clone());
    let first = keyed(of_class_k(), &effects).unwrap();
    let claim = first.claim().unwrap().clone();
    assert!(matches!(
        now(recover(&claim.id, &owner(), None, Vec::new(), &effects)).unwrap(),
        Recovery::Done(EffectReply::NotNow, _)
    ));
    *clock.0.lock().unwrap() = 60_000;
    let Recovery::Resend(again, _) = now(recover(&claim.id, &owner(), None, Vec::new(), &effects)).unwrap() else {
        panic!("recovery did not take it");
    };
    assert_eq!((again.arguments(), again.upstream_key()), (first.arguments(), first.upstream_key()));
    assert_eq!(again.claim().unwrap().epoch, claim.epoch + 1);
    let unknown = EffectEvent::Settle(claim.clone(), DispatchEnd::Unknown("reset".to_owned()));
    let late = EffectChange {
        target: EffectTarget::Id(claim.id),
        event: unknown,
        record: None,
        quarantine: None,
        notices: Vec::new(),
        consumes: None,
    };
    assert_eq!(
        now(effects.apply(late)).unwrap().reply,
        EffectReply::Stale,
        "the former owner may change nothing any more"
    );
}
