//! Calls that need a person's approval, through the whole engine: what an agent is told, who may decide, and what is sent when.

mod decisions;
mod grants;
mod masked_states;
mod notices;
mod page;
mod previews;
mod tasks;
mod threats;
mod waiting;

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::Bytes;
use serde_json::{Value, json};
use servanda_approval::{
    ApprovalSettings, ApprovalVerdict, PersonRole, RoleAssignments, RoleMember, Ticket, TicketId, TicketState,
};
use servanda_catalog::{Catalog, names::ExposedNaming};
use servanda_contract::{
    GateName, OperationKeys, Refusal, TaxonomyClass, ToolContract, record::Outcome, refusal::EffectKnowledge,
    taxonomy::NextAction, time::Clock as _, tool::Presence,
};
use servanda_effects::ticket_store::TicketTarget;
use servanda_gates::{RegisteredContracts, admit};
use servanda_mcp::Era;

use super::conversations::result;
use crate::{
    Authorities, CallAnswer, CallRequest, Gateway as _, RequestTerms, Requester,
    approvals::{DecideError, DecisionOutcome, Person, PersonDecision},
    testing::{EngineHarness, EngineTestClock, ScriptedServer, call, draft, requester_of, text},
    world::{WorldSnapshot, server::UpstreamServer},
};

/// A gateway with a tool `write` that needs an approval, and a count of what reached its server.
struct Office {
    harness: EngineHarness,
    server: Arc<ScriptedServer>,
    clock: Arc<EngineTestClock>,
    sent: Arc<AtomicUsize>,
}

impl Office {
    fn new(change: impl FnOnce(&mut ToolContract)) -> Self {
        Self::with_settings(settings(), change)
    }

    fn with_settings(settings: ApprovalSettings, change: impl FnOnce(&mut ToolContract)) -> Self {
        let (clock, sent) = (EngineTestClock::new(), Arc::new(AtomicUsize::new(0)));
        let counter = Arc::clone(&sent);
        let server = ScriptedServer::new(Era::Modern, &json!({}), move |heard| {
            let counter = Arc::clone(&counter);
            async move {
                if heard.params["arguments"]["simulate"] == true {
                    return previews::said_of(heard.params["arguments"]["text"].as_str()).await;
                }
                if heard.params["name"] == "write" {
                    counter.fetch_add(1, Ordering::SeqCst);
                }
                Ok(text(Era::Modern, "done"))
            }
        });
        let world = world(&server, settings, vec![contract(change), draft("up", "echo", false)]);
        let harness = EngineHarness::in_snapshot(world, Arc::default(), clock.clone());
        Self { harness, server, clock, sent }
    }

    /// The operator changes settings or contracts.
    async fn change(&self, settings: ApprovalSettings, change: impl FnOnce(&mut ToolContract)) {
        let world = world(&self.server, settings, vec![contract(change), draft("up", "echo", false)]);
        self.harness.engine.replace_snapshot(world).await.unwrap();
    }

    fn request(&self) -> CallRequest {
        call(&self.agent(), "write", RequestTerms::default())
    }

    /// Ada's agent, with a credential of now.
    fn agent(&self) -> Requester {
        requester_of("acme", "ada", self.clock.now())
    }

    async fn call(&self) -> CallAnswer {
        self.harness.engine.call(self.request()).await
    }

    async fn refused(&self) -> Refusal {
        self.refusal_of(self.request()).await
    }

    /// The whole refusal of a call, from the record.
    async fn refusal_of(&self, request: CallRequest) -> Refusal {
        let answer = self.harness.engine.call(request).await;
        assert!(matches!(&answer, CallAnswer::Result(result) if result.is_error), "{answer:?}");
        self.harness.last_record().refusal.unwrap()
    }

    /// The ticket that the last call left.
    fn ticket_id(&self) -> TicketId {
        TicketId::from(self.harness.last_record().ticket_id.unwrap())
    }

    async fn ticket(&self, id: &TicketId) -> Ticket {
        self.harness.engine.approvals().tickets().find_ticket(TicketTarget::Id(id.clone())).await.unwrap().unwrap()
    }

    async fn decide(
        &self,
        who: &Person,
        id: &TicketId,
        verdict: ApprovalVerdict,
    ) -> Result<DecisionOutcome, DecideError> {
        let ticket = self.ticket(id).await;
        let reason = (verdict == ApprovalVerdict::Deny).then(|| "not this quarter".to_owned());
        let decision = PersonDecision {
            ticket: id.clone(),
            payload: ticket.subject.payload,
            verdict,
            reason,
            passkey: None,
            break_glass: false,
        };
        let settings = self.harness.engine.authorities();
        self.harness.engine.approvals().decide(who, decision, settings.approvals()).await
    }

    async fn approve(&self, who: &Person, id: &TicketId) -> Result<DecisionOutcome, DecideError> {
        self.decide(who, id, ApprovalVerdict::Approve).await
    }

    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }
}

fn contract(change: impl FnOnce(&mut ToolContract)) -> ToolContract {
    let mut contract = draft("up", "write", true);
    contract.transactional.confirmation_required = true;
    change(&mut contract);
    contract
}

fn world(server: &Arc<ScriptedServer>, settings: ApprovalSettings, contracts: Vec<ToolContract>) -> WorldSnapshot {
    let contracts = contracts.into_iter().map(|contract| admit(contract, &RegisteredContracts::new()).unwrap());
    let catalog = Catalog::new(contracts, ExposedNaming::Bare).unwrap();
    let servers = [("up".to_owned(), Arc::clone(server) as Arc<dyn UpstreamServer>)].into();
    let authorities = Authorities::with_default_policies(&catalog).unwrap().with_approvals(settings);
    WorldSnapshot::with_servers(Arc::new(catalog), servers, ExposedNaming::Bare, Arc::new(authorities))
}

/// Olga and Oscar are approvers, Ada owns the agent, Vera only looks. Calls do not wait for people.
fn settings() -> ApprovalSettings {
    let roles = RoleAssignments::default()
        .with(PersonRole::Approver, [member("acme/olga"), member("acme/oscar"), member("acme/ada")])
        .with(PersonRole::Viewer, [member("acme/vera")]);
    ApprovalSettings { roles, wait_ms_max: 0, ..ApprovalSettings::default() }
}

fn member(text: &str) -> RoleMember {
    RoleMember::try_from(text.to_owned()).unwrap()
}

fn person(name: &str) -> Person {
    Person {
        tenant: "acme".to_owned(),
        principal: name.to_owned(),
        groups: BTreeSet::new(),
        presence: Presence::Session,
        credential: "session:test".to_owned(),
    }
}

fn content(answer: CallAnswer) -> Value {
    result(answer)
}
