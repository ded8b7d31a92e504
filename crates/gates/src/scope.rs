//! Gate 7, scope: the caller's credential covers this call: its scopes, its tool, what this payload touches, how grave it is, and
//! the time. Whether the credential was revoked meanwhile is looked at again when the call is dispatched.

use bytes::Bytes;
use servanda_authority::{Method, Need, rights::Lack};
use servanda_contract::{GateName, Refusal, TaxonomyClass, Timestamp};

use crate::{CompiledContract, Mandate, behaviour::Fitting, order, semantics::Meant};

/// Evidence: the credential covers the call.
#[derive(Debug)]
pub(crate) struct Covered {
    pub(crate) meant: Meant,
}

pub(crate) fn gate(fitting: Fitting, mandate: &Mandate<'_>) -> Result<Covered, Box<Refusal>> {
    let Fitting { meant } = fitting;
    let Mandate::Caller { authenticated, .. } = mandate else { return Ok(Covered { meant }) };
    let rights = authenticated.rights();
    let contract = &meant.resolved.contract;
    // The names of what a payload touches are made only for those to whom they make a difference.
    let resources = if rights.resources.is_all() { Vec::new() } else { contract.touched(meant.arguments.bytes()) };
    match rights.lacks(&contract.need(&resources, meant.resolved.proposal.received_at)) {
        None => Ok(Covered { meant }),
        Some(lack) => Err(refuse(&meant, &lack, authenticated.method())),
    }
}

impl CompiledContract {
    /// What a credential needs for a call that touches these resources. The gate asks it of the call; whoever tells of the call
    /// later, or lets somebody have a say in it, asks it again of whoever comes.
    pub fn need<'a>(&'a self, resources: &'a [String], at: Timestamp) -> Need<'a> {
        let contract = self.contract();
        Need {
            scopes: self.scopes(),
            tool: &contract.identity.name,
            resources,
            class: contract.transactional.side_effect_class,
            at,
        }
    }

    /// What a call with these arguments changes or reads, by name; everything, if the contract names nothing.
    pub fn touched(&self, arguments: &Bytes) -> Vec<String> {
        order::touched(self.contract(), arguments)
    }
}

fn refuse(meant: &Meant, lack: &Lack, method: &Method) -> Box<Refusal> {
    let call_id = meant.resolved.proposal.call_id.clone();
    let class = TaxonomyClass::PermissionDenied;
    let mut refusal = Refusal::new(call_id, GateName::Scope, class, lack.message(), lack.hint(method));
    if lack.only_scopes() {
        refusal.scopes_needed = lack.scopes_needed.iter().map(|scope| scope.as_str().to_owned()).collect();
    }
    Box::new(refusal)
}
