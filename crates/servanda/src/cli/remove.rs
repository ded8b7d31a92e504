//! The arguments of `remove`.

use clap::Args;

/// `remove`.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The server's name in servanda.yaml.
    #[arg(value_name = "SERVER")]
    pub server: String,
    /// Remove without asking.
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    pub yes: bool,
    /// Show what would be removed, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}
