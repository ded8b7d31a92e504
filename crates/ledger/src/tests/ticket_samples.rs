//! Sample tickets, decisions and dispatches that use approvals, for the tests of stores.

use std::collections::BTreeSet;

use bytes::Bytes;
use servanda_approval::{
    ApprovalCause, ApprovalDecision, ApprovalDemand, ApprovalUse, ApprovalUseKind, ApprovalVerdict, Approver,
    PersonRole, ProposedCall, ProposedPlan, SignedDecision, Ticket, TicketEvent, TicketId, TicketKey, TicketReply,
    TicketRequest, TicketSubject,
};
use servanda_contract::{
    CallId, Caller, CallerActor,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};
use servanda_effects::{
    TicketStore,
    effect::EffectChange,
    ticket_store::{AppliedTicket, TicketTarget},
};

use super::samples::{HOUR_MS, begin, begun, digest};

/// How long an approval of [`demand`] can be used.
pub(super) const USE_MS: u64 = 600_000;

/// An approval by as many people as `quorum`, within an hour.
pub(super) fn demand(quorum: u8) -> ApprovalDemand {
    ApprovalDemand {
        pattern: if quorum > 1 { ApprovalPattern::Dual } else { ApprovalPattern::Operator },
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

/// The request of a call whose payload has that name, in the run `run-1`.
pub(super) fn request(payload: &str) -> TicketRequest {
    let caller =
        Caller { actors: vec![CallerActor { name: "bot".to_owned(), proven: true }], ..Caller::named("acme", "ada") };
    TicketRequest {
        id: TicketId::new(),
        key: TicketKey::new(&caller, &digest(payload)),
        demand: demand(1),
        subject: TicketSubject {
            tenant: caller.tenant,
            principal: caller.principal,
            actors: caller.actors,
            credential: Some("key_1".to_owned()),
            client: None,
            run: "run-1".to_owned(),
            call_id: CallId::from(format!("call_{payload}")),
            trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            tool: "bank__pay".to_owned(),
            contract: "bank.pay".to_owned(),
            contract_version: "1.2.0".to_owned(),
            contract_digest: digest("contract"),
            upstream: "bank".to_owned(),
            payload: digest(payload),
            arguments: Bytes::from_static(b"{\"amount\":12}"),
            consequence: None,
            after: None,
            before: None,
            upstream_preview: None,
            compensation: None,
            operation: None,
            price: None,
            sensitive: [("/amount".to_owned(), "financial".to_owned())].into(),
            plan: Vec::new(),
        },
    }
}

/// The request of a plan of two payments and a refund.
pub(super) fn plan_request() -> TicketRequest {
    let call = |tool: &str, arguments: &'static [u8], times: u32| ProposedCall {
        tool_name: tool.to_owned(),
        tool_version: "1.2.0".to_owned(),
        contract_digest: digest("contract"),
        arguments: Bytes::from_static(arguments),
        demand: demand(1),
        times,
        sensitive: std::collections::BTreeMap::new(),
    };
    let plan = ProposedPlan {
        purpose: "close the month".to_owned(),
        calls: vec![call("bank.pay", b"{\"amount\":12}", 2), call("bank.refund", b"{\"invoice\":7}", 1)],
        days: 1,
        cost_max: None,
    };
    let mut asked = request("plan");
    asked.subject.arguments = plan.document().unwrap().bytes().clone();
    asked.subject.plan = plan.calls.into_iter().map(|call| call.demand).collect();
    asked
}

/// An approver of acme.
pub(super) fn approver(name: &str) -> Approver {
    Approver {
        tenant: "acme".to_owned(),
        principal: name.to_owned(),
        groups: BTreeSet::new(),
        roles: [PersonRole::Approver].into(),
        presence: Presence::Session,
    }
}

/// What a person decides about a ticket.
pub(super) fn decide(ticket: &Ticket, approver: Approver, verdict: ApprovalVerdict) -> TicketEvent {
    let decision = ApprovalDecision {
        ticket: ticket.id.clone(),
        payload_hash: ticket.subject.payload,
        verdict,
        tenant: approver.tenant.clone(),
        approver: approver.principal.clone(),
        groups: approver.groups.clone(),
        presence: approver.presence,
        credential: "console".to_owned(),
        at_ms: 1,
        reason: None,
        break_glass: false,
    };
    let (key_id, signature) = ("0123456789abcdef".to_owned(), "c2lnbmF0dXJl".to_owned());
    let decision = Box::new(SignedDecision { decision, key_id, signature, passkey: None });
    TicketEvent::Decide { decision, approver: Box::new(approver), grant: None }
}

/// Applies an event to the ticket with an id.
pub(super) async fn happens(tickets: &dyn TicketStore, id: &TicketId, event: TicketEvent) -> AppliedTicket {
    let target = TicketTarget::Id(id.clone());
    let applied = tickets.apply_ticket(target.clone(), event).await.unwrap();
    assert_eq!(tickets.find_ticket(target).await.unwrap().as_ref(), applied.ticket.as_deref());
    applied
}

/// A call asks; the stored ticket equals the returned one.
pub(super) async fn ask(tickets: &dyn TicketStore, request: TicketRequest) -> (TicketReply, Ticket) {
    let target = TicketTarget::Key(request.key);
    let event = TicketEvent::Request(Box::new(request));
    let applied = tickets.apply_ticket(target.clone(), event).await.unwrap();
    let found = tickets.find_ticket(target).await.unwrap();
    assert_eq!(found.as_ref(), applied.ticket.as_deref());
    (applied.reply, found.unwrap())
}

/// A ticket that `bob` approved.
pub(super) async fn approved(tickets: &dyn TicketStore, payload: &str) -> Ticket {
    let (_, ticket) = ask(tickets, request(payload)).await;
    let applied = happens(tickets, &ticket.id, decide(&ticket, approver("bob"), ApprovalVerdict::Approve)).await;
    assert_eq!(applied.reply, TicketReply::Approved);
    (*applied.ticket.unwrap()).clone()
}

/// A ticket that `bob` denied.
pub(super) async fn denied(tickets: &dyn TicketStore, request: TicketRequest) -> Ticket {
    let (_, ticket) = ask(tickets, request).await;
    let applied = happens(tickets, &ticket.id, decide(&ticket, approver("bob"), ApprovalVerdict::Deny)).await;
    assert!(matches!(applied.reply, TicketReply::Denied { .. }), "{:?}", applied.reply);
    (*applied.ticket.unwrap()).clone()
}

/// The use of a ticket by a call.
pub(super) fn usage(ticket: &Ticket, call_id: &str) -> ApprovalUse {
    ApprovalUse {
        kind: ApprovalUseKind::Approval,
        ticket: ticket.id.clone(),
        payload: ticket.subject.payload,
        call_id: CallId::from(call_id.to_owned()),
        warrant: digest("warrant"),
    }
}

/// A call with a key begins and uses an approval.
pub(super) fn dispatch(client_key: &str, usage: ApprovalUse) -> EffectChange {
    EffectChange { consumes: Some(usage), ..begun(begin(client_key)) }
}
