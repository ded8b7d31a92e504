//! `ledger` and `migrate`, as they are typed.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `ledger`.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    /// What to do; without it, how it stands is shown.
    #[command(subcommand)]
    pub command: Option<LedgerCommand>,
}

/// What to do about the ledger.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Show which ledger it is, how far it has come, and what was accepted about it
    Status,
    /// Read all of it, and say what is wrong
    Verify,
    /// Copy it to a new file, also while a gateway runs
    Backup {
        /// The new file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Put a copy in its place and accept it; no gateway may run
    Restore {
        /// The copy.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What happened to the ledger, and what you know about the time that is lost.
        #[arg(long, value_name = "TEXT")]
        evidence: String,
    },
    /// Accept a ledger that is not the one that was known; keys of the lost time are unknown then
    Adopt {
        /// What happened to the ledger, and what you know about the time that is lost.
        #[arg(long, value_name = "TEXT")]
        evidence: String,
    },
    /// Say that the keys of the lost time are looked after: keys that the ledger does not know run again
    SettleLost {
        /// What you know it from.
        #[arg(long, value_name = "TEXT")]
        evidence: String,
    },
}

/// `migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Say what would be done and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}
