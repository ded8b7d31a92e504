//! The arguments of `audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// `audit`.
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// What to do; without it, how far the log has come is shown.
    #[command(subcommand)]
    pub command: Option<AuditCommand>,
}

/// What to do about the verifiable log.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show how many leaves are signed, and with which key
    Status,
    /// Print the key that verifies the log
    Key,
    /// Copy the log to a folder, or bring a copy up to date, so that anybody can verify it
    Copy {
        /// The folder.
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Verify a copy of the log offline: signatures, every leaf, the tree, and that nothing happened that may not
    Verify(VerifyLogArgs),
    /// Print the leaves about a call, each with the proof that the log has it
    Prove {
        /// The call.
        #[arg(value_name = "CALL_ID")]
        call_id: String,
    },
}

/// `audit verify`.
#[derive(Debug, Args)]
pub(crate) struct VerifyLogArgs {
    /// The folder with the copy.
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The key of the log, as `audit key` prints it at its gateway.
    #[arg(long, value_name = "KEY", conflicts_with = "policy", required_unless_present = "policy")]
    pub key: Option<String>,
    /// A file that says which logs and witnesses to trust (C2SP tlog-policy).
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// A checkpoint that was trusted before; it has to be part of the log. May be given more than once.
    #[arg(long, value_name = "FILE")]
    pub since: Vec<PathBuf>,
}
