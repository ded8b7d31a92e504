//! A window whose commits a store has lost: an older copy was restored, or the end of its log was cut off, and
//! a person accepted that. A key that the store does not know may have been used in that window.

use servanda_contract::Timestamp;

use super::{Effect, EffectState};

/// The beginning of the reason of an effect that may have been dispatched in a lost window.
const LOST: &str = "this ledger lost the time from";

/// The time between the last commit that a store still has and the moment a person accepted the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostWindow {
    /// The time of the last commit that is still there.
    pub from_ms: u64,
    /// When the loss was accepted; nothing was lost after that.
    pub until_ms: u64,
}

impl LostWindow {
    /// A new effect as if its key had been dispatched once at the beginning of the lost window: the upstream
    /// forgets the earliest dispatch first.
    pub(super) fn may_have_dispatched(&self, new: Effect) -> Effect {
        let (from, until) = (Timestamp::from_unix_ms(self.from_ms), Timestamp::from_unix_ms(self.until_ms));
        let why = format!("{LOST} {from} to {until}; it is unknown whether the key was used then");
        Effect {
            state: EffectState::OutcomeUnknown,
            dispatches: 1,
            first_dispatched_ms: Some(self.from_ms),
            reason: Some(why),
            ..new
        }
    }
}

impl Effect {
    /// Whether its outcome is unknown because it may have been dispatched in a window that the store has lost.
    pub fn is_from_lost_window(&self) -> bool {
        self.reason.as_ref().is_some_and(|reason| reason.starts_with(LOST))
    }
}
