//! A point in time that a store can hold something to, whatever happens to its clock.

use serde::{Deserialize, Serialize};

/// A point in time on both clocks of a store. It has passed when either says so: the store's own clock counts while no gateway runs, and
/// ledger time counts on if that clock is set back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deadline {
    /// By the store's clock.
    pub clock_ms: u64,
    /// In ledger time.
    pub ledger_ms: u64,
}

impl Deadline {
    /// Whether it has passed.
    pub const fn has_passed(&self, now_ms: u64, ledger_ms: u64) -> bool {
        now_ms >= self.clock_ms || ledger_ms >= self.ledger_ms
    }

    /// So much later than now.
    pub const fn after(now_ms: u64, ledger_ms: u64, wait_ms: u64) -> Self {
        Self { clock_ms: now_ms.saturating_add(wait_ms), ledger_ms: ledger_ms.saturating_add(wait_ms) }
    }
}
