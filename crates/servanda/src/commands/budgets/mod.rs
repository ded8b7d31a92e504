//! `servanda budgets`: the state of budgets, and what is reserved for calls. It only reads, and works while gateways are running, because
//! all use the same store.

mod page;
#[cfg(test)]
mod tests;

use std::path::Path;

use servanda_config::LoadedConfig;
use servanda_contract::{Timestamp, time::Clock as _};
use servanda_effects::{
    JournalError,
    budget::{AccountBalance, BalanceQuery, BudgetDimension, BudgetHold, BudgetStore},
};
use servanda_engine::SystemClock;

use crate::{cli::BudgetsArgs, configuration, failure::CommandFailure, screen::Screen};

/// The most reservations that are listed.
const OPEN_MAX: u32 = 1_000;

/// The state of accounts and reservations.
#[derive(Debug, serde::Serialize)]
struct BudgetReport {
    /// Accounts that calls have used.
    accounts: Vec<AccountReport>,
    /// Amounts reserved for calls that are running, or whose outcome is unknown.
    reservations: Vec<BudgetHold>,
    /// Whether there are more reservations than were read.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    more_reservations: bool,
}

#[derive(Debug, serde::Serialize)]
struct AccountReport {
    #[serde(flatten)]
    standing: AccountBalance,
    left: u64,
    /// The unit of its numbers.
    unit: String,
    /// When it renews, as RFC 3339; absent if it does not renew.
    #[serde(skip_serializing_if = "Option::is_none")]
    renews_at: Option<String>,
}

pub(crate) async fn run(config: &Path, args: &BudgetsArgs, screen: Screen) -> Result<(), CommandFailure> {
    let loaded = configuration::read(config)?;
    let place = configuration::ledger_place(&loaded)?;
    // Reading does not create a ledger if there is none.
    let shown = if place.is_missing() {
        BudgetReport { accounts: Vec::new(), reservations: Vec::new(), more_reservations: false }
    } else {
        let ledger = place.open().await?;
        let shown = read_report(ledger.as_ref(), args).await;
        ledger.close().await;
        shown.map_err(|error| CommandFailure::failed(error.reason()))?
    };
    if screen.json {
        return screen.json(&shown);
    }
    if shown.more_reservations {
        screen.say(format!("only the {OPEN_MAX} oldest reservations of all tenants were looked at"));
    }
    if shown.accounts.is_empty() {
        let whose = args.tenant.as_ref().map_or_else(String::new, |tenant| format!(" of tenant `{tenant}`"));
        screen.say(format_args!("no budget{whose} has been used yet"));
        screen.hint(allowed(&loaded));
        return Ok(());
    }
    screen.data(page::page(&shown, SystemClock.now()))?;
    screen.say(format_args!("unused accounts are not shown; {}", allowed(&loaded)));
    Ok(())
}

fn allowed(loaded: &LoadedConfig) -> String {
    match loaded.config.budgets.len() {
        0 => "there are none: critical changes are refused; write `budgets:` in servanda.yaml".to_owned(),
        count => format!("{count} in `budgets` of {}", loaded.file.display()),
    }
}

async fn read_report(budgets: &dyn BudgetStore, args: &BudgetsArgs) -> Result<BudgetReport, JournalError> {
    let query = BalanceQuery { tenant: args.tenant.clone(), limit: args.limit };
    let accounts = budgets.balances(query).await?.into_iter().map(AccountReport::new).collect();
    let mut reservations = budgets.open_reservations(0, OPEN_MAX).await?;
    let more_reservations = reservations.len() >= usize::try_from(OPEN_MAX).unwrap_or(usize::MAX);
    if let Some(tenant) = &args.tenant {
        reservations.retain(|hold| hold.draws.iter().any(|draw| draw.account.scope.tenant() == tenant));
    }
    Ok(BudgetReport { accounts, reservations, more_reservations })
}

impl AccountReport {
    fn new(standing: AccountBalance) -> Self {
        let renews_at = standing.renews_at_ms().map(|at_ms| Timestamp::from_unix_ms(at_ms).to_string());
        let unit = match (standing.account.dimension, &standing.account.currency) {
            (BudgetDimension::Financial, Some(currency)) => format!("millionths of {currency}"),
            (BudgetDimension::Financial, None) => "millionths".to_owned(),
            _ => "calls".to_owned(),
        };
        Self { left: standing.left(), unit, renews_at, standing }
    }
}
