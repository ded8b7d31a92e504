//! Gate 10, confirmation: a call whose contract asks for a person's approval does not go through without one.
//!
//! This version has no way to give an approval yet, so such a call is refused, always: a contract that asks for
//! confirmation and a gateway that waves the call through would be worse than no contract. Being the last gate that needs nothing
//! from outside, it mints the permit.

use std::sync::Arc;

use servanda_contract::{
    CallId, Digest, GateName, Proposal, Refusal, TaxonomyClass,
    digest::Domain,
    json::CanonicalBytes,
    tool::{EffectClass, Overlap, QuestionKind, SideEffectClass},
};
use servanda_effects::effect::{ClientKey, EffectKey};
use servanda_identity::effects::Destination;

use crate::{CompiledContract, Mandate, operation::Operation, policy, resources, semantics::Meant, state::InTime};

/// Evidence that every gate but the last said yes. What it may cost is gate 11's to say: only what that has cleared can be fenced.
#[derive(Debug)]
pub struct Permit {
    meant: Meant,
}

pub(crate) fn gate(in_time: InTime) -> Result<Permit, Box<Refusal>> {
    let InTime { meant } = in_time;
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

    /// The contract it was judged by.
    pub fn contract(&self) -> &CompiledContract {
        &self.meant.resolved.contract
    }

    /// The same, for whoever needs it after the permit is used up.
    pub fn shared_contract(&self) -> Arc<CompiledContract> {
        Arc::clone(&self.meant.resolved.contract)
    }

    /// The side-effect class of this call: the contract's, or that of the program which it brings where the contract says that the
    /// program decides and the program is fully understood.
    pub fn side_effect_class(&self) -> SideEffectClass {
        self.meant.side_effect_class()
    }

    /// The canonical arguments.
    pub fn arguments(&self) -> &CanonicalBytes {
        &self.meant.arguments
    }

    /// Whether URLs among the arguments lead anywhere.
    pub fn has_destinations(&self) -> bool {
        self.contract().programs().has_urls()
    }

    /// Where the URLs among the arguments lead, with the JSON Pointer of each.
    pub fn destinations(&self) -> Vec<(String, Destination)> {
        self.contract().programs().destinations(self.arguments())
    }

    /// What the policies forbid the upstream to ask of the caller meanwhile.
    pub fn refused_questions(&self, mandate: &Mandate<'_>) -> Vec<QuestionKind> {
        policy::refused_questions(&self.meant, mandate)
    }

    /// What an approval would sign.
    pub fn proposal_digest(&self) -> Digest {
        self.meant.proposal_digest
    }

    /// What a key is bound to: the same payload by a newer version of the contract is still the same.
    pub fn payload_digest(&self) -> Digest {
        let tenant = self.proposal().caller.tenant.as_bytes();
        let tool = self.contract().contract().identity.name.as_bytes();
        Digest::of(Domain::Payload, &[tenant, tool, self.arguments().bytes()])
    }

    /// What its effect would be looked up by.
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

    /// Which operation it is, as its client says.
    pub fn operation(&self) -> &Operation {
        &self.meant.operation
    }

    /// Whether its contract wants to know something before it may be sent.
    pub fn asks_first(&self) -> bool {
        !self.contract().demands().is_empty()
    }

    /// Whether it waits for calls that change the same thing.
    pub fn takes_turns(&self) -> bool {
        let effect = self.contract().contract().effect.as_ref();
        effect.is_some_and(|effect| effect.class.mutates() && effect.overlap == Overlap::Serialise)
    }

    /// What it changes, by name.
    pub fn changes(&self) -> Vec<String> {
        resources::changed(self.contract().contract().effect.as_deref(), self.arguments().bytes())
    }

    /// What it reads, by name.
    pub fn reads(&self) -> Vec<String> {
        resources::read(self.contract().contract().effect.as_deref(), self.arguments().bytes())
    }

    /// What may follow an uncertain dispatch.
    pub fn effect_class(&self) -> EffectClass {
        self.contract().contract().effect_class()
    }
}
