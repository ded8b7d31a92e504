//! Counts of repeats: made, wanted but unsafe, and made blindly by callers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of repeats since the start.
#[derive(Debug, Default)]
pub(crate) struct RetryCounters {
    retries: AtomicU64,
    unsafe_retries: AtomicU64,
    blind_retries: AtomicU64,
}

impl RetryCounters {
    /// Counts that a call was sent again.
    pub(crate) fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts that a retry was wanted and would not have been safe. Returns the count.
    pub(crate) fn count_unsafe_retry(&self) -> u64 {
        self.unsafe_retries.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Counts that a caller repeated a call whose outcome is unknown. Returns the count.
    pub(crate) fn count_blind_retry(&self) -> u64 {
        self.blind_retries.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Retries made, retries that would not have been safe, blind retries of callers.
    pub(crate) fn counts(&self) -> (u64, u64, u64) {
        let [retries, wanted, blind] =
            [&self.retries, &self.unsafe_retries, &self.blind_retries].map(|count| count.load(Ordering::Relaxed));
        (retries, wanted, blind)
    }
}
