//! Which effects block each other: effects of one tenant that change the same resource, by the names in their
//! manifests, are never under way at once, whichever gateway performs them. Pure; a store looks them up inside
//! the transaction that begins one.
//!
//! Deliberately not here: waiting, and the order of the waiting calls.

use super::{BeginRequest, DispatchOrder, Effect, EffectState, EffectWaitReason};
use crate::overlap;

/// The resources that an effect under way keeps others from changing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExclusiveResources<'a> {
    /// The names of the resources.
    pub resources: &'a [String],
    /// The ledger time until which it blocks, unless it ends before; none if only its end counts.
    pub until_ms: Option<u64>,
}

impl Effect {
    /// The resources that it keeps others from changing, if any. A sent effect blocks until its end is known, a
    /// claim while its lease lasts. An effect that is unknown because its owner vanished blocks until its time
    /// is over, because the upstream may still be working on it. An effect that waits for input does not block,
    /// because it does nothing meanwhile.
    pub fn exclusive_resources(&self) -> Option<ExclusiveResources<'_>> {
        let until_ms = match (self.state, &self.awaits) {
            (EffectState::Claimed, _) => Some(self.lease_until_ms),
            (EffectState::Dispatching, None | Some(EffectWaitReason::Task(_))) => None,
            (EffectState::OutcomeUnknown, _) => Some(self.overdue_at_ms),
            _ => return None,
        };
        self.order.takes_turns().then_some(ExclusiveResources { resources: &self.order.resources, until_ms })
    }
}

impl DispatchOrder {
    /// Whether it waits for effects that change the same resources, and they for it.
    pub fn takes_turns(&self) -> bool {
        !self.overlaps && !self.resources.is_empty()
    }
}

/// Whether the held resources overlap those that a call wants to change.
pub fn is_blocking(held: ExclusiveResources<'_>, begin: &BeginRequest, ledger_ms: u64) -> bool {
    let is_held = held.until_ms.is_none_or(|until_ms| ledger_ms < until_ms);
    let wanted = &begin.order.resources;
    is_held
        && begin.order.takes_turns()
        && held.resources.iter().any(|one| wanted.iter().any(|other| overlap(one, other)))
}
