//! One account: its figures, and a bar of them.

use servanda_contract::{Timestamp, cost::decimal, legibility};
use servanda_effects::budget::{AccountBalance, BudgetDimension};

use crate::{pages::words::quoted, view::Moment};

/// The width of a bar.
const BAR_WIDTH: u64 = 200;

/// One account.
pub(super) struct AccountLine {
    pub(super) name: String,
    pub(super) limit: String,
    pub(super) spent: String,
    /// Reserved for calls, or leased to gateways.
    pub(super) reserved: String,
    pub(super) left: String,
    pub(super) is_used_up: bool,
    /// When it begins anew; none if it never does.
    pub(super) renews: Option<Moment>,
    /// The bar in words.
    pub(super) label: String,
    pub(super) bar: AccountBar,
}

/// The parts of a bar, in its own units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AccountBar {
    pub(super) width: u64,
    pub(super) spent: u64,
    pub(super) reserved: u64,
}

impl AccountLine {
    pub(super) fn new(balance: &AccountBalance, now: Timestamp) -> Self {
        let units = |units: u64| match balance.account.dimension {
            BudgetDimension::Financial => decimal(units),
            _ => units.to_string(),
        };
        let reserved = balance.reserved.saturating_add(balance.leased);
        let (spent, held, limit) = (units(balance.spent), units(reserved), units(balance.limit));
        Self {
            name: quoted(&legibility::one_line(&balance.account.to_string())),
            label: format!("{spent} spent and {held} reserved of {limit}"),
            bar: AccountBar::new(balance.spent, reserved, balance.limit),
            left: units(balance.left()),
            is_used_up: balance.left() == 0,
            renews: balance.renews_at_ms().map(|at_ms| Moment::new(at_ms, now)),
            spent,
            reserved: held,
            limit,
        }
    }
}

impl AccountBar {
    fn new(spent: u64, reserved: u64, limit: u64) -> Self {
        let whole = u128::from(limit.max(1));
        // A part that is there is seen, and no part leaves the bar.
        let part = |units: u64, room: u64| {
            let part = u128::from(units) * u128::from(BAR_WIDTH) / whole;
            let part = u64::try_from(part).unwrap_or(BAR_WIDTH).max(u64::from(units > 0));
            part.min(room)
        };
        let spent = part(spent, BAR_WIDTH);
        Self { width: BAR_WIDTH, spent, reserved: part(reserved, BAR_WIDTH - spent) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_stays_within_its_width() {
        for (spent, reserved, limit, expected) in [
            (0, 0, 10, (0, 0)),
            (5, 5, 10, (100, 100)),
            (1, 0, 1_000_000, (1, 0)),
            (20, 5, 10, (200, 0)),
            (u64::MAX, u64::MAX, 1, (200, 0)),
            (0, 0, 0, (0, 0)),
            (1, 0, 0, (200, 0)),
        ] {
            let bar = AccountBar::new(spent, reserved, limit);
            assert_eq!((bar.spent, bar.reserved), expected, "{spent} {reserved} {limit}");
        }
    }
}
