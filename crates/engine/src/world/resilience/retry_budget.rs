//! How many repeats a server gets: a share of its calls, so that repeats do not overload a server in trouble.

/// What a call adds and what a repeat takes: one repeat for ten calls.
const CALL_UNITS: u32 = 1;
const REPEAT_UNITS: u32 = 10;
/// The maximum, which is also the initial value: ten repeats in a row.
const UNITS_MAX: u32 = 100;

/// A budget of repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RetryBudget {
    units: u32,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self { units: UNITS_MAX }
    }
}

impl RetryBudget {
    /// Counts a call.
    pub(super) fn count_call(&mut self) {
        self.units = (self.units + CALL_UNITS).min(UNITS_MAX);
    }

    /// Takes one repeat from the budget, if there is one.
    pub(super) fn take(&mut self) -> bool {
        match self.units.checked_sub(REPEAT_UNITS) {
            Some(rest) => {
                self.units = rest;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RetryBudget;

    #[test]
    fn ten_repeats_in_a_row_and_then_one_for_ten_calls() {
        let mut budget = RetryBudget::default();
        assert_eq!((0..20).filter(|_| budget.take()).count(), 10);
        for _ in 0..9 {
            budget.count_call();
        }
        assert!(!budget.take());
        budget.count_call();
        assert!(budget.take() && !budget.take());
        for _ in 0..10_000 {
            budget.count_call();
        }
        assert_eq!((0..20).filter(|_| budget.take()).count(), 10, "nothing is saved up beyond that");
    }
}
