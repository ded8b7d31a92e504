//! Counts failures that follow each other, so that a log tells an outage once when it begins and once, with a count, when it is over.
//! Deliberately not here: what the log says.

use std::sync::atomic::{AtomicU64, Ordering};

/// Failures since something last worked.
#[derive(Debug, Default)]
pub struct FailureStreak(AtomicU64);

impl FailureStreak {
    /// Counts a failure. Returns whether it is the first of its streak, which is the one to tell.
    pub fn failed(&self) -> bool {
        self.0.fetch_add(1, Ordering::Relaxed) == 0
    }

    /// Something worked. Returns how many failures came before it, if this ends a streak.
    pub fn worked(&self) -> Option<u64> {
        // The common case writes nothing.
        if self.0.load(Ordering::Relaxed) == 0 {
            return None;
        }
        Some(self.0.swap(0, Ordering::Relaxed)).filter(|count| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::FailureStreak;

    #[test]
    fn a_streak_is_told_at_its_beginning_and_counted_at_its_end() {
        let streak = FailureStreak::default();
        assert_eq!(streak.worked(), None);
        assert_eq!([streak.failed(), streak.failed(), streak.failed()], [true, false, false]);
        assert_eq!((streak.worked(), streak.worked()), (Some(3), None));
        assert!(streak.failed(), "the next outage is told again");
    }
}
