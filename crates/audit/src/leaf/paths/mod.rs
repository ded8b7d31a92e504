//! Which leaf may follow which: nothing is dispatched without its decision, no approval is used that people did not give, and nothing
//! ends twice. Each path that is not legal has a name.
//!
//! It remembers one small state for each call, effect and ticket, by a hash of its id, so that memory grows by about 40 bytes for each.
//! Deliberately not here: whether the decisions were right; a replay tells.

mod calls;
mod effects;
mod fault;
mod tickets;

pub use fault::StatePathFault;

use std::collections::HashMap;

use sha2::{Digest as _, Sha256};

use self::{calls::CallPath, effects::EffectPath, tickets::TicketPath};
use super::event::{AuditEvent, AuditLeaf, ChangedThing};
use crate::verify::{LeafCheck, LeafCheckFault};

/// The word of a change by which a call uses a grant as its approval. The grant has the id of its ticket.
pub const GRANT_DRAWN: &str = "drawn";
/// Calls, effects and tickets that are remembered, each.
pub const TRACKED_MAX: usize = 64 * 1024 * 1024;

/// The states that the leaves so far led to.
#[derive(Debug, Default)]
pub struct StatePaths {
    calls: Tracked<CallPath>,
    effects: Tracked<EffectPath>,
    tickets: Tracked<TicketPath>,
}

impl StatePaths {
    /// Checks the next leaf.
    pub fn follow(&mut self, leaf: &AuditLeaf) -> Result<(), StatePathFault> {
        match &leaf.event {
            AuditEvent::Decision(decision) => self.calls.get(&decision.call)?.decide(decision),
            AuditEvent::Outcome(outcome) => self.calls.get(&outcome.call)?.end(outcome),
            AuditEvent::Call(call) => {
                let path = self.calls.get(&call.decision.call)?;
                path.decide_with_end(call)?;
                if call.outcome.call == call.decision.call {
                    path.end(&call.outcome)
                } else {
                    Err(StatePathFault::OutcomeWithoutDecision { call: call.outcome.call.clone() })
                }
            }
            AuditEvent::Effect(effect) => {
                let call = self.calls.get(&effect.call)?;
                self.effects.get(&effect.effect)?.change(effect, call)
            }
            AuditEvent::Ticket(ticket) => {
                self.tickets.get(&ticket.ticket)?.change(ticket)?;
                if let Some(call) = &ticket.call {
                    self.calls.get(call)?.note(ticket);
                }
                Ok(())
            }
            AuditEvent::Approval(approval) => self.tickets.get(&approval.ticket)?.decide(approval),
            AuditEvent::Change(change) => {
                if let (ChangedThing::Grant, GRANT_DRAWN, Some(call)) = (change.thing, &*change.change, &change.call) {
                    self.calls.get(call)?.use_approval(&change.id);
                }
                Ok(())
            }
        }
    }
}

impl LeafCheck for StatePaths {
    fn check(&mut self, _index: u64, leaf: &[u8]) -> Result<(), LeafCheckFault> {
        let leaf = AuditLeaf::from_bytes(leaf)?;
        Ok(self.follow(&leaf)?)
    }
}

/// The first half of a hash of an id.
type TrackedId = [u8; 16];

fn tracked_id(id: &str) -> TrackedId {
    let hash: [u8; 32] = Sha256::digest(id).into();
    hash.first_chunk().copied().unwrap_or_default()
}

/// States by the ids of what has them.
#[derive(Debug, Default)]
struct Tracked<T>(HashMap<TrackedId, T>);

impl<T: Default> Tracked<T> {
    /// The state, as it is before anything is known about it if it is new.
    fn get(&mut self, id: &str) -> Result<&mut T, StatePathFault> {
        let id = tracked_id(id);
        if self.0.len() >= TRACKED_MAX && !self.0.contains_key(&id) {
            return Err(StatePathFault::TooMany);
        }
        Ok(self.0.entry(id).or_default())
    }
}
