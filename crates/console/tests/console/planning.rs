//! Plans as an agent proposes them and the engine judged them: for tests of the pages that show them.

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_approval::{ApprovalCause, ApprovalDemand, CostCeiling, ProposedCall, ProposedPlan, Ticket, TicketEvent};
use servanda_contract::{
    Digest,
    digest::DigestDomain,
    tool::{ApprovalPattern, Presence, SideEffectClass},
};
use servanda_effects::{TicketStore as _, ticket_store::TicketTarget};

use super::{Gateway, Wanted};

/// The approval that a call of a plan needs.
pub fn demand(groups: &[&str]) -> ApprovalDemand {
    ApprovalDemand {
        pattern: ApprovalPattern::Operator,
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        quorum: 1,
        presence: Presence::Session,
        decide_within_ms: 3_600_000,
        use_within_ms: 600_000,
        escalation: Vec::new(),
        causes: vec![ApprovalCause::Contract],
        class: SideEffectClass::HighRiskExternal,
    }
}

fn call(tool: &str, arguments: &Value, times: u32) -> ProposedCall {
    ProposedCall {
        tool_name: tool.to_owned(),
        tool_version: "1.0.0".to_owned(),
        contract_digest: Digest::compute(DigestDomain::Contract, &[tool.as_bytes()]),
        arguments: Bytes::from(arguments.to_string()),
        demand: demand(&[]),
        times,
        sensitive: std::collections::BTreeMap::new(),
    }
}

/// Two refunds and the end of an account.
pub fn plan() -> ProposedPlan {
    ProposedPlan {
        purpose: "refund the customers of the outage".to_owned(),
        calls: vec![
            call("bank.refund", &json!({"amount": 40, "to": "bob"}), 2),
            call("bank.close", &json!({"account": 7}), 1),
        ],
        days: 2,
        cost_max: Some(CostCeiling::read("12.5 EUR").unwrap()),
    }
}

impl Gateway {
    /// Opens the ticket of a plan as a proposal does; `of` says whose it is.
    pub async fn open_plan(&self, plan: &ProposedPlan, of: Wanted) -> Ticket {
        let document: Value = serde_json::from_slice(plan.document().unwrap().bytes()).unwrap();
        let mut request = self.request(Wanted {
            tool: "servanda.propose_plan",
            arguments: document,
            consequence: Some(plan.describe()),
            ..of
        });
        request.demand = plan.demand().unwrap();
        request.subject.sensitive = plan.sensitive();
        request.subject.plan = plan.calls.iter().map(|call| call.demand.clone()).collect();
        let event = TicketEvent::Request(Box::new(request.clone()));
        let applied = self.tickets.apply_ticket(TicketTarget::Key(request.key), event).await.unwrap();
        (*applied.ticket.unwrap()).clone()
    }
}
