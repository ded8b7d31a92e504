//! `remove`, as people may type it.

use clap::Args;

/// `remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The server, as servanda.yaml calls it.
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// Remove without asking.
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    pub yes: bool,
    /// Show what would go and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}
