//! What a step of an effect goes by beside the event, and what it comes to.
//!
//! Deliberately not here: the rules themselves, which are in `step` and `settle`.

use super::{Effect, EffectId, EffectReply, EffectRules, LedgerNow, LostWindow};

/// When to ask again for something that is under way, at the least and at the most.
const RETRY_AFTER_MS: (u64, u64) = (250, 30_000);

/// What is true around an effect at the moment of the event, as the store sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectContext {
    /// What the store's clock says.
    pub now_ms: u64,
    /// Ledger time.
    pub ledger_ms: u64,
    /// Whether the effect's owner has not been heard of for too long.
    pub owner_is_gone: bool,
    /// For a call without a key: an effect of the same caller and payload that ended unknown.
    pub twin: Option<EffectId>,
    /// For a call that takes turns: another effect that is under way and changes the same.
    pub blocked_by: Option<EffectId>,
    /// A time whose commits the store has lost, while that still matters.
    pub lost_window: Option<LostWindow>,
    /// Which rules are in force: all of them, but in the model.
    pub rules: EffectRules,
}

impl EffectContext {
    /// Nothing but the time.
    pub const fn at(now: LedgerNow) -> Self {
        let LedgerNow { now_ms, ledger_ms } = now;
        let (twin, blocked_by, lost_window, rules) = (None, None, None, EffectRules::IN_FORCE);
        Self { now_ms, ledger_ms, owner_is_gone: false, twin, blocked_by, lost_window, rules }
    }
}

/// What an event comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectTransition {
    /// The effect afterwards, if it changes.
    pub change: Option<Effect>,
    /// What to tell.
    pub reply: EffectReply,
}

impl EffectTransition {
    pub(super) fn reply(reply: EffectReply) -> Self {
        Self { change: None, reply }
    }

    /// It is under way, or may be: to be asked about again when that may be over.
    pub(super) fn running(effect: &Effect, until_ms: u64, around: &EffectContext) -> Self {
        let (least, most) = RETRY_AFTER_MS;
        let retry_after_ms = until_ms.saturating_sub(around.ledger_ms).clamp(least, most);
        Self::reply(EffectReply::Running { retry_after_ms, awaits: effect.awaits.clone() })
    }
}
