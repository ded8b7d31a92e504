//! Maintains budgets beside calls: gives back units that are not needed, and closes reservations that were left behind by what their
//! effects say.

use servanda_effects::budget::{AccountEntry, BudgetStore as _, SweepReport};

use super::BudgetClient;
use crate::clock::within_ms;

/// The most reservations that one round closes.
const SWEPT_MAX: u32 = 1_000;
/// How long a round may take.
const ROUND_MS_MAX: u64 = 30_000;
/// How long giving back units may take when the process shuts down.
const CLOSE_MS_MAX: u64 = 5_000;

/// Runs one round of upkeep.
pub(crate) async fn run_upkeep(budget_client: &BudgetClient) {
    let over = budget_client.chunks().take_expired(budget_client.clock.now().unix_ms());
    give(budget_client, over, ROUND_MS_MAX).await;
    let swept = budget_client.with_deadline(within_ms(ROUND_MS_MAX)).sweep(SWEPT_MAX).await;
    if swept.is_ok() {
        budget_client.failed_sweeps.worked();
    }
    match swept {
        Ok(SweepReport { settled: 0, refunded: 0 }) => {}
        Ok(SweepReport { settled, refunded }) => {
            tracing::info!(settled, refunded, "reservations that were left behind are closed");
        }
        Err(error) if budget_client.failed_sweeps.failed() => {
            tracing::warn!(%error, "reservations that were left behind could not be searched for; the gateway tries again");
        }
        Err(error) => tracing::debug!(%error, "reservations that were left behind could not be searched for"),
    }
}

/// Gives back all units that this process could still have handed out. It hands out none after this.
pub(crate) async fn return_units(budget_client: &BudgetClient) {
    let all = budget_client.chunks().close();
    give(budget_client, all, CLOSE_MS_MAX).await;
}

async fn give(budget_client: &BudgetClient, entries: Vec<AccountEntry>, ms_max: u64) {
    let books = budget_client.with_deadline(within_ms(ms_max));
    for entry in entries {
        if let Err(error) = books.apply_entry(entry.clone()).await {
            tracing::warn!(lease = %entry.id(), %error, "unused units could not be given back; they are lost until their window is over");
        }
    }
}
