//! Bytes that all sessions together may keep: a count, and who holds how much of it. Which of them are let go when there are
//! too many is for whoever keeps them to say.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// The count.
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

    /// Counts bytes. Whoever finds the budget exceeded afterwards has to let something go.
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
    fn what_is_let_go_counts_no_longer() {
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
