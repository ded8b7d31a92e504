//! The store's own time. The database says what time it is, so that all gateways that share it agree, and it
//! stores ledger time. Tests let time pass, or let the clock jump.

use servanda_effects::effect::{LedgerClock, LedgerNow};

use crate::codec::unsigned;

/// Turns the database's time into the store's time.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreTime {
    /// Time that a test has let pass.
    #[cfg(test)]
    passed_ms: std::sync::Arc<std::sync::atomic::AtomicU64>,
    /// How far a test has let the database's clock jump.
    #[cfg(test)]
    jumped_ms: std::sync::Arc<std::sync::atomic::AtomicI64>,
}

/// What a database says about the time: its clock, and the ledger time it has stored.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) clock_ms: i64,
    pub(crate) kept: LedgerClock,
}

impl StoreTime {
    /// The store's time, computed from what its database says.
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

    /// The ledger time that the database should store now, if what it has stored is too old.
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

    /// Lets this much time pass, as the store sees it.
    #[cfg(test)]
    pub(crate) fn advance(&self, by_ms: u64) {
        self.passed_ms.fetch_add(by_ms, std::sync::atomic::Ordering::SeqCst);
    }

    /// Lets the database's clock jump.
    #[cfg(test)]
    pub(crate) fn jump(&self, by_ms: i64) {
        self.jumped_ms.fetch_add(by_ms, std::sync::atomic::Ordering::SeqCst);
    }
}
