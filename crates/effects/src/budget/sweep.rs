//! What a sweep does with a reservation that its process may have abandoned, according to its effect. Pure; a
//! store calls it for every reservation it finds, inside the transaction that acts on the decision.

use super::{BudgetHold, BudgetHoldKind, BudgetHoldStage};
use crate::effect::EffectState;

/// How long a reservation without a begun effect may be open before it counts as abandoned: no call takes that
/// long to begin.
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

/// Decides about a reservation. `effect` is the state of its effect, none if that was never begun.
/// `is_superseded` says that another call that has reserved for the effect owns it by now: the effect is done
/// once, and that call pays for it.
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
        // A call without an effect may have been sent, and no later evidence will come.
        (None, None) if is_old => SweepDecision::Settle,
        (_, None) => SweepDecision::Wait,
    }
}

const fn by_state(state: EffectState) -> SweepDecision {
    match state {
        // A compensated effect was done first; what a tombstone's effect did is no longer known.
        EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated | EffectState::Expired => {
            SweepDecision::Settle
        }
        // It never ran, and the call that claimed it then can no longer send it: a new attempt reserves again.
        EffectState::FailedRetryable => SweepDecision::Refund,
        // A person settles an unknown effect; then it is completed or may be tried again.
        EffectState::Claimed | EffectState::Dispatching | EffectState::OutcomeUnknown => SweepDecision::Wait,
    }
}
