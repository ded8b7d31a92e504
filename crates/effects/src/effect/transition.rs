//! What a step of an effect depends on besides the event, and what it returns.
//!
//! Deliberately not here: the rules themselves, which are in `step` and `settle`.

use super::{Effect, EffectId, EffectReply, EffectRules, LedgerNow, LostWindow};

/// The shortest and the longest time after which to ask again about an effect under way.
const RETRY_AFTER_MS: (u64, u64) = (250, 30_000);

/// The circumstances of an event, as the store sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectContext {
    /// The store's clock.
    pub now_ms: u64,
    /// Ledger time.
    pub ledger_ms: u64,
    /// Whether the effect's owner has been silent for too long.
    pub owner_is_gone: bool,
    /// For a call without a key: an effect of the same caller and payload that ended unknown.
    pub twin: Option<EffectId>,
    /// For a call that takes turns: another effect under way that changes the same resource.
    pub blocked_by: Option<EffectId>,
    /// A window whose commits the store has lost, while that still matters.
    pub lost_window: Option<LostWindow>,
    /// The rules in force: all of them, except in the model.
    pub rules: EffectRules,
}

impl EffectContext {
    /// Only the time, with defaults for the rest.
    pub const fn at(now: LedgerNow) -> Self {
        let LedgerNow { now_ms, ledger_ms } = now;
        let (twin, blocked_by, lost_window, rules) = (None, None, None, EffectRules::IN_FORCE);
        Self { now_ms, ledger_ms, owner_is_gone: false, twin, blocked_by, lost_window, rules }
    }
}

/// The result of an event.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectTransition {
    /// The effect afterwards, if it changes.
    pub change: Option<Effect>,
    /// The reply.
    pub reply: EffectReply,
}

impl EffectTransition {
    pub(super) fn reply(reply: EffectReply) -> Self {
        Self { change: None, reply }
    }

    /// The effect is, or may be, under way: ask again when that may be over.
    pub(super) fn running(effect: &Effect, until_ms: u64, around: &EffectContext) -> Self {
        let (least, most) = RETRY_AFTER_MS;
        let retry_after_ms = until_ms.saturating_sub(around.ledger_ms).clamp(least, most);
        Self::reply(EffectReply::Running { retry_after_ms, awaits: effect.awaits.clone() })
    }
}
