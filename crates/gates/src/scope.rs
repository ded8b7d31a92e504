//! Gate 7, scope: the caller's credential covers this call: its scopes, its tool, what this payload touches, how grave it is, and
//! the time. Whether the credential was revoked meanwhile is looked at again when the call is dispatched.

use bytes::Bytes;
use servanda_authority::{Method, Need, rights::Lack};
use servanda_contract::{GateName, Refusal, TaxonomyClass, Timestamp, tool::SideEffectClass};

use crate::{CompiledContract, Mandate, behaviour::Fitting, mandate::Account, order, semantics::Meant};

/// Evidence: the credential covers the call.
#[derive(Debug)]
pub(crate) struct Covered {
    pub(crate) meant: Meant,
}

pub(crate) fn gate(fitting: Fitting, account: &Account<'_>) -> Result<Covered, Box<Refusal>> {
    let Fitting { meant } = fitting;
    let Account::Caller(Mandate { authenticated, .. }) = account else { return Ok(Covered { meant }) };
    let rights = authenticated.rights();
    let contract = &meant.resolved.contract;
    // The names of what a payload touches are made only for those to whom they make a difference.
    let resources = if rights.resources.is_all() { Vec::new() } else { contract.touched(meant.arguments.bytes()) };
    match rights.lacks(&contract.need(meant.side_effect_class(), &resources, meant.resolved.proposal.received_at)) {
        None => Ok(Covered { meant }),
        Some(lack) => Err(refuse(&meant, &lack, authenticated.method())),
    }
}

impl CompiledContract {
    /// What a credential needs for a call of that class that touches these resources. Gate 7 checks it for the call; it is checked again
    /// for every caller who later reads, cancels or answers that call.
    pub fn need<'a>(&'a self, class: SideEffectClass, resources: &'a [String], at: Timestamp) -> Need<'a> {
        Need { scopes: self.scopes(), tool: &self.contract().identity.name, resources, class, at }
    }

    /// How grave a call with these arguments is, if the contract says that the program among them decides, and the program is proved to
    /// be milder than the contract's class.
    pub fn program_class(&self, arguments: &[u8]) -> Option<SideEffectClass> {
        self.programs().class(self.contract(), arguments)
    }

    /// The class of a call with these arguments.
    pub fn class_of(&self, arguments: &[u8]) -> SideEffectClass {
        self.program_class(arguments).unwrap_or(self.contract().transactional.side_effect_class)
    }

    /// Whether a call can be of a milder class than the contract's.
    pub fn program_decides_class(&self) -> bool {
        self.programs().decide_class()
    }

    /// The class of the least grave call.
    pub fn mildest_class(&self) -> SideEffectClass {
        if self.program_decides_class() {
            SideEffectClass::ReadOnly
        } else {
            self.contract().transactional.side_effect_class
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
