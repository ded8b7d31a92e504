//! Nothing that may change the world goes on without its mark.

use std::{
    future::Future,
    pin::pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use serde_json::json;
use servanda_contract::{CallRecord, GateName, TaxonomyClass, record::Outcome, refusal::EffectKnowledge};

use super::{admitted, booking, passed};
use crate::{Fenced, Journal, JournalError, Permit, PortFuture, fence};

/// The other side of the port: remembers what it was asked to keep.
#[derive(Debug, Default)]
struct Recording {
    kept: Mutex<Vec<CallRecord>>,
    broken: bool,
}

impl Journal for Recording {
    fn dispatching(&self, record: CallRecord) -> PortFuture<'_, Result<(), JournalError>> {
        self.kept.lock().unwrap().push(record);
        let result = if self.broken { Err(JournalError("disk full".to_owned())) } else { Ok(()) };
        Box::pin(async move { result })
    }

    fn finished(&self, _: CallRecord, _: Option<Bytes>, _: bool) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async { Ok(()) })
    }
}

/// The journal of this test never waits.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("the fence waits for something else than the journal"),
    }
}

fn record(permit: &Permit) -> CallRecord {
    CallRecord {
        contract: Some(permit.contract().reference()),
        proposal_digest: Some(permit.proposal_digest()),
        outcome: Outcome::Dispatching,
        ..CallRecord::new(permit.proposal())
    }
}

fn fenced(permit: Permit, journal: &Recording) -> Result<Fenced, Box<servanda_contract::Refusal>> {
    let record = record(&permit);
    now(fence(permit, || record, journal))
}

const READ_ONLY: [(&str, &str); 3] = [
    ("/effect", r#"{ "class": "R", "mutation_class": "read_only" }"#),
    ("/transactional/side_effect_class", r#""READ_ONLY""#),
    ("/transactional/semantics", r#""read_only""#),
];

#[test]
fn a_call_that_may_change_something_is_on_record_first() {
    let permit = passed(&admitted(&[]), &booking(&json!({})));
    let (arguments, journal) = (permit.arguments().bytes().clone(), Recording::default());
    let fenced = fenced(permit, &journal).unwrap();
    let kept = journal.kept.into_inner().unwrap();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0].call_id, *fenced.call_id());
    assert_eq!((fenced.upstream(), fenced.upstream_tool()), ("office", "book"));
    assert_eq!(fenced.arguments(), &arguments, "the upstream gets the bytes that were judged");
}

#[test]
fn without_the_record_nothing_is_sent() {
    let journal = Recording { broken: true, ..Recording::default() };
    let refusal = fenced(passed(&admitted(&[]), &booking(&json!({}))), &journal).unwrap_err();
    assert_eq!((refusal.gate, refusal.error_code), (GateName::Fence, TaxonomyClass::DependencyUnavailable));
    assert_eq!(refusal.effect, EffectKnowledge::None);
    assert!(refusal.retryable && !refusal.repairable);
    assert!(refusal.message.contains("not sent"), "{}", refusal.message);
}

#[test]
fn a_read_only_call_needs_no_mark() {
    let changes = READ_ONLY.map(|(pointer, value)| (pointer, serde_json::from_str(value).unwrap()));
    let journal = Recording { broken: true, ..Recording::default() };
    assert!(fenced(passed(&admitted(&changes), &booking(&json!({}))), &journal).is_ok());
    assert_eq!(journal.kept.into_inner().unwrap(), []);
}

#[test]
fn every_class_but_r_waits_for_its_mark() {
    let keyed = json!({ "class": "K", "mutation_class": "write_irreversible", "key": { "meta": "key" }, "key_window_sec": 60,
        "manifest": [{ "resource": "room", "operation": "UPDATE", "scope": "tenant" }] });
    let queried = json!({ "class": "Q", "mutation_class": "write_irreversible",
        "status": { "tool": "office.status", "key_argument": "key", "absence_is_authoritative": true },
        "manifest": [{ "resource": "room", "operation": "UPDATE", "scope": "tenant" }] });
    for effect in [keyed, queried] {
        let journal = Recording::default();
        fenced(passed(&admitted(&[("/effect", effect.clone())]), &booking(&json!({}))), &journal).unwrap();
        assert_eq!(journal.kept.into_inner().unwrap().len(), 1, "{effect}");
    }
}
