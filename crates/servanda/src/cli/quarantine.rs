//! The arguments of `quarantine`.

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
        /// Also list released tools, with everything that happened to each.
        #[arg(long)]
        all: bool,
    },
    /// Release a tool that is held back
    Release {
        /// The exposed name, as `servanda tools` shows it, or the contract's name.
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Why; the reason is recorded.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Hold a tool back until an operator releases it
    Block {
        /// The exposed name, as `servanda tools` shows it, or the contract's name.
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Why; the reason is recorded.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
}
