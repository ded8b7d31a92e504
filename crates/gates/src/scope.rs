//! Gate 7, scope: the caller's credential covers this call: its scopes, its tool, the resources of this
//! payload, its class, and the time. Revocation is checked again when the call is dispatched.

use servanda_authority::{CredentialMethod, rights::MissingRights};
use servanda_contract::{GateName, Refusal, TaxonomyClass};

use crate::{Mandate, behaviour::FittingCall, mandate::CallOrigin, semantics::CanonicalCall};

/// Evidence: the credential covers the call.
#[derive(Debug)]
pub(crate) struct CoveredCall {
    pub(crate) meant: CanonicalCall,
}

pub(crate) fn gate(fitting: FittingCall, account: &CallOrigin<'_>) -> Result<CoveredCall, Box<Refusal>> {
    let FittingCall { meant } = fitting;
    let CallOrigin::Caller(Mandate { authenticated, .. }) = account else { return Ok(CoveredCall { meant }) };
    let rights = authenticated.rights();
    let contract = &meant.resolved.contract;
    // The resources of a payload are computed only for credentials that limit them.
    let resources = if rights.resources.is_all() { Vec::new() } else { contract.touched(meant.arguments.bytes()) };
    match rights.lacks(&contract.need(meant.side_effect_class(), &resources, meant.resolved.proposal.received_at)) {
        None => Ok(CoveredCall { meant }),
        Some(lack) => Err(refuse(&meant, &lack, authenticated.method())),
    }
}

fn refuse(meant: &CanonicalCall, lack: &MissingRights, method: &CredentialMethod) -> Box<Refusal> {
    let call_id = meant.resolved.proposal.call_id.clone();
    let class = TaxonomyClass::PermissionDenied;
    let mut refusal = Refusal::new(call_id, GateName::Scope, class, lack.message(), lack.hint(method));
    if lack.only_scopes() {
        refusal.scopes_needed = lack.scopes_needed.iter().map(|scope| scope.as_str().to_owned()).collect();
    }
    Box::new(refusal)
}
