//! Numbers by which what is remembered is told apart.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that nothing else in this process has: what is remembered of one set of policies is never taken for another's.
pub(crate) fn next_number() -> u64 {
    static NUMBERS: AtomicU64 = AtomicU64::new(0);
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}
