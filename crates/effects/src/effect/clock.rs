//! Ledger time: the time by which leases, silence and windows are counted. It follows the store's clock, but it
//! never goes back, and between two writes it advances by one tick at most. So it stands still while the store
//! is away and no process can beat, and a clock that jumps moves it by one tick.
//!
//! Stores keep one [`LedgerClock`] and read it in every transaction. Deliberately not here: where it is stored.

use super::{EffectRule, EffectRules};

/// The stored time: both clocks as they were at the last write that stored them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LedgerClock {
    /// The store's clock.
    pub seen_ms: u64,
    /// Ledger time.
    pub ledger_ms: u64,
}

/// The current time of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LedgerNow {
    /// The store's clock.
    pub now_ms: u64,
    /// Ledger time.
    pub ledger_ms: u64,
}

/// How long an owner may be silent before it counts as gone, in ledger time. The lease of a dispatch is as
/// long. Owners beat three times as often.
pub fn owner_silence_ms_max() -> u64 {
    servanda_contract::faults::limit_ms("SERVANDA_OWNER_SILENCE_MS", 15_000)
}

/// How much ledger time can pass between two writes, whatever the store's clock says. A store that was away, or
/// whose clock jumped, makes no owner look silent for longer than this.
pub fn ledger_tick_ms_max() -> u64 {
    owner_silence_ms_max() / 3
}

impl LedgerClock {
    /// A ledger whose time begins now.
    pub const fn starting(now_ms: u64) -> Self {
        Self { seen_ms: now_ms, ledger_ms: now_ms }
    }

    /// The current time when the store's clock says `now_ms`.
    pub fn at(self, now_ms: u64) -> LedgerNow {
        self.at_with_rules(now_ms, EffectRules::IN_FORCE)
    }

    /// The same with some rules switched off, for the model.
    pub fn at_with_rules(self, now_ms: u64, rules: EffectRules) -> LedgerNow {
        let passed_ms = now_ms.saturating_sub(self.seen_ms);
        let counted_ms =
            if rules.has(EffectRule::LedgerTime) { passed_ms.min(ledger_tick_ms_max()) } else { passed_ms };
        LedgerNow { now_ms, ledger_ms: self.ledger_ms.saturating_add(counted_ms) }
    }

    /// The time to store instead, if the store's clock went back or the stored time is older than a fifth of a
    /// tick. That is well before the tick is over, because time beyond a tick is not counted.
    pub fn clock_to_store(self, now: LedgerNow) -> Option<Self> {
        let is_due = now.now_ms < self.seen_ms || now.now_ms - self.seen_ms >= ledger_tick_ms_max() / 5;
        is_due.then_some(Self { seen_ms: now.now_ms, ledger_ms: now.ledger_ms })
    }
}

impl LedgerNow {
    /// The same time for both clocks, for stores whose clock does not jump.
    pub const fn plain(now_ms: u64) -> Self {
        Self { now_ms, ledger_ms: now_ms }
    }

    /// Whether an owner that last beat at `heard_ms` counts as gone. An owner that never beat is protected only
    /// by the leases of its effects.
    pub fn is_owner_gone(self, heard_ms: Option<u64>) -> bool {
        heard_ms.is_none_or(|heard_ms| self.ledger_ms.saturating_sub(heard_ms) > owner_silence_ms_max())
    }
}
