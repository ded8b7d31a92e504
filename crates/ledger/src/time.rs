//! The store's own time: the database says what time it is, so that all who share it agree, and keeps what ledger time has come
//! to. Tests let time pass, or let the clock jump.

use servanda_effects::effect::{LedgerClock, LedgerNow};

use crate::codec::unsigned;

/// Turns what a database says into the store's time.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreTime {
    /// Time that has passed.
    #[cfg(test)]
    passed_ms: std::sync::Arc<std::sync::atomic::AtomicU64>,
    /// How far the database's clock jumped.
    #[cfg(test)]
    jumped_ms: std::sync::Arc<std::sync::atomic::AtomicI64>,
}

/// What a database says about the time: its clock, and what it keeps of ledger time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) clock_ms: i64,
    pub(crate) kept: LedgerClock,
}

impl StoreTime {
    /// The store's time by what its database says.
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "tests move it"))]
    pub(crate) fn now(&self, reading: ClockReading) -> LedgerNow {
        let now = reading.kept.at(self.clock_ms(reading.clock_ms));
        #[cfg(test)]
        let now = {
            let passed_ms = self.passed_ms.load(std::sync::atomic::Ordering::SeqCst);
            LedgerNow { now_ms: now.now_ms + passed_ms, ledger_ms: now.ledger_ms + passed_ms }
        };
        now
    }

    /// What the database is to keep instead, if what it keeps is too old.
    pub(crate) fn to_keep(&self, reading: ClockReading) -> Option<LedgerClock> {
        reading.kept.clock_to_store(reading.kept.at(self.clock_ms(reading.clock_ms)))
    }

    /// What the database's clock says.
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "tests move it"))]
    pub(crate) fn clock_ms(&self, clock_ms: i64) -> u64 {
        #[cfg(test)]
        let clock_ms = clock_ms + self.jumped_ms.load(std::sync::atomic::Ordering::SeqCst);
        unsigned(clock_ms)
    }

    /// So much time passes, and the store sees it pass.
    #[cfg(test)]
    pub(crate) fn advance(&self, by_ms: u64) {
        self.passed_ms.fetch_add(by_ms, std::sync::atomic::Ordering::SeqCst);
    }

    /// The database's clock jumps.
    #[cfg(test)]
    pub(crate) fn jump(&self, by_ms: i64) {
        self.jumped_ms.fetch_add(by_ms, std::sync::atomic::Ordering::SeqCst);
    }
}
