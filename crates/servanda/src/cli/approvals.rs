//! The arguments of `approvals`.

use clap::{Args, Subcommand, ValueEnum};
use servanda_approval::TicketState;

/// `approvals`.
#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    /// What to do; without it, the tickets that wait for a decision are listed.
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,
}

/// What to do about tickets.
#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List tickets, the newest first
    List {
        /// Which tickets.
        #[arg(long, value_enum, default_value = "pending")]
        state: TicketFilter,
        /// Only of this tenant.
        #[arg(long, value_name = "NAME")]
        tenant: Option<String>,
        /// The most tickets to list.
        #[arg(long, value_name = "COUNT", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=200))]
        limit: u32,
    },
    /// Show what a ticket is about: the call, its arguments, who decides, and the decisions so far
    Show(TicketArgs),
    /// Approve a ticket, with the credential of a person from `SERVANDA_CREDENTIAL` or stdin
    Approve {
        /// The ticket.
        #[command(flatten)]
        ticket: TicketArgs,
        /// What you decide about, as `approvals show` prints it; without a terminal it has to be given.
        #[arg(long, value_name = "SHA256")]
        payload: Option<String>,
        /// Use the emergency role; another person has to approve as well.
        #[arg(long)]
        break_glass: bool,
    },
    /// Deny a ticket, with the credential of a person from `SERVANDA_CREDENTIAL` or stdin
    Deny {
        /// The ticket.
        #[command(flatten)]
        ticket: TicketArgs,
        /// What you decide about, as `approvals show` prints it; without a terminal it has to be given.
        #[arg(long, value_name = "SHA256")]
        payload: Option<String>,
        /// Why; the agent is told.
        #[arg(long, value_name = "TEXT")]
        reason: String,
    },
    /// Print the warrant of an approved ticket: what was approved, and every person's signed decision
    Warrant(TicketArgs),
    /// Print the public key that checks warrants
    Key,
    /// Check a warrant offline, from a file or stdin, with the public key of its gateway
    Verify {
        /// The file; `-` is stdin.
        #[arg(value_name = "FILE", default_value = "-")]
        file: String,
        /// The key, as `approvals key` prints it.
        #[arg(long, value_name = "KEY")]
        key: String,
        /// The public key of a passkey that must have signed a decision, as its owner gave it to you: KEY or PERSON=KEY; may be given more than
        /// once. A decision that another passkey signed fails the check.
        #[arg(long = "passkey", value_name = "PUBLIC_KEY")]
        passkeys: Vec<String>,
    },
}

/// A ticket, by its id.
#[derive(Debug, Args)]
pub(crate) struct TicketArgs {
    /// The ticket's id, or the beginning of it.
    #[arg(value_name = "TICKET")]
    pub id: String,
}

/// Which tickets to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TicketFilter {
    /// Those that wait for a decision.
    Pending,
    /// Those that are approved and not used yet.
    Approved,
    /// Those that people denied.
    Denied,
    /// Those that ended without a decision or without use.
    Over,
    /// All.
    All,
}

impl TicketFilter {
    /// The states; none means all.
    pub(crate) fn states(self) -> Vec<TicketState> {
        match self {
            Self::Pending => vec![TicketState::Pending],
            Self::Approved => vec![TicketState::Approved],
            Self::Denied => vec![TicketState::Denied],
            Self::Over => {
                vec![TicketState::AutoDenied, TicketState::Lapsed, TicketState::Superseded, TicketState::Consumed]
            }
            Self::All => Vec::new(),
        }
    }
}
