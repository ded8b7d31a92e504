//! A count of the bytes that all sessions together keep, and of each holder's part. The holders decide what they drop
//! when the budget is exceeded.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The count of all sessions together.
#[derive(Debug)]
pub(super) struct SessionByteBudget {
    bytes: AtomicUsize,
    bytes_max: usize,
}

/// Bytes that are kept until this is dropped.
#[derive(Debug)]
pub(super) struct ByteCharge {
    budget: Arc<SessionByteBudget>,
    bytes: usize,
}

impl SessionByteBudget {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes: AtomicUsize::new(0), bytes_max }
    }

    /// Counts bytes. A holder that finds the budget exceeded afterwards must drop something.
    pub(super) fn charge(self: &Arc<Self>, bytes: usize) -> ByteCharge {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        ByteCharge { budget: Arc::clone(self), bytes }
    }

    pub(super) fn is_exceeded(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > self.bytes_max
    }
}

impl Drop for ByteCharge {
    fn drop(&mut self) {
        self.budget.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_bytes_no_longer_count() {
        let budget = Arc::new(SessionByteBudget::new(10));
        let first = budget.charge(10);
        assert!(!budget.is_exceeded());
        let second = budget.charge(1);
        assert!(budget.is_exceeded());
        drop(first);
        assert!(!budget.is_exceeded());
        drop(second);
        assert_eq!(budget.bytes.load(Ordering::Relaxed), 0);
    }
}
