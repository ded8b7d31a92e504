//! Calls, keys and orders to try stores with.

use bytes::Bytes;
use servanda_contract::{
    CallId, CallRecord, Caller, Digest, Timestamp,
    digest::Domain,
    record::{Outcome, RECORD_VERSION},
    tool::EffectClass,
};
use servanda_gates::effect::{
    Begin, Change, Claim, ClientKey, EffectId, EffectKey, End, Event, Go, Order, OwnerId, Reply, StoredAnswer, Target,
};

pub(super) const HOUR_MS: u64 = 3_600_000;

pub(super) fn record(call_id: &str, outcome: Outcome, received_ms: u64) -> CallRecord {
    CallRecord {
        record_version: RECORD_VERSION,
        call_id: CallId::from(call_id.to_owned()),
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        caller: Caller::local(),
        tool: "company__void_invoice".to_owned(),
        contract: None,
        arguments_digest: Digest::of(Domain::Arguments, &[b"{}"]),
        proposal_digest: None,
        received_at: Timestamp::from_unix_ms(received_ms),
        dispatched_at: None,
        finished_at: None,
        deadline_ms: None,
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
    }
}

pub(super) fn digest(text: &str) -> Digest {
    Digest::of(Domain::Proposal, &[text.as_bytes()])
}

pub(super) fn order() -> Order {
    Order {
        exposed_tool: "bank__pay".to_owned(),
        upstream: "bank".to_owned(),
        upstream_tool: "pay".to_owned(),
        contract_version: "1.2.0".to_owned(),
        contract_digest: digest("contract"),
        upstream_key: "sv-1".to_owned(),
        arguments: Bytes::from_static(b"{\"amount\":12}"),
        timeout_ms: 5_000,
        key_window_ms: Some(HOUR_MS),
        dedup_window_ms: HOUR_MS,
        keeps_answer: true,
        resources: Vec::new(),
        reads: Vec::new(),
        overlaps: false,
        actors: Vec::new(),
    }
}

pub(super) fn key(client_key: &str) -> EffectKey {
    EffectKey {
        tenant: "acme".to_owned(),
        principal: "ada".to_owned(),
        tool: "bank.pay".to_owned(),
        contract_major: 1,
        client_key: ClientKey::Given(client_key.to_owned()),
    }
}

/// A call of owner `a` that wants class N done at once.
pub(super) fn begin(client_key: &str) -> Begin {
    Begin {
        id: EffectId::new(),
        key: key(client_key),
        request: digest("payload"),
        class: EffectClass::N,
        owner: OwnerId::from("own_a".to_owned()),
        call_id: CallId::from(format!("call_{client_key}")),
        order: order(),
        go: Go::Dispatch,
        continues: None,
    }
}

/// The same without a key.
pub(super) fn begin_keyless(call_id: &str) -> Begin {
    let mut begin = begin(call_id);
    begin.key.client_key = ClientKey::Call(CallId::from(call_id.to_owned()));
    begin
}

pub(super) fn claim_first(begin: Begin) -> Begin {
    Begin { go: Go::Claim { lease_ms: 10_000 }, ..begin }
}

pub(super) fn begun(begin: Begin) -> Change {
    let record = record(begin.call_id.as_str(), Outcome::Dispatching, 1);
    let target = Target::Key(begin.key.clone());
    Change { target, event: Event::Begin(Box::new(begin)), record: Some(record), quarantine: None, notices: Vec::new() }
}

/// An event about the effect of a claim.
pub(super) fn about(claim: &Claim, event: Event) -> Change {
    Change { target: Target::Id(claim.id.clone()), event, record: None, quarantine: None, notices: Vec::new() }
}

pub(super) fn settled(claim: &Claim, end: End) -> Change {
    about(claim, Event::Settle(claim.clone(), end))
}

pub(super) fn answer(text: &str) -> StoredAnswer {
    StoredAnswer::Result(Bytes::from(text.to_owned()))
}

pub(super) fn mine(reply: Reply) -> Claim {
    match reply {
        Reply::Mine(claim) => claim,
        other => panic!("not mine: {other:?}"),
    }
}
