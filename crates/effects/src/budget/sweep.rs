//! What becomes of a reservation that its process may have left: by what the effect says that it is for. Pure; a store asks it for
//! what it finds, inside the transaction that acts on it.

use super::{BudgetHold, BudgetHoldKind, BudgetHoldStage};
use crate::effect::EffectState;

/// How long a reservation may be open whose effect was never begun, or that has none, before it counts as left: no call takes as
/// long to be begun.
pub const OPEN_MS_MAX: u64 = 15 * 60 * 1000;

/// What a sweep does about a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SweepDecision {
    /// It is used up.
    Settle,
    /// It is given back.
    Refund,
    /// It stays as it is.
    Wait,
}

/// What a sweep does about a reservation. `effect` is the state of what it is for, none if that was never begun; `is_superseded`
/// says that the effect is another call's by now, which has reserved for it: it is done once, and what it costs is that call's.
pub fn sweep_decision(
    hold: &BudgetHold,
    effect: Option<EffectState>,
    is_superseded: bool,
    now_ms: u64,
) -> SweepDecision {
    if hold.stage != BudgetHoldStage::Open || hold.kind != BudgetHoldKind::Reservation {
        return SweepDecision::Wait;
    }
    if is_superseded {
        return SweepDecision::Refund;
    }
    let is_old = now_ms.saturating_sub(hold.opened_ms) >= OPEN_MS_MAX;
    match (&hold.effect, effect) {
        (_, Some(state)) => by_state(state),
        (Some(_), None) if is_old => SweepDecision::Refund,
        // A call that leaves no effect may have been sent, and nobody will ever say.
        (None, None) if is_old => SweepDecision::Settle,
        (_, None) => SweepDecision::Wait,
    }
}

const fn by_state(state: EffectState) -> SweepDecision {
    match state {
        // What was undone was done; and what a tombstone is of, nobody knows any more.
        EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated | EffectState::Expired => {
            SweepDecision::Settle
        }
        // It never ran, and whoever claimed it then can never send it any more: to try again is to reserve again.
        EffectState::FailedRetryable => SweepDecision::Refund,
        // Unknown is a person's to settle, and then it is completed or may be tried again.
        EffectState::Claimed | EffectState::Dispatching | EffectState::OutcomeUnknown => SweepDecision::Wait,
    }
}
