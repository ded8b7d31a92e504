//! Notices that the store's clock jumped, by comparing it with the time that passed in this process. A jump
//! changes nothing, because ledger time bridges it. The operator is told, because dates on records and the
//! windows of budgets follow the clock.

use std::time::Instant;

/// How far the two clocks may drift apart between two observations before it counts as a jump.
const DRIFT_MS_MAX: u64 = 2_000;

/// What the store's clock said last, and when.
#[derive(Debug, Default)]
pub(crate) struct ClockWatch {
    seen: Option<(u64, Instant)>,
}

impl ClockWatch {
    /// Compares the store's clock with the time that passed. Returns how far it jumped, if it did.
    pub(crate) fn observe(&mut self, clock_ms: u64) -> Option<i64> {
        self.observe_at(clock_ms, Instant::now())
    }

    fn observe_at(&mut self, clock_ms: u64, now: Instant) -> Option<i64> {
        let (was_ms, then) = self.seen.replace((clock_ms, now))?;
        let passed_ms = u64::try_from(now.saturating_duration_since(then).as_millis()).unwrap_or(u64::MAX);
        let expected_ms = was_ms.saturating_add(passed_ms);
        if clock_ms.abs_diff(expected_ms) <= DRIFT_MS_MAX {
            return None;
        }
        let jumped_ms = i64::try_from(i128::from(clock_ms) - i128::from(expected_ms)).unwrap_or(i64::MAX);
        tracing::warn!(
            jumped_ms,
            "the store's clock jumped; leases and windows of keys are counted on as if it had not; hint: look at the clock of \
             the machine that keeps the ledger"
        );
        Some(jumped_ms)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::ClockWatch;

    #[test]
    fn a_clock_that_goes_with_the_time_does_not_jump() {
        let (mut watch, start) = (ClockWatch::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        let table = [
            // clock reading, time passed since the last one, expected jump
            (1_000_000, 0, None),
            (1_005_000, 5_000, None),
            (1_011_900, 10_000, None),
            (4_611_900, 10_000, Some(3_600_000)),
            (4_612_900, 11_000, None),
            (1_012_900, 11_000, Some(-3_600_000)),
            (1_072_900, 71_000, None),
        ];
        for (clock_ms, after_ms, jump) in table {
            assert_eq!(watch.observe_at(clock_ms, at(after_ms)), jump, "{clock_ms} after {after_ms}");
        }
    }
}
