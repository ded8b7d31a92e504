//! Ledger time: the time by which leases, silence and windows are counted. It is the store's clock, but it never goes back, and
//! between two writes it goes on by a tick at the most. So it stands still while the store is away and nobody could beat, and a
//! clock that jumps moves it by a tick.
//!
//! Stores keep one [`LedgerClock`] and read it in every transaction. Deliberately not here: where it is kept.

use super::{EffectRule, EffectRules};

/// What a store keeps of its time: both as they were at the latest write that kept them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LedgerClock {
    /// The store's clock.
    pub seen_ms: u64,
    /// Ledger time.
    pub ledger_ms: u64,
}

/// What time it is for a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LedgerNow {
    /// The store's clock.
    pub now_ms: u64,
    /// Ledger time.
    pub ledger_ms: u64,
}

/// How long an owner may be silent before it is taken for gone, in ledger time; as long is the lease of a dispatch. Owners
/// beat three times as often.
pub fn owner_silence_ms_max() -> u64 {
    servanda_contract::faults::limit_ms("SERVANDA_OWNER_SILENCE_MS", 15_000)
}

/// How much ledger time passes at the most between two writes, however long the store's clock says that it was. A store that
/// was away, or whose clock jumped, makes no owner look silent for longer than this.
pub fn ledger_tick_ms_max() -> u64 {
    owner_silence_ms_max() / 3
}

impl LedgerClock {
    /// A ledger whose time begins now.
    pub const fn starting(now_ms: u64) -> Self {
        Self { seen_ms: now_ms, ledger_ms: now_ms }
    }

    /// What time it is when the store's clock says `now_ms`.
    pub fn at(self, now_ms: u64) -> LedgerNow {
        self.at_with_rules(now_ms, EffectRules::IN_FORCE)
    }

    /// The same with some rules out of force: for the model.
    pub fn at_with_rules(self, now_ms: u64, rules: EffectRules) -> LedgerNow {
        let passed_ms = now_ms.saturating_sub(self.seen_ms);
        let counted_ms =
            if rules.has(EffectRule::LedgerTime) { passed_ms.min(ledger_tick_ms_max()) } else { passed_ms };
        LedgerNow { now_ms, ledger_ms: self.ledger_ms.saturating_add(counted_ms) }
    }

    /// What to keep instead, where the store's clock went back or what is kept is older than a fifth of a tick: well before the
    /// tick is over, because what passes after that is not counted.
    pub fn clock_to_store(self, now: LedgerNow) -> Option<Self> {
        let is_due = now.now_ms < self.seen_ms || now.now_ms - self.seen_ms >= ledger_tick_ms_max() / 5;
        is_due.then_some(Self { seen_ms: now.now_ms, ledger_ms: now.ledger_ms })
    }
}

impl LedgerNow {
    /// One time for both: where no clock jumps.
    pub const fn plain(now_ms: u64) -> Self {
        Self { now_ms, ledger_ms: now_ms }
    }

    /// Whether an owner that was last heard of then is taken for gone. One that was never heard of has only the leases of its
    /// effects.
    pub fn is_owner_gone(self, heard_ms: Option<u64>) -> bool {
        heard_ms.is_none_or(|heard_ms| self.ledger_ms.saturating_sub(heard_ms) > owner_silence_ms_max())
    }
}
