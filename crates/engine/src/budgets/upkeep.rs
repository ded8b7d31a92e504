//! What is done about budgets beside calls: units that nobody wants are given back, reservations that were left are closed by what
//! their effects say.

use servanda_effects::budget::{AccountEntry, BudgetStore as _, SweepReport};

use super::BudgetClient;
use crate::clock::within_ms;

/// Reservations closed in a round.
const SWEPT_MAX: u32 = 1_000;
/// How long a round may take.
const ROUND_MS_MAX: u64 = 30_000;
/// How long giving back may take when the process ends.
const CLOSE_MS_MAX: u64 = 5_000;

/// One round.
pub(crate) async fn run_upkeep(budget_client: &BudgetClient) {
    let over = budget_client.chunks().take_expired(budget_client.clock.now().unix_ms());
    give(budget_client, over, ROUND_MS_MAX).await;
    match budget_client.with_deadline(within_ms(ROUND_MS_MAX)).sweep(SWEPT_MAX).await {
        Ok(SweepReport { settled: 0, refunded: 0 }) => {}
        Ok(SweepReport { settled, refunded }) => {
            tracing::info!(settled, refunded, "reservations that were left behind are closed");
        }
        Err(error) => tracing::warn!(%error, "it could not be looked for reservations that were left behind"),
    }
}

/// Gives everything back that this process could still have handed out. Nothing is handed out any more.
pub(crate) async fn return_units(budget_client: &BudgetClient) {
    let all = budget_client.chunks().close();
    give(budget_client, all, CLOSE_MS_MAX).await;
}

async fn give(budget_client: &BudgetClient, entries: Vec<AccountEntry>, ms_max: u64) {
    let books = budget_client.with_deadline(within_ms(ms_max));
    for entry in entries {
        if let Err(error) = books.apply_entry(entry.clone()).await {
            tracing::warn!(lease = %entry.id(), %error, "units that nobody wants could not be given back; they are lost until their window is over");
        }
    }
}
