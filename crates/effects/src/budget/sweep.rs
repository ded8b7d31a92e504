//! What becomes of a reservation that its process may have left: by what the effect says that it is for. Pure; a store asks it for
//! what it finds, inside the transaction that acts on it.

use super::{Hold, HoldKind, Stage};
use crate::effect::EffectState;

/// How long a reservation may be open whose effect was never begun, or that has none, before it counts as left: no call takes as
/// long to be begun.
pub const OPEN_MS_MAX: u64 = 15 * 60 * 1000;

/// What a sweep does about a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is used up.
    Settle,
    /// It is given back.
    Refund,
    /// It stays as it is.
    Wait,
}

/// What a sweep does about a reservation. `effect` is the state of what it is for, none if that was never begun; `is_superseded`
/// says that the effect is another call's by now, which has reserved for it: it is done once, and what it costs is that call's.
pub fn verdict(hold: &Hold, effect: Option<EffectState>, is_superseded: bool, now_ms: u64) -> Verdict {
    if hold.stage != Stage::Open || hold.kind != HoldKind::Reservation {
        return Verdict::Wait;
    }
    if is_superseded {
        return Verdict::Refund;
    }
    let is_old = now_ms.saturating_sub(hold.opened_ms) >= OPEN_MS_MAX;
    match (&hold.effect, effect) {
        (_, Some(state)) => by_state(state),
        (Some(_), None) if is_old => Verdict::Refund,
        // A call that leaves no effect may have been sent, and nobody will ever say.
        (None, None) if is_old => Verdict::Settle,
        (_, None) => Verdict::Wait,
    }
}

const fn by_state(state: EffectState) -> Verdict {
    match state {
        // What was undone was done; and what a tombstone is of, nobody knows any more.
        EffectState::Completed | EffectState::FailedFinal | EffectState::Compensated | EffectState::Expired => {
            Verdict::Settle
        }
        // It never ran, and whoever claimed it then can never send it any more: to try again is to reserve again.
        EffectState::FailedRetryable => Verdict::Refund,
        // Unknown is a person's to settle, and then it is completed or may be tried again.
        EffectState::Claimed | EffectState::Dispatching | EffectState::OutcomeUnknown => Verdict::Wait,
    }
}
