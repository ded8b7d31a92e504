//! Calls that draw on grants, as the engine dispatches them: for tests of the pages that show them.

use servanda_approval::{ApprovalUse, ApprovalUseKind, TicketId, TicketReply};
use servanda_contract::{CallId, CallRecord, Digest, digest::DigestDomain, tool::EffectClass};
use servanda_effects::effect::{
    BeginMode, BeginRequest, ClientKey, DispatchOrder, EffectChange, EffectEvent, EffectId, EffectKey, EffectReply,
    EffectStore as _, EffectTarget, OwnerId,
};

use super::Gateway;

impl Gateway {
    /// A call that the grant of a ticket covers: its record, or why the store did not let it draw.
    pub async fn draw_on_grant(&self, id: &TicketId) -> Result<CallRecord, TicketReply> {
        let ticket = self.ticket(id).await;
        let subject = &ticket.subject;
        let warrant = ticket.grant.as_ref().ok_or(TicketReply::NotNow)?.signed.digest();
        let (call_id, effect_id) = (CallId::new(), EffectId::new());
        let payload = Digest::compute(DigestDomain::Payload, &[call_id.as_str().as_bytes()]);
        let key = EffectKey {
            tenant: subject.tenant.clone(),
            principal: subject.principal.clone(),
            tool: subject.contract.clone(),
            contract_major: 1,
            client_key: ClientKey::Given(call_id.to_string()),
        };
        let order = DispatchOrder {
            exposed_tool: subject.tool.clone(),
            upstream: subject.upstream.clone(),
            upstream_tool: "refund".to_owned(),
            contract_version: subject.contract_version.clone(),
            contract_digest: subject.contract_digest,
            upstream_key: format!("svk-{call_id}"),
            arguments: subject.arguments.clone(),
            timeout_ms: 5_000,
            key_window_ms: None,
            dedup_window_ms: 3_600_000,
            keeps_answer: true,
            resources: Vec::new(),
            reads: Vec::new(),
            overlaps: false,
            actors: subject.actors.clone(),
        };
        let request = BeginRequest {
            id: effect_id.clone(),
            key: key.clone(),
            request: payload,
            class: EffectClass::N,
            owner: OwnerId::from("own_fixture".to_owned()),
            call_id: call_id.clone(),
            order,
            mode: BeginMode::Dispatch,
            continues: None,
        };
        let usage = ApprovalUse {
            kind: ApprovalUseKind::Grant { call: 0, cost_micros: 0 },
            ticket: id.clone(),
            payload,
            call_id: call_id.clone(),
            warrant,
        };
        let event = EffectEvent::Begin(Box::new(request));
        let change = EffectChange { consumes: Some(usage), ..EffectChange::new(EffectTarget::Key(key), event) };
        match self.effects.apply(change).await.unwrap().reply {
            EffectReply::Mine(_) => {}
            EffectReply::NotApproved(reply) => return Err(*reply),
            _ => return Err(TicketReply::NotNow),
        }
        let (tenant, principal) = (subject.tenant.as_str(), subject.principal.as_str());
        let record = self.record(tenant, principal, |record| {
            record.call_id = call_id;
            record.tool.clone_from(&subject.tool);
            record.ticket_id = Some(id.to_string());
            record.effect_id = Some(effect_id.to_string());
        });
        Ok(record.await)
    }
}
