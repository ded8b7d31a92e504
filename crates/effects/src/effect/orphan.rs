//! When an effect under way has lost its owner, so that another process may take it over. Pure; stores use it
//! in their transactions and, as columns, to find such effects.
//!
//! A live owner keeps its effects, however late its heartbeat comes: the effect's own lease, granted by the
//! store when the effect was begun or fenced, has to end first, and time only counts while the store is there
//! to receive a heartbeat.

use servanda_contract::tool::EffectClass;

use super::{Effect, EffectContext, EffectRule, EffectState, OwnerId, owner_silence_ms_max};

/// How much later than its own time limit a dispatch counts as over. Its owner has given up long before.
pub(super) const OVERDUE_GRACE_MS: u64 = 5_000;

/// Whether an effect needs recovery: a claim or a dispatch that no process holds any more.
pub fn is_orphaned(effect: &Effect, around: &EffectContext) -> bool {
    match effect.state {
        EffectState::Claimed => around.ledger_ms >= effect.lease_until_ms,
        EffectState::Dispatching => is_abandoned(effect, around),
        _ => false,
    }
}

/// Whether a process may recover an effect: it is orphaned, or it is the process's own and overdue.
pub(super) fn may_recover(effect: &Effect, process: &OwnerId, around: &EffectContext) -> bool {
    let is_own = effect.state == EffectState::Dispatching && effect.owner == *process;
    is_orphaned(effect, around) || (is_own && around.ledger_ms >= effect.overdue_at_ms)
}

/// Whether an effect under way needs a living owner. An effect that waits for input or for an upstream task
/// needs none, and neither does a claim, which has sent nothing.
pub fn needs_owner(effect: &Effect) -> bool {
    effect.state == EffectState::Dispatching && effect.awaits.is_none()
}

fn is_abandoned(effect: &Effect, around: &EffectContext) -> bool {
    if !needs_owner(effect) {
        return around.ledger_ms >= effect.overdue_at_ms;
    }
    let lease_is_over = !around.rules.has(EffectRule::Lease) || around.ledger_ms >= effect.lease_until_ms;
    let time_is_over = !waits_for_its_time(effect) || around.ledger_ms >= effect.at_work_until_ms();
    around.owner_is_gone && lease_is_over && time_is_over
}

impl Effect {
    /// The earliest ledger time at which an effect under way can be orphaned.
    pub fn due_ms(&self) -> u64 {
        match self.state {
            EffectState::Claimed => self.lease_until_ms,
            _ if !needs_owner(self) => self.overdue_at_ms,
            _ if waits_for_its_time(self) => self.at_work_until_ms().max(self.lease_until_ms),
            _ => self.lease_until_ms,
        }
    }

    /// How long the upstream may be working on a dispatch whose owner vanished: the bytes were sent within the
    /// lease of the dispatch or never, and the upstream's time limit counts from then.
    pub fn at_work_until_ms(&self) -> u64 {
        let dispatched_until_ms = self.overdue_at_ms.saturating_sub(OVERDUE_GRACE_MS);
        dispatched_until_ms.saturating_add(self.order.timeout_ms.min(owner_silence_ms_max()))
    }
}

/// The status tool is asked about class Q only when the effect's time is over: a call that the upstream is
/// still working on is not absent.
fn waits_for_its_time(effect: &Effect) -> bool {
    effect.class == EffectClass::Q
}
