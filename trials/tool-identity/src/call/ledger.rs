//! The ledger of call ids: one id, one call. The same call again is a replay; a different one under the same id is refused.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{CallId, Invocation, InvocationKind, invocation_of, output_of};
use crate::{IdentityError, LookupKey};

/// What is known about the calls of one conversation.
#[derive(Debug, Clone)]
pub struct CallLedger {
    calls: BTreeMap<CallId, Known>,
    calls_max: usize,
}

/// The progress of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallState {
    /// Its id.
    pub id: CallId,
    /// Its kind.
    pub kind: InvocationKind,
    /// Whether it was begun.
    pub executed: bool,
    /// Whether its output is known.
    pub completed: bool,
}

#[derive(Debug, Clone)]
struct Known {
    invocation: Invocation,
    executed: bool,
    completed: bool,
}

impl CallLedger {
    /// An empty ledger for that many calls. One more is refused: forgetting a call would let its id be used for another.
    pub const fn new(calls_max: usize) -> Self {
        Self { calls: BTreeMap::new(), calls_max }
    }

    /// Records a call. `None` if it cannot be compared with others, which is refused if its id is already known.
    pub fn observe(&mut self, item: &Value, key: Option<&LookupKey>) -> Result<Option<CallState>, IdentityError> {
        let Some(invocation) = Invocation::of(item, key) else {
            return match invocation_of(item) {
                Some((kind, Some(id))) if kind != InvocationKind::HostedRequest && self.calls.contains_key(&id) => {
                    Err(IdentityError::CallIdReused)
                }
                _ => Ok(None),
            };
        };
        self.observe_invocation(&invocation).map(Some)
    }

    /// Records a call that can be compared.
    pub fn observe_invocation(&mut self, invocation: &Invocation) -> Result<CallState, IdentityError> {
        if let Some(known) = self.calls.get(&invocation.id) {
            return if known.invocation == *invocation { Ok(known.state()) } else { Err(IdentityError::CallIdReused) };
        }
        if self.calls.len() >= self.calls_max {
            return Err(IdentityError::Full { what: "calls", limit: self.calls_max });
        }
        let known = Known { invocation: invocation.clone(), executed: false, completed: false };
        let state = known.state();
        self.calls.insert(invocation.id.clone(), known);
        Ok(state)
    }

    /// Records that a call was started.
    pub fn mark_executed(&mut self, item: &Value, key: Option<&LookupKey>) -> Result<(), IdentityError> {
        let Some(state) = self.observe(item, key)? else { return Ok(()) };
        if let Some(known) = self.calls.get_mut(&state.id) {
            known.executed = true;
        }
        Ok(())
    }

    /// Records an output. An output of another kind than its call, or of an unknown call, is ignored.
    pub fn mark_output(&mut self, item: &Value) {
        let Some((kind, id)) = output_of(item) else { return };
        if let Some(known) = self.calls.get_mut(&id).filter(|known| known.invocation.kind() == kind) {
            known.executed = true;
            known.completed = true;
        }
    }
}

impl Known {
    fn state(&self) -> CallState {
        CallState {
            id: self.invocation.id.clone(),
            kind: self.invocation.kind(),
            executed: self.executed,
            completed: self.completed,
        }
    }
}
