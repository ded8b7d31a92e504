//! The rules that keep the promises about effects, by name. The shipped gateway has all of them in force; the
//! model switches off one at a time and shows the shortest history that breaks a promise without it.

/// One rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EffectRule {
    /// No process takes over an effect before the effect's own lease has ended.
    Lease,
    /// An owner's silence is counted in ledger time, which stands still while the store is away.
    LedgerTime,
    /// The store compares the epoch of a claim before bytes may leave (I1).
    Epoch,
    /// An effect that cannot be repeated is never dispatched again after an uncertain dispatch (I3).
    NeverAgain,
    /// Bytes leave only while the lease of their dispatch, or their process's own, holds.
    SendWithinLease,
    /// An answer whose settlement the ledger rejected is not reported as done.
    Accepted,
    /// A definite answer of an earlier epoch settles the effect, or is stored as a conflict.
    LateEvidence,
    /// A caller is told that nothing was done only if no earlier dispatch of the key may have done it.
    WholeKey,
    /// A caller whose key could not be read is told that nothing is known about earlier calls.
    UnknownBefore,
    /// Effects that change the same resource are begun one after the other.
    Turns,
    /// An effect whose owner vanished keeps its turn until its own time has passed.
    TurnUntilOverdue,
    /// A status tool's answer that an effect does not exist counts only when the effect's time is over: until
    /// then the upstream may be working on it.
    AbsentAfterItsTime,
    /// A keyed upstream gets the key again only within its window.
    KeyWindow,
    /// A key that was used is never used again.
    Tombstone,
}

/// Which rules are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EffectRules {
    without: u16,
}

impl EffectRules {
    /// All of them.
    pub const IN_FORCE: Self = Self { without: 0 };

    /// All of these except one, for the model and for tests only.
    #[must_use]
    pub const fn without(self, rule: EffectRule) -> Self {
        Self { without: self.without | 1 << rule as u16 }
    }

    /// Whether a rule is in force.
    pub const fn has(self, rule: EffectRule) -> bool {
        self.without & (1 << rule as u16) == 0
    }
}

impl Default for EffectRules {
    fn default() -> Self {
        Self::IN_FORCE
    }
}

impl EffectRule {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Lease,
        Self::LedgerTime,
        Self::Epoch,
        Self::NeverAgain,
        Self::SendWithinLease,
        Self::Accepted,
        Self::LateEvidence,
        Self::WholeKey,
        Self::UnknownBefore,
        Self::Turns,
        Self::TurnUntilOverdue,
        Self::AbsentAfterItsTime,
        Self::KeyWindow,
        Self::Tombstone,
    ];
}
