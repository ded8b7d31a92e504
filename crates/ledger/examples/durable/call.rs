//! One mutating call as the engine makes it.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use servanda_contract::{
    CallId, CallRecord, Caller, Digest, Timestamp,
    digest::DigestDomain,
    record::{Outcome, RECORD_VERSION},
    tool::EffectClass,
};
use servanda_effects::effect::{
    BeginMode, BeginRequest, ClientKey, DispatchEnd, DispatchOrder, EffectChange, EffectContext, EffectEvent, EffectId,
    EffectKey, EffectReply, EffectStore as _, EffectTarget, LedgerNow, OwnerId, StoredAnswer, step,
};
use servanda_ledger::Ledger;

const ANSWER: &[u8] =
    br#"{"content":[{"type":"text","text":"paid"}],"structuredContent":{"payment":"p-1","state":"paid"}}"#;

/// The parts of a call that are written when it begins, already encoded.
#[derive(Debug, Clone)]
pub(crate) struct Encoded {
    pub(crate) body: String,
    pub(crate) arguments: Bytes,
    pub(crate) record: Vec<u8>,
}

/// When a call is made, and how long its key and its answer are remembered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    pub(crate) received_ms: u64,
    pub(crate) dedup_window_ms: u64,
}

const USUAL: Terms = Terms { received_ms: 1_800_000_000_000, dedup_window_ms: 3_600_000 };

/// Encodes the parts of a call that are written when it begins. The record is read from a ledger that has made
/// such a call.
pub(crate) async fn encoded(folder: &Path) -> Encoded {
    let path = folder.join("one.db");
    let ledger = Arc::new(Ledger::open(&path).unwrap());
    call(ledger.clone()).await;
    ledger.close().await;
    let one = rusqlite::Connection::open(&path).unwrap();
    let record = one.query_row("select body from calls", [], |row| row.get(0)).unwrap();
    let event = EffectEvent::Begin(Box::new(begin(&CallId::new(), USUAL)));
    let around = EffectContext::at(LedgerNow::plain(1_800_000_000_000));
    let effect = step(None, &event, &around).change.unwrap();
    Encoded { body: serde_json::to_string(&effect).unwrap(), arguments: effect.order.arguments, record }
}

/// Makes one call: its intent is durable before bytes would leave, and its end is durable before it would be
/// answered.
pub(crate) async fn call(ledger: Arc<Ledger>) {
    call_on(ledger, USUAL).await;
}

/// Makes one call with the given times.
pub(crate) async fn call_on(ledger: Arc<Ledger>, terms: Terms) {
    let call_id = CallId::new();
    let first = begin(&call_id, terms);
    let key = first.key.clone();
    let change = |target, event, outcome| EffectChange {
        target,
        event,
        record: Some(record(call_id.clone(), outcome, terms)),
        quarantine: None,
        notices: Vec::new(),
        consumes: None,
    };
    let begun = change(EffectTarget::Key(key), EffectEvent::Begin(Box::new(first)), Outcome::Dispatching);
    let EffectReply::Mine(claim) = ledger.apply(begun).await.unwrap().reply else { unreachable!("the key is new") };
    let end = DispatchEnd::Completed(StoredAnswer::Result(Bytes::from_static(ANSWER)));
    let settled = change(EffectTarget::Id(claim.id.clone()), EffectEvent::Settle(claim, end), Outcome::Completed);
    assert_eq!(ledger.apply(settled).await.unwrap().reply, EffectReply::Settled);
}

fn begin(call_id: &CallId, terms: Terms) -> BeginRequest {
    let key = EffectKey {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        tool: "bank.pay".to_owned(),
        contract_major: 1,
        client_key: ClientKey::Given(format!("order-{call_id}")),
    };
    BeginRequest {
        id: EffectId::new(),
        key,
        request: Digest::compute(DigestDomain::Proposal, &[call_id.as_str().as_bytes()]),
        class: EffectClass::N,
        owner: OwnerId::from("own_bench".to_owned()),
        call_id: call_id.clone(),
        order: DispatchOrder { dedup_window_ms: terms.dedup_window_ms, ..order() },
        mode: BeginMode::Dispatch,
        continues: None,
    }
}

fn order() -> DispatchOrder {
    DispatchOrder {
        exposed_tool: "bank__pay".to_owned(),
        upstream: "bank".to_owned(),
        upstream_tool: "pay".to_owned(),
        contract_version: "1.2.0".to_owned(),
        contract_digest: Digest::compute(DigestDomain::Contract, &[b"bank.pay"]),
        upstream_key: "sv-00000000000000000000000000000000".to_owned(),
        arguments: Bytes::from_static(br#"{"amount":1200,"currency":"EUR","to":"DE89370400440532013000"}"#),
        timeout_ms: 5_000,
        key_window_ms: None,
        dedup_window_ms: USUAL.dedup_window_ms,
        keeps_answer: true,
        resources: Vec::new(),
        reads: Vec::new(),
        overlaps: false,
        actors: Vec::new(),
    }
}

fn record(call_id: CallId, outcome: Outcome, terms: Terms) -> CallRecord {
    CallRecord {
        record_version: RECORD_VERSION,
        call_id,
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        caller: Caller::local().into(),
        tool: "bank__pay".to_owned(),
        contract: None,
        arguments_digest: Digest::compute(DigestDomain::Arguments, &[b"{}"]),
        proposal_digest: None,
        received_at: Timestamp::from_unix_ms(terms.received_ms),
        dispatched_at: None,
        finished_at: None,
        deadline_ms: Some(5_000),
        verdicts: Vec::new(),
        outcome,
        class: None,
        refusal: None,
        answer_digest: None,
        continues: None,
        task_id: None,
        effect_id: None,
        attempts: None,
        price: None,
        policy: None,
        questions: Vec::new(),
        ticket_id: None,
        by_grant: false,
        trace: servanda_contract::trace::TraceStanding::default(),
    }
}
