//! Unique numbers that serve as cache keys.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that is unique in this process, so that cached results of one policy set are never used for another.
pub(crate) fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}
