//! Sample tickets, people and decisions.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::Value;
use servanda_authority::{
    Secret,
    attestation::{ATTESTATION_SEED_BYTES, AttestationKey},
};
use servanda_contract::{
    CallId, Caller, CallerActor, Digest,
    digest::DigestDomain,
    json,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};

use crate::{
    ApprovalCause, ApprovalDecision, ApprovalDemand, ApprovalUse, ApprovalVerdict, Approver, PersonRole, RunDenials,
    SignedDecision, Ticket, TicketContext, TicketEvent, TicketId, TicketKey, TicketReply, TicketRequest, TicketSubject,
    TicketTransition, step,
};

pub(super) const HOUR_MS: u64 = 3_600_000;
pub(super) const USE_MS: u64 = 600_000;
/// When the sample ticket is opened.
pub(super) const START_MS: u64 = 1_800_000_000_000;

/// The key of a gateway.
pub(super) fn key(seed: u8) -> AttestationKey {
    AttestationKey::from_seed(&Secret::new([seed; ATTESTATION_SEED_BYTES])).unwrap()
}

pub(super) fn groups(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub(super) fn digest(text: &str) -> Digest {
    Digest::compute(DigestDomain::Payload, &[text.as_bytes()])
}

pub(super) fn demand(pattern: ApprovalPattern, quorum: u8) -> ApprovalDemand {
    ApprovalDemand {
        pattern,
        groups: BTreeSet::new(),
        quorum,
        presence: Presence::Session,
        decide_within_ms: HOUR_MS,
        use_within_ms: USE_MS,
        escalation: Vec::new(),
        causes: vec![ApprovalCause::Class],
        class: SideEffectClass::HighRiskExternal,
    }
}

/// A request whose H is computed from its arguments, as the gates do it.
pub(super) fn request_of(arguments: &Value) -> TicketRequest {
    let arguments = json::canonicalize(arguments).unwrap();
    let contract_digest = digest("contract");
    let parts: [&[u8]; 4] = [b"acme", b"bank.pay", contract_digest.as_bytes(), arguments.bytes()];
    let actors = vec![CallerActor { name: "bot".to_owned(), proven: true }];
    let caller = Caller { actors: actors.clone(), ..Caller::named("acme", "ada") };
    let same_call = Digest::compute(DigestDomain::Payload, &[arguments.bytes()]);
    TicketRequest {
        id: TicketId::from("apr_1".to_owned()),
        key: TicketKey::new(&caller, &same_call),
        demand: demand(ApprovalPattern::Operator, 1),
        subject: TicketSubject {
            tenant: caller.tenant,
            principal: caller.principal,
            actors,
            credential: None,
            client: None,
            run: "run-1".to_owned(),
            call_id: CallId::from("call_1".to_owned()),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            tool: "bank__pay".to_owned(),
            contract: "bank.pay".to_owned(),
            contract_version: "1.2.0".to_owned(),
            contract_digest,
            upstream: "bank".to_owned(),
            payload: Digest::compute(DigestDomain::Proposal, &parts),
            arguments: Bytes::copy_from_slice(arguments.bytes()),
            consequence: None,
            after: None,
            before: None,
            upstream_preview: None,
            compensation: None,
            operation: None,
            price: None,
            sensitive: std::collections::BTreeMap::new(),
            plan: Vec::new(),
        },
    }
}

pub(super) fn request() -> TicketRequest {
    request_of(&serde_json::json!({ "amount": 12 }))
}

/// The same call for another demand.
pub(super) fn demanding(pattern: ApprovalPattern, quorum: u8) -> TicketRequest {
    TicketRequest { demand: demand(pattern, quorum), ..request() }
}

/// That much time after the start.
pub(super) fn after(ms: u64) -> TicketContext {
    TicketContext { now_ms: START_MS + ms, ledger_ms: START_MS / 2 + ms, run: RunDenials::default() }
}

pub(super) fn opened(request: TicketRequest) -> Ticket {
    let TicketTransition { mut changes, reply } = step(None, &TicketEvent::Request(Box::new(request)), &after(0));
    assert_eq!((changes.len(), reply), (1, TicketReply::Pending));
    changes.remove(0)
}

pub(super) fn approver(name: &str) -> Approver {
    Approver {
        tenant: "acme".to_owned(),
        principal: name.to_owned(),
        groups: BTreeSet::new(),
        roles: [PersonRole::Approver].into(),
        presence: Presence::Session,
    }
}

pub(super) fn decision(ticket: &Ticket, approver: &Approver, verdict: ApprovalVerdict) -> ApprovalDecision {
    ApprovalDecision {
        ticket: ticket.id.clone(),
        payload_hash: ticket.subject.payload,
        verdict,
        tenant: approver.tenant.clone(),
        approver: approver.principal.clone(),
        groups: approver.groups.clone(),
        presence: approver.presence,
        credential: "console".to_owned(),
        at_ms: START_MS,
        reason: None,
        break_glass: false,
    }
}

pub(super) fn signed(decision: ApprovalDecision) -> SignedDecision {
    decision.sign(None, &key(1)).unwrap()
}

pub(super) fn decide(ticket: &Ticket, approver: Approver, verdict: ApprovalVerdict) -> TicketEvent {
    let decision = Box::new(signed(decision(ticket, &approver, verdict)));
    TicketEvent::Decide { decision, approver: Box::new(approver), grant: None }
}

/// The ticket after an event that changes it alone, and the reply.
pub(super) fn happens(ticket: &Ticket, event: &TicketEvent, around: &TicketContext) -> (Ticket, TicketReply) {
    let TicketTransition { mut changes, reply } = step(Some(ticket), event, around);
    assert!(changes.len() <= 1, "{changes:?}");
    (changes.pop().unwrap_or_else(|| ticket.clone()), reply)
}

/// A ticket that these people approved.
pub(super) fn approved_by(request: TicketRequest, people: &[&str]) -> Ticket {
    people.iter().fold(opened(request), |ticket, name| {
        happens(&ticket, &decide(&ticket, approver(name), ApprovalVerdict::Approve), &after(1_000)).0
    })
}

pub(super) fn usage(ticket: &Ticket) -> ApprovalUse {
    ApprovalUse {
        kind: crate::ApprovalUseKind::Approval,
        ticket: ticket.id.clone(),
        payload: ticket.subject.payload,
        call_id: CallId::from("call_1".to_owned()),
        warrant: digest("warrant"),
    }
}

pub(super) fn consume(usage: ApprovalUse) -> TicketEvent {
    TicketEvent::Consume { usage, effect_id: "eff_1".to_owned() }
}
