//! `quarantine`, as it is typed.

use clap::{Args, Subcommand};

/// `quarantine`.
#[derive(Debug, Args)]
pub(crate) struct QuarantineArgs {
    /// What to do; without it, the tools that are held back are listed.
    #[command(subcommand)]
    pub command: Option<QuarantineCommand>,
}

/// What to do about tools that are held back.
#[derive(Debug, Subcommand)]
pub(crate) enum QuarantineCommand {
    /// List the tools that are held back, and why
    List {
        /// Those too that were let go, with all that happened.
        #[arg(long)]
        all: bool,
    },
    /// Let a tool go that is held back
    Release {
        /// The exposed name, as `servanda tools` shows it, or the contract's name.
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Why; it is kept.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Hold a tool back until somebody lets it go
    Block {
        /// The exposed name, as `servanda tools` shows it, or the contract's name.
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Why; it is kept.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}
