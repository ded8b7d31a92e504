//! A time whose commits a store has lost: an older copy was put back, or the end of its log was cut off, and a person accepted
//! that. A key that the store does not know may have been used in that time.

use servanda_contract::Timestamp;

use super::{Effect, EffectState};

/// How the reason of an effect begins that may have been dispatched in a lost time.
const LOST: &str = "this ledger lost the time from";

/// The time between the last commit that a store still has and the moment in which a person accepted the loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostWindow {
    /// When the last commit was made that is still there.
    pub from_ms: u64,
    /// When the loss was accepted; nothing was lost after that.
    pub until_ms: u64,
}

impl LostWindow {
    /// A new effect as if its key had been dispatched once at the beginning of the lost time: the earliest dispatch is the one
    /// whose upstream has forgotten the key first.
    pub(super) fn may_have_dispatched(&self, new: Effect) -> Effect {
        let (from, until) = (Timestamp::from_unix_ms(self.from_ms), Timestamp::from_unix_ms(self.until_ms));
        let why = format!("{LOST} {from} to {until}; nobody knows whether the key was used then");
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
    /// Whether nobody knows how it ended because it may have been dispatched at a time that the store has lost.
    pub fn is_from_lost_window(&self) -> bool {
        self.reason.as_ref().is_some_and(|reason| reason.starts_with(LOST))
    }
}
