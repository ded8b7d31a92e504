//! Gate 10, confirmation: a call whose contract requires a person's approval does not pass without one.
//!
//! This version has no way to give an approval yet, so such a call is always refused: a contract that requires
//! confirmation and a gateway that ignores it would be worse than no contract. This is the last gate that needs
//! nothing from outside, so it makes the permit.

use std::sync::Arc;

use servanda_contract::{
    CallId, Digest, GateName, Proposal, Refusal, TaxonomyClass,
    digest::DigestDomain,
    json::CanonicalBytes,
    tool::{EffectClass, Overlap, QuestionKind, SideEffectClass},
};
use servanda_effects::effect::{ClientKey, EffectKey};
use servanda_identity::effects::UrlDestination;

use crate::{
    CompiledContract, Mandate, operation::Operation, policy, resources, semantics::CanonicalCall, state::InServiceCall,
};

/// Evidence that every gate before the last one passed the call. Gate 11 decides about its cost: only a call
/// that it cleared can be fenced.
#[derive(Debug)]
pub struct Permit {
    meant: CanonicalCall,
}

pub(crate) fn gate(in_time: InServiceCall) -> Result<Permit, Box<Refusal>> {
    let InServiceCall { meant } = in_time;
    let contract = meant.resolved.contract.contract();
    if contract.transactional.confirmation_required {
        let refusal = Refusal::new(
            meant.resolved.proposal.call_id.clone(),
            GateName::Confirmation,
            TaxonomyClass::ConfirmationMissing,
            format!(
                "`{}` is always refused: it needs approval, which cannot be given yet",
                meant.resolved.proposal.tool
            ),
            "do not wait or try another way; tell the user what you wanted to do".to_owned(),
        );
        return Err(Box::new(refusal.for_operators(
            "perform it yourself, or set `transactional.confirmation_required: false` in the contract",
        )));
    }
    Ok(Permit { meant })
}

impl Permit {
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
