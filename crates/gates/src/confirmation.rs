//! Gate 10, confirmation: a call that needs a person's approval does not pass without one.
//!
//! The gate decides whether the call needs an approval (`servanda_approval::demand`). A call that needs none gets its permit here. A call
//! that needs one is held: only a warrant for this very call makes a permit of it, and the fence uses the warrant's ticket up in the
//! transaction that lets bytes leave. Or a person has made a grant that covers the call: then the fence draws on it in the same transaction. A
//! grant is looked at only here, after every gate that refuses, so it turns "held" into "permitted" and nothing else. Deliberately not here:
//! opening tickets, finding grants, and waiting for people.

use std::{ops::Deref, sync::Arc};

use bytes::Bytes;
use servanda_approval::{
    ApprovalDemand, ApprovalFacts, ApprovalInputs, ApprovalUse, ApprovalUseKind, GrantExpectation, GrantFault,
    GrantKey, StandingGrant, TicketId, TicketKey, VerifiedGrant, VerifiedWarrant, Warrant, WarrantExpectation,
    WarrantFault, demand,
};
use servanda_authority::attestation::AttestationPublicKey;
use servanda_contract::{
    CallId, Digest, GateName, Proposal, Refusal, TaxonomyClass,
    digest::DigestDomain,
    json::CanonicalBytes,
    tool::{EffectClass, Overlap, QuestionKind, SideEffectClass},
};
use servanda_effects::effect::{ClientKey, EffectKey};
use servanda_identity::effects::UrlDestination;
use servanda_policy::{GrantQuestion, granted_call_admits};

use crate::{
    CompiledContract, Mandate, mandate::CallOrigin, operation::Operation, policy, resources, semantics::CanonicalCall,
    state::InServiceCall,
};

/// A call that gates 1 to 9 have passed, as everything after them sees it.
#[derive(Debug)]
pub struct JudgedCall {
    meant: CanonicalCall,
}

/// Evidence that every gate before the last one passed the call. Gate 11 decides about its cost: only a call
/// that it cleared can be fenced.
#[derive(Debug)]
pub struct Permit {
    judged: JudgedCall,
    /// Boxed, because few calls have one.
    approval: Option<Box<VerifiedApproval>>,
}

/// What people said to a call that needs an approval.
#[derive(Debug)]
enum VerifiedApproval {
    /// They approved this very call.
    Warrant(VerifiedWarrant),
    /// A person allowed calls like it.
    Grant(VerifiedGrant),
}

/// A call that needs an approval and shows none yet. It cannot be cleared or fenced.
#[derive(Debug)]
pub struct HeldCall {
    judged: JudgedCall,
    demand: Box<ApprovalDemand>,
}

/// What gate 10 makes of a call.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most calls are permitted, and a box would cost each of them an allocation"
)]
pub enum Confirmation {
    /// It needs no approval.
    Permitted(Permit),
    /// It needs one.
    Held(Box<HeldCall>),
}

/// The warrant that a held call shows, and what it is checked against.
#[derive(Debug, Clone, Copy)]
pub struct ShownWarrant<'a> {
    /// The warrant.
    pub warrant: &'a Warrant,
    /// The ticket that the call took up.
    pub ticket: &'a TicketId,
    /// The trace of the call that opened the ticket.
    pub trace_id: &'a str,
    /// The keys that may have signed it.
    pub keys: &'a [AttestationPublicKey],
    /// The time.
    pub now_ms: u64,
}

/// The grant that may cover a held call, and what it is checked against.
#[derive(Debug, Clone, Copy)]
pub struct ShownGrant<'a> {
    /// The grant, as it is kept.
    pub grant: &'a StandingGrant,
    /// The keys that may have signed it.
    pub keys: &'a [AttestationPublicKey],
    /// The time.
    pub now_ms: u64,
}

pub(crate) fn gate(in_time: InServiceCall, account: &CallOrigin<'_>) -> Result<Confirmation, Box<Refusal>> {
    let InServiceCall { meant, approvals } = in_time;
    let judged = JudgedCall { meant };
    let contract = judged.contract().contract();
    let CallOrigin::Caller(mandate) = account else {
        // No person waits for the gateway's own questions, so a tool that needs an approval is not asked.
        if ApprovalFacts::from_contract(contract).asks_by_itself() {
            return Err(not_asked(&judged));
        }
        return Ok(Confirmation::Permitted(Permit { judged, approval: None }));
    };
    let class = judged.side_effect_class();
    let asks_by_itself = contract.transactional.confirmation_required || contract.approval.is_some();
    if class == SideEffectClass::ReadOnly && !asks_by_itself && approvals.is_empty() {
        return Ok(Confirmation::Permitted(Permit { judged, approval: None }));
    }
    let inputs = ApprovalInputs {
        class,
        facts: ApprovalFacts::from_contract(contract),
        trust: mandate.policy.principal.trust(mandate.approvals),
        policies: &approvals,
        payload: Some(&judged.meant.proposal_digest),
    };
    Ok(match demand(&inputs, mandate.approvals) {
        None => Confirmation::Permitted(Permit { judged, approval: None }),
        Some(demand) => Confirmation::Held(Box::new(HeldCall { judged, demand: Box::new(demand) })),
    })
}

/// Refuses a question of the gateway to a tool that needs an approval.
pub(crate) fn not_asked(judged: &JudgedCall) -> Box<Refusal> {
    let (call_id, class) = (judged.call_id().clone(), TaxonomyClass::ConfirmationMissing);
    let message =
        format!("`{}` needs a person's approval, so the gateway does not ask it by itself", judged.proposal().tool);
    let hint = "name a tool that needs no approval".to_owned();
    Box::new(Refusal::new(call_id, GateName::Confirmation, class, message, hint))
}

impl HeldCall {
    /// The approval that it needs.
    pub fn demand(&self) -> &ApprovalDemand {
        &self.demand
    }

    /// What its ticket is looked up by.
    pub fn ticket_key(&self) -> TicketKey {
        TicketKey::new(&self.proposal().caller, &self.payload_digest())
    }

    /// Makes a permit of the call if the warrant approves this very call. Otherwise the call comes back, with the reason.
    pub fn confirm(self: Box<Self>, shown: &ShownWarrant<'_>) -> Result<Permit, (Box<Self>, WarrantFault)> {
        let contract = self.contract().contract();
        let caller = &self.proposal().caller;
        let expected = WarrantExpectation {
            ticket: shown.ticket,
            trace_id: shown.trace_id,
            tenant: &caller.tenant,
            principal: &caller.principal,
            actors: &caller.actors,
            tool: &contract.identity.name,
            version: &contract.identity.version,
            contract_digest: &self.contract().digest(),
            payload: &self.proposal_digest(),
            now_ms: shown.now_ms,
        };
        match shown.warrant.verify(shown.keys, &expected) {
            Ok(warrant) => {
                Ok(Permit { judged: self.judged, approval: Some(Box::new(VerifiedApproval::Warrant(warrant))) })
            }
            Err(fault) => Err((self, fault)),
        }
    }

    /// Makes a permit of the call if the grant covers it. Otherwise the call comes back, with the reason.
    pub fn allow(self: Box<Self>, shown: &ShownGrant<'_>) -> Result<Permit, (Box<Self>, GrantFault)> {
        match self.judged.check_grant(&self.demand, shown) {
            Ok(grant) => Ok(Permit { judged: self.judged, approval: Some(Box::new(VerifiedApproval::Grant(grant))) }),
            Err(fault) => Err((self, fault)),
        }
    }
}

impl Permit {
    /// The approval that its dispatch uses up, or the grant that it draws on; none if it needs neither.
    pub(crate) fn approval_use(&self) -> Option<ApprovalUse> {
        let (kind, ticket, payload, digest) = match self.approval.as_deref()? {
            VerifiedApproval::Warrant(warrant) => {
                (ApprovalUseKind::Approval, warrant.ticket(), warrant.payload(), warrant.digest())
            }
            VerifiedApproval::Grant(grant) => {
                let kind = ApprovalUseKind::Grant { call: grant.call(), cost_micros: grant.cost_micros() };
                (kind, grant.ticket(), grant.payload(), grant.digest())
            }
        };
        let call_id = self.call_id().clone();
        Some(ApprovalUse { kind, ticket: ticket.clone(), payload: *payload, call_id, warrant: *digest })
    }

    /// Whether its dispatch uses up an approval or draws on a grant.
    pub fn is_approved_by_people(&self) -> bool {
        self.approval.is_some()
    }
}

impl Confirmation {
    /// The permit of a call that needs no approval. A held call comes back.
    pub fn permitted(self) -> Result<Permit, Box<HeldCall>> {
        match self {
            Self::Permitted(permit) => Ok(permit),
            Self::Held(held) => Err(held),
        }
    }

    /// The call and the approval that it needs, without the evidence that lets it go on.
    pub(crate) fn for_preview(self) -> (JudgedCall, Option<Box<ApprovalDemand>>) {
        match self {
            Self::Permitted(Permit { judged, approval: _ }) => (judged, None),
            Self::Held(held) => (held.judged, Some(held.demand)),
        }
    }
}

impl Deref for Permit {
    type Target = JudgedCall;

    fn deref(&self) -> &JudgedCall {
        &self.judged
    }
}

impl Deref for HeldCall {
    type Target = JudgedCall;

    fn deref(&self) -> &JudgedCall {
        &self.judged
    }
}

impl Deref for Confirmation {
    type Target = JudgedCall;

    fn deref(&self) -> &JudgedCall {
        match self {
            Self::Permitted(permit) => permit,
            Self::Held(held) => held,
        }
    }
}

impl JudgedCall {
    /// The call.
    pub fn call_id(&self) -> &CallId {
        &self.meant.resolved.proposal.call_id
    }

    /// The proposal as it arrived.
    pub fn proposal(&self) -> &Proposal {
        &self.meant.resolved.proposal
    }

    /// The contract that judged it.
    pub fn contract(&self) -> &CompiledContract {
        &self.meant.resolved.contract
    }

    /// The contract, for code that needs it after the permit is used up.
    pub fn shared_contract(&self) -> Arc<CompiledContract> {
        Arc::clone(&self.meant.resolved.contract)
    }

    /// The arguments of the upstream's own dry run of the call; none if the contract names none.
    pub fn dry_run_arguments(&self) -> Option<Bytes> {
        let dry_run = self.contract().dry_run()?;
        dry_run.arguments(self.arguments().bytes())
    }

    /// The side-effect class of this call: the contract's, or that of its program if the contract says that the
    /// program decides and the program is fully understood.
    pub fn side_effect_class(&self) -> SideEffectClass {
        self.meant.side_effect_class()
    }

    /// The canonical arguments.
    pub fn arguments(&self) -> &CanonicalBytes {
        &self.meant.arguments
    }

    /// Whether the arguments contain URLs with a destination.
    pub fn has_destinations(&self) -> bool {
        self.contract().programs().has_urls()
    }

    /// The destinations of the URLs in the arguments, with the JSON Pointer of each.
    pub fn destinations(&self) -> Vec<(String, UrlDestination)> {
        self.contract().programs().destinations(self.arguments())
    }

    /// The questions that the policies forbid the upstream to ask the caller during the call.
    pub fn refused_questions(&self, mandate: &Mandate<'_>) -> Vec<QuestionKind> {
        policy::refused_questions(&self.meant, mandate)
    }

    /// What the grants that may cover it are looked up by.
    pub fn grant_key(&self) -> GrantKey {
        GrantKey::new(&self.proposal().caller, &self.contract().contract().identity.name)
    }

    /// Checks that a call of a grant covers this call, which needs this approval: whose it is, for which contract, until when, how often, for
    /// how much money, and by its policy the arguments.
    pub fn check_grant(&self, demand: &ApprovalDemand, shown: &ShownGrant<'_>) -> Result<VerifiedGrant, GrantFault> {
        let (caller, tool) = (&self.proposal().caller, &self.contract().contract().identity.name);
        let contract_digest = self.contract().digest();
        let expected = GrantExpectation {
            tenant: &caller.tenant,
            principal: &caller.principal,
            actors: &caller.actors,
            tool,
            contract_digest: &contract_digest,
            demand,
            payload: &self.proposal_digest(),
            price: self.contract().price().ok(),
            now_ms: shown.now_ms,
        };
        let arguments = self.arguments().bytes();
        let question = GrantQuestion { caller, tool, contract: &contract_digest, arguments };
        let grant = &shown.grant.signed.grant;
        shown.grant.verify(shown.keys, &expected, |call| granted_call_admits(grant, call, &question))
    }

    /// The digest that an approval would sign.
    pub fn proposal_digest(&self) -> Digest {
        self.meant.proposal_digest
    }

    /// The digest that a key is bound to. The same payload under a newer version of the contract has the same
    /// digest.
    pub fn payload_digest(&self) -> Digest {
        let tenant = self.proposal().caller.tenant.as_bytes();
        let tool = self.contract().contract().identity.name.as_bytes();
        Digest::compute(DigestDomain::Payload, &[tenant, tool, self.arguments().bytes()])
    }

    /// The key that its effect would be looked up by.
    pub fn effect_key(&self, client_key: ClientKey) -> EffectKey {
        let (caller, identity) = (&self.proposal().caller, &self.contract().contract().identity);
        EffectKey {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            tool: identity.name.clone(),
            contract_major: identity.major(),
            client_key,
        }
    }

    /// The operation that the client named.
    pub fn operation(&self) -> &Operation {
        &self.meant.operation
    }

    /// Whether its contract has preconditions that are checked before it may be sent.
    pub fn asks_first(&self) -> bool {
        !self.contract().preconditions().is_empty()
    }

    /// Whether it waits for calls that change the same resource.
    pub fn takes_turns(&self) -> bool {
        let effect = self.contract().contract().effect.as_ref();
        effect.is_some_and(|effect| effect.class.mutates() && effect.overlap == Overlap::Serialise)
    }

    /// The resources it changes.
    pub fn changes(&self) -> Vec<String> {
        resources::changed(self.contract().contract().effect.as_deref(), self.arguments().bytes())
    }

    /// The resources it reads.
    pub fn reads(&self) -> Vec<String> {
        resources::read(self.contract().contract().effect.as_deref(), self.arguments().bytes())
    }

    /// What may follow an uncertain dispatch.
    pub fn effect_class(&self) -> EffectClass {
        self.contract().contract().effect_class()
    }
}
