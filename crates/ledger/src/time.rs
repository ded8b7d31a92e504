//! The store's own time: the database says what time it is, so that all who share it agree. Tests move it.

use crate::codec::unsigned;

/// Turns what a database says into the store's time.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoreTime {
    #[cfg(test)]
    shift_ms: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl StoreTime {
    /// The store's time when its database's clock says `clock_ms`.
    #[cfg_attr(not(test), allow(clippy::unused_self, reason = "tests move it"))]
    pub(crate) fn at(&self, clock_ms: i64) -> u64 {
        #[cfg(test)]
        let clock_ms = clock_ms + crate::codec::signed(self.shift_ms.load(std::sync::atomic::Ordering::SeqCst));
        unsigned(clock_ms)
    }

    /// From now on it is so much later.
    #[cfg(test)]
    pub(crate) fn advance(&self, by_ms: u64) {
        self.shift_ms.fetch_add(by_ms, std::sync::atomic::Ordering::SeqCst);
    }
}
