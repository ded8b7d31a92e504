//! The arguments of `grants`.

use clap::{Args, Subcommand};

use super::approvals::TicketArgs;

/// `grants`.
#[derive(Debug, Args)]
pub(crate) struct GrantsArgs {
    /// What to do; without it, the grants are listed.
    #[command(subcommand)]
    pub command: Option<GrantsCommand>,
}

/// What to do about grants.
#[derive(Debug, Subcommand)]
pub(crate) enum GrantsCommand {
    /// List grants, the newest first
    List {
        /// Only of this tenant.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// The most grants to list.
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=50))]
        limit: u32,
    },
    /// Show what a grant allows, as a policy, and which calls used it; a grant is named by the ticket it was made from
    Show(TicketArgs),
    /// Take a grant back, with the credential of a person from `SERVANDA_CREDENTIAL` or stdin
    Revoke {
        /// The ticket.
        #[command(flatten)]
        ticket: TicketArgs,
        /// Why.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Print a grant as the gateway signed it when the person made it
    Statement(TicketArgs),
    /// Check a grant's statement offline, from a file or stdin, with the public key of its gateway
    Verify {
        /// The file; `-` is stdin.
        #[arg(value_name = "FILE", default_value = "-")]
        file: String,
        /// The key, as `approvals key` prints it.
        #[arg(long, value_name = "KEY")]
        key: String,
    },
}
