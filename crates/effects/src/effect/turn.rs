//! Which effects are in each other's way: those of one tenant that change the same thing, by the names of their manifests, are
//! never under way at once, whichever gateway performs them. Pure; a store looks them up inside the transaction that begins one.
//!
//! Deliberately not here: waiting, and the order in which those that wait come.

use super::{BeginRequest, DispatchOrder, Effect, EffectState, EffectWaitReason};
use crate::overlap;

/// What an effect that is under way keeps others from changing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExclusiveResources<'a> {
    /// By name.
    pub resources: &'a [String],
    /// Until when, in ledger time, unless its end comes first; none if only its end counts.
    pub until_ms: Option<u64>,
}

impl Effect {
    /// What it keeps others from changing, if it does. What was sent holds until its end is known; a claim while its lease
    /// lasts; and what is unknown because its owner vanished holds until its time is over, because the upstream may still be at
    /// work on it. What waits for input does nothing meanwhile.
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
    /// Whether it waits for others that change the same, and they for it.
    pub fn takes_turns(&self) -> bool {
        !self.overlaps && !self.resources.is_empty()
    }
}

/// Whether what is held is what a call wants to change.
pub fn is_blocking(held: ExclusiveResources<'_>, begin: &BeginRequest, ledger_ms: u64) -> bool {
    let is_held = held.until_ms.is_none_or(|until_ms| ledger_ms < until_ms);
    let wanted = &begin.order.resources;
    is_held
        && begin.order.takes_turns()
        && held.resources.iter().any(|one| wanted.iter().any(|other| overlap(one, other)))
}
