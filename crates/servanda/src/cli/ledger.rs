//! The arguments of `ledger` and `migrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `ledger`.
#[derive(Debug, Args)]
pub(crate) struct LedgerArgs {
    /// What to do; without it, the state of the ledger is shown.
    #[command(subcommand)]
    pub command: Option<LedgerCommand>,
}

/// What to do about the ledger.
#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Show which ledger it is, how many records it has, and what operators accepted about it
    Status,
    /// Read the whole ledger, and list what is wrong
    Verify,
    /// Back up the ledger to a new file, also while a gateway runs
    Backup {
        /// The new file.
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Replace the ledger by a backup and accept it; no gateway may run
    Restore {
        /// The copy.
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What happened to the ledger, and what you know about the time without records.
        #[arg(long, value_name = "TEXT")]
        evidence: String,
    },
    /// Accept a ledger that differs from the known one; keys used in the lost time count as unknown
    Adopt {
        /// What happened to the ledger, and what you know about the time without records.
        #[arg(long, value_name = "TEXT")]
        evidence: String,
    },
    /// Say that the keys of the lost time are dealt with: keys that the ledger does not know may run again
    SettleLost {
        /// How you know it.
        #[arg(long, value_name = "TEXT")]
        evidence: String,
    },
}

/// `migrate`.
#[derive(Debug, Args)]
pub(crate) struct MigrateArgs {
    /// Say what would be done, and do nothing.
    #[arg(long)]
    pub dry_run: bool,
}
