//! The arguments of `budgets`.

use clap::Args;

/// `budgets`.
#[derive(Debug, Args)]
pub(crate) struct BudgetsArgs {
    /// Only the accounts of this tenant.
    #[arg(long, value_name = "TENANT")]
    pub tenant: Option<String>,
    /// List at most this many accounts, the most recently used first.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub limit: u32,
}
