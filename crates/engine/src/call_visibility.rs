//! Whether a client may know of a call that was made before, perhaps by another client. Gate 7 compared the call with its credential;
//! a client that asks how the call ended, cancels it or answers its questions passes the same comparison. A client that may not know of
//! a call gets the same answer as for one that does not exist.

use std::collections::BTreeSet;

use servanda_authority::RequiredRights;
use servanda_contract::{Caller, Timestamp, tool::SideEffectClass};

use crate::{client::Requester, world::WorldSnapshot};

/// What is on record of a call.
#[derive(Debug)]
pub(crate) struct PastCall<'a> {
    /// The caller who made it.
    pub(crate) owner: &'a Caller,
    /// The exposed name as called.
    pub(crate) exposed_tool: &'a str,
    /// The contract's name.
    pub(crate) contract: &'a str,
    /// The names of what it changes and reads.
    pub(crate) touches: &'a [String],
    /// How severe it was, if the program in its arguments decided that.
    pub(crate) program_class: Option<SideEffectClass>,
}

impl PastCall<'_> {
    /// Whether the requester may know of the call: the same party began it, and the requester's credential covers it. A credential may have
    /// been narrowed without another agent in between.
    pub(crate) fn is_visible_to(&self, requester: &Requester, snapshot: &WorldSnapshot, now: Timestamp) -> bool {
        if !requester.caller.may_see_calls_of(self.owner) {
            return false;
        }
        let rights = requester.authority.rights();
        if let Some(contract) = snapshot.contract(self.exposed_tool, self.contract) {
            let class = self.program_class.unwrap_or(contract.contract().transactional.side_effect_class);
            return rights.lacks(&contract.need(class, self.touches, now)).is_none();
        }
        // Without the contract, the class and the scopes of the call are unknown, so the gravest class is assumed.
        let (scopes, class) = (&BTreeSet::new(), SideEffectClass::CriticalMutation);
        rights.lacks(&RequiredRights { scopes, tool: self.contract, resources: self.touches, class, at: now }).is_none()
    }
}
