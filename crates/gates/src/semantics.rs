//! Gate 5, semantics: the arguments satisfy the contract's own rules. Arguments that pass become canonical
//! bytes here, once, and everything after this gate hashes, shows and sends those bytes.

use servanda_contract::{
    Digest, GateName, Refusal, TaxonomyClass,
    digest::DigestDomain,
    json::{self, CanonicalBytes},
    tool::SideEffectClass,
};

use crate::{ResolvedCall, bounds::BoundedCall, operation::Operation, structure};

/// Evidence: the arguments satisfy the rules, in canonical form.
#[derive(Debug)]
pub(crate) struct CanonicalCall {
    pub(crate) resolved: ResolvedCall,
    pub(crate) arguments: CanonicalBytes,
    pub(crate) proposal_digest: Digest,
    pub(crate) operation: Operation,
    /// The class of the call, if the program in its arguments decides.
    pub(crate) program_class: Option<SideEffectClass>,
}

pub(crate) fn gate(bounded: BoundedCall) -> Result<CanonicalCall, Box<Refusal>> {
    let BoundedCall { resolved, arguments, operation } = bounded;
    let errors = resolved.contract.rules().violations(&arguments);
    if !errors.is_empty() {
        let hint = "reconsider the values together".to_owned();
        return Err(structure::refuse(&resolved, GateName::Semantics, TaxonomyClass::SemanticInvalidity, errors, hint));
    }
    let arguments = json::canonicalize(&arguments).map_err(|error| {
        Box::new(Refusal::new(
            resolved.proposal.call_id.clone(),
            GateName::Semantics,
            TaxonomyClass::SemanticInvalidity,
            format!("the arguments have no canonical form: {error}"),
            "send plain JSON values".to_owned(),
        ))
    })?;
    let proposal_digest = proposal_digest(&resolved, &arguments);
    let program_class = resolved.contract.program_class(arguments.bytes());
    Ok(CanonicalCall { resolved, arguments, proposal_digest, operation, program_class })
}

impl CanonicalCall {
    /// The class of the call.
    pub(crate) fn side_effect_class(&self) -> SideEffectClass {
        self.program_class.unwrap_or(self.resolved.contract.contract().transactional.side_effect_class)
    }
}

/// H of the design: the digest that an approval signs.
fn proposal_digest(resolved: &ResolvedCall, arguments: &CanonicalBytes) -> Digest {
    let contract = resolved.contract.contract();
    let contract_digest = resolved.contract.digest();
    let parts: [&[u8]; 4] = [
        resolved.proposal.caller.tenant.as_bytes(),
        contract.identity.name.as_bytes(),
        contract_digest.as_bytes(),
        arguments.bytes(),
    ];
    Digest::compute(DigestDomain::Proposal, &parts)
}
