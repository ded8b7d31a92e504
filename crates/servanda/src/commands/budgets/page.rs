//! Budgets as text for people.

use servanda_contract::{Timestamp, cost::decimal};
use servanda_effects::budget::{BudgetDimension, BudgetHold};

use super::{AccountReport, BudgetReport};
use crate::screen::{TextStyle, lines, paint, table};

/// The page: accounts, then reservations.
pub(super) fn page(shown: &BudgetReport, now: Timestamp) -> String {
    let mut parts = vec![accounts(&shown.accounts)];
    if !shown.reservations.is_empty() {
        parts.push(format!(
            "\nreserved for calls that are running, or whose outcome is unknown\n{}",
            holds(&shown.reservations, now)
        ));
    }
    parts.join("\n")
}

fn accounts(accounts: &[AccountReport]) -> String {
    let mut shown = table(&["tenant", "account", "limit", "spent", "reserved", "leased", "left", "renews"]);
    for AccountReport { standing, left, renews_at, .. } in accounts {
        let units = |units: u64| match standing.account.dimension {
            BudgetDimension::Financial => decimal(units),
            _ => units.to_string(),
        };
        let left = if *left == 0 { paint(&units(*left), TextStyle::Bad) } else { units(*left) };
        shown.add_row([
            crate::screen::one_line(standing.account.scope.tenant()),
            crate::screen::one_line(&standing.account.to_string()),
            units(standing.limit),
            units(standing.spent),
            units(standing.reserved),
            units(standing.leased),
            left,
            renews_at.as_deref().map_or_else(|| "never".to_owned(), minutes),
        ]);
    }
    lines(&shown)
}

fn holds(holds: &[BudgetHold], now: Timestamp) -> String {
    let mut shown = table(&["call", "effect", "kept back", "since"]);
    for hold in holds {
        let kept: Vec<String> = hold
            .draws
            .iter()
            .map(|draw| {
                format!(
                    "{} of {}",
                    draw.account.in_words(draw.amount),
                    crate::screen::one_line(&draw.account.to_string())
                )
            })
            .collect();
        let effect = hold.effect.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
        let since_s = now.since_ms(Timestamp::from_unix_ms(hold.opened_ms)) / 1_000;
        shown.add_row([hold.id.to_string(), effect, kept.join("; "), format!("{since_s} s")]);
    }
    lines(&shown)
}

/// Cuts a time to the minute, because windows end on full minutes.
fn minutes(at: &str) -> String {
    at.chars().take(16).collect::<String>().replace('T', " ")
}
