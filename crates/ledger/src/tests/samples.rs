//! Sample calls, keys and orders for the tests of stores.

use bytes::Bytes;
use servanda_contract::{
    CallId, CallRecord, Caller, Digest, GateName, TaxonomyClass, Timestamp,
    digest::DigestDomain,
    record::{ContractReference, Decision, Outcome, PolicyRecord, RECORD_VERSION, Texts, Verdict},
    tool::EffectClass,
};
use servanda_effects::effect::{
    BeginMode, BeginRequest, Claim, ClientKey, DispatchEnd, DispatchOrder, EffectChange, EffectEvent, EffectId,
    EffectKey, EffectReply, EffectTarget, OwnerId, StoredAnswer,
};

pub(super) const HOUR_MS: u64 = 3_600_000;

pub(crate) fn record(call_id: &str, outcome: Outcome, received_ms: u64) -> CallRecord {
    CallRecord {
        record_version: RECORD_VERSION,
        call_id: CallId::from(call_id.to_owned()),
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        caller: Caller::local().into(),
        tool: "company__void_invoice".to_owned(),
        contract: None,
        arguments_digest: Digest::compute(DigestDomain::Arguments, &[b"{}"]),
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
        ticket_id: None,
        by_grant: false,
        trace: servanda_contract::trace::TraceStanding::default(),
    }
}

/// The record of a read as the engine makes it: by a user with a credential and a session, through every gate, permitted by policies.
pub(crate) fn read_record(number: u64) -> CallRecord {
    let digest = |domain, what: &str| Digest::compute(domain, &[what.as_bytes(), &number.to_be_bytes()]);
    let took_us = |gate: u64| (number * 7 + gate * 13) % 180;
    let verdicts = (0..).zip(GateName::ALL).map(|(place, gate)| Verdict {
        gate,
        decision: if gate == GateName::Fence { Decision::Skipped } else { Decision::Passed },
        took_us: if gate == GateName::Perform { 2_000 + number % 900 } else { took_us(place) },
    });
    let received_ms = 1_800_000_000_000 + number * 3;
    let caller = Caller {
        credential: Some("key_3f9a2c417be84d50".to_owned()),
        client: Some("claude-code 2.0.14".to_owned()),
        session: Some(digest(DigestDomain::Sample, "session").hex_prefix(32)),
        ..Caller::named("acme", "ada.lovelace@example.com")
    };
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Texts>();
    CallRecord {
        trace_id: digest(DigestDomain::Sample, "trace").hex_prefix(32),
        caller: caller.into(),
        tool: "company__list_invoices".to_owned(),
        contract: Some(
            ContractReference {
                name: "company.list_invoices".to_owned(),
                version: "1.4.2".to_owned(),
                digest: Digest::compute(DigestDomain::Contract, &[b"company.list_invoices"]),
                upstream: "company".to_owned(),
                upstream_tool: "list_invoices".to_owned(),
                effect_class: EffectClass::R,
            }
            .into(),
        ),
        arguments_digest: digest(DigestDomain::Arguments, "arguments"),
        proposal_digest: Some(digest(DigestDomain::Proposal, "proposal")),
        dispatched_at: Some(Timestamp::from_unix_ms(received_ms + 1)),
        finished_at: Some(Timestamp::from_unix_ms(received_ms + 4)),
        deadline_ms: Some(10_000),
        verdicts: verdicts.collect(),
        class: Some(TaxonomyClass::Success),
        answer_digest: Some(digest(DigestDomain::Answer, "answer")),
        policy: Some(PolicyRecord {
            by: texts(&["acme.reads", "acme.finance-may-read-invoices"]),
            scopes: texts(&["tools:read", "tools:write", "company:*"]),
            groups: Some(texts(&["finance", "everybody"])),
            ..PolicyRecord::default()
        }),
        ..record(CallId::new().as_str(), Outcome::Completed, received_ms)
    }
}

pub(super) fn digest(text: &str) -> Digest {
    Digest::compute(DigestDomain::Proposal, &[text.as_bytes()])
}

pub(super) fn order() -> DispatchOrder {
    DispatchOrder {
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

/// A call of owner `a` that asks for an effect of class N right away.
pub(super) fn begin(client_key: &str) -> BeginRequest {
    BeginRequest {
        id: EffectId::new(),
        key: key(client_key),
        request: digest("payload"),
        class: EffectClass::N,
        owner: OwnerId::from("own_a".to_owned()),
        call_id: CallId::from(format!("call_{client_key}")),
        order: order(),
        mode: BeginMode::Dispatch,
        continues: None,
    }
}

/// The same without a key.
pub(super) fn begin_keyless(call_id: &str) -> BeginRequest {
    let mut begin = begin(call_id);
    begin.key.client_key = ClientKey::Call(CallId::from(call_id.to_owned()));
    begin
}

pub(super) fn claim_first(begin: BeginRequest) -> BeginRequest {
    BeginRequest { mode: BeginMode::Claim { lease_ms: 10_000 }, ..begin }
}

pub(super) fn begun(begin: BeginRequest) -> EffectChange {
    let record = record(begin.call_id.as_str(), Outcome::Dispatching, 1);
    let target = EffectTarget::Key(begin.key.clone());
    EffectChange {
        target,
        event: EffectEvent::Begin(Box::new(begin)),
        record: Some(record),
        quarantine: None,
        notices: Vec::new(),
        consumes: None,
    }
}

/// An event about the effect of a claim.
pub(super) fn about(claim: &Claim, event: EffectEvent) -> EffectChange {
    EffectChange {
        target: EffectTarget::Id(claim.id.clone()),
        event,
        record: None,
        quarantine: None,
        notices: Vec::new(),
        consumes: None,
    }
}

pub(super) fn settled(claim: &Claim, end: DispatchEnd) -> EffectChange {
    about(claim, EffectEvent::Settle(claim.clone(), end))
}

pub(super) fn answer(text: &str) -> StoredAnswer {
    StoredAnswer::Result(Bytes::from(text.to_owned()))
}

pub(super) fn mine(reply: EffectReply) -> Claim {
    match reply {
        EffectReply::Mine(claim) => claim,
        other => panic!("not mine: {other:?}"),
    }
}
