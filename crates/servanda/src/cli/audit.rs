//! The arguments of `audit`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use servanda_contract::TaxonomyClass;

use super::{
    calls::{class, trace},
    effects::{TimeArgument, when},
};

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
    /// Print the leaves about a call, each with the proof that the log has it and with what opens its commitments
    Prove(ProveArgs),
    /// Print the leaves as security events (OCSF 1.8, API Activity), one JSON object a line
    Export {
        /// Begin with this leaf, counted from 0: the `metadata.uid` of the last event, plus one.
        #[arg(long, value_name = "N", default_value_t = 0)]
        since_leaf: u64,
        /// Read this copy of the log instead of the ledger; no configuration is needed.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Find leaves by what they are about
    Search(SearchLogArgs),
}

/// `audit prove`.
#[derive(Debug, Args)]
pub(crate) struct ProveArgs {
    /// The call.
    #[arg(value_name = "CALL_ID")]
    pub call_id: String,
    /// Leave out what opens the commitments: whoever has it can tell whether a guess of the arguments or the answer is right.
    #[arg(long)]
    pub sealed: bool,
}

/// `audit search`.
#[derive(Debug, Args)]
pub(crate) struct SearchLogArgs {
    /// Only leaves about this call.
    #[arg(long, value_name = "CALL_ID")]
    pub call: Option<String>,
    /// Only leaves about this effect.
    #[arg(long, value_name = "EFFECT")]
    pub effect: Option<String>,
    /// Only leaves about this ticket, or the grant that it became.
    #[arg(long, value_name = "TICKET")]
    pub ticket: Option<String>,
    /// Only leaves about calls of this caller: a user, tenant/user or an agent.
    #[arg(long, value_name = "NAME")]
    pub caller: Option<String>,
    /// Only leaves about calls of this tool, as `servanda tools` shows it or by its contract's name.
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// Only leaves about calls of this trace, by its W3C trace id.
    #[arg(long, value_name = "TRACE_ID", value_parser = trace)]
    pub trace: Option<String>,
    /// Only decisions and ends of this class, as `POLICY_VIOLATION`.
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub class: Option<TaxonomyClass>,
    /// Only what happened since then: 2026-11-15, 2026-11-15T09:30Z, or 90m, 12h, 7d ago.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub since: Option<TimeArgument>,
    /// Only what happened before then.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub until: Option<TimeArgument>,
    /// Only this leaf, counted from 0, and later ones.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub since_leaf: u64,
    /// Show at most this many.
    #[arg(long, value_name = "NUMBER", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub limit: u32,
    /// Search this copy of the log instead of the ledger; no configuration is needed.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
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
