//! The command line: commands, arguments and their help texts. `commands` carries them out.

mod access;
mod approvals;
mod audit;
mod budgets;
mod calls;
mod contracts;
mod effects;
mod grants;
mod ledger;
mod login;
mod policy;
mod quarantine;
mod remove;
mod secret;

use std::{io::IsTerminal as _, path::PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use servanda_clients::{ClientFileScope, ClientName};
use servanda_config::{CONFIG_FILE, DRAIN_MS_MIN};

pub(crate) use access::{
    DelegateArgs, KeyCreateArgs, KeysArgs, KeysCommand, PasskeysArgs, PasskeysCommand, RevokeArgs, RightsArgs,
};
pub(crate) use approvals::{ApprovalsArgs, ApprovalsCommand, TicketFilter};
pub(crate) use audit::{AuditArgs, AuditCommand, ProveArgs, SearchLogArgs, VerifyLogArgs};
pub(crate) use budgets::BudgetsArgs;
pub(crate) use calls::CallsArgs;
pub(crate) use contracts::{ContractArgs, ContractCommand, ReviewArgs};
pub(crate) use effects::{EffectConditions, EffectsArgs, EffectsCommand, SettleAs};
pub(crate) use grants::{GrantsArgs, GrantsCommand};
pub(crate) use ledger::{LedgerArgs, LedgerCommand, MigrateArgs};
pub(crate) use login::{LoginArgs, LogoutArgs};
pub(crate) use policy::{PolicyArgs, PolicyCommand};
pub(crate) use quarantine::{QuarantineArgs, QuarantineCommand};
pub(crate) use remove::RemoveArgs;
pub(crate) use secret::{SecretArgs, SecretCommand};

const AFTER_HELP: &str = "\
Start here:
  servanda demo                    see every gate refuse a call, with nothing installed
  servanda init                    make contracts for the servers in .mcp.json
  servanda connect                 put the gateway into your client; disconnect undoes it
  servanda serve                   run the gateway; point your agent at http://127.0.0.1:7332/mcp

Exit codes:
  0  done
  1  something failed while running
  2  wrong usage, configuration or contract; nothing was started
  3  the call was refused, or the tool reported an error
  4  the call was sent, and how it ended is unknown";

/// A gateway between AI agents and the tools they call: every call is checked against a written contract, performed,
/// verified and put on record.
#[derive(Debug, Parser)]
#[command(name = "servanda", version, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    /// The configuration.
    #[arg(long, short = 'c', global = true, value_name = "FILE", env = "SERVANDA_CONFIG", default_value = CONFIG_FILE)]
    pub config: PathBuf,
    /// Print data as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more about what happens; twice for everything.
    #[arg(long, short = 'v', global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Find MCP servers, discover their tools, write a contract for each
    Init(InitArgs),
    /// Remove a server from the configuration, with its contracts and pins
    Remove(RemoveArgs),
    /// Check the configuration and every contract, without starting anything
    Check(CheckArgs),
    /// Confirm or correct what was inferred about tools: the grave and the doubtful first, one key per decision
    Review(ReviewArgs),
    /// Print a tool's whole contract, and where each value comes from
    Contract(ContractArgs),
    /// Run the gateway over Streamable HTTP
    Serve(ServeArgs),
    /// Run the gateway over stdin and stdout, for clients that start a command
    Stdio,
    /// Put the gateway into a client's list of servers; without CLIENT, list the clients
    Connect(ConnectArgs),
    /// Undo what connect did
    Disconnect(DisconnectArgs),
    /// List the tools, how grave each is, and whether its upstream offers it
    Tools(ToolsArgs),
    /// Show what changed in tools' definitions since they were agreed to
    Diff(DiffArgs),
    /// Agree to tools' definitions as their servers offer them now
    Pin(PinArgs),
    /// List the definitions that were agreed to, and whether tools still match them
    Pins(PinsArgs),
    /// Make one call, through every gate
    Call(CallArgs),
    /// List the recorded calls: caller, tool, outcome, class, gate, time; --follow prints each new one
    Calls(CallsArgs),
    /// Explain a recorded call, gate by gate
    Explain(ExplainArgs),
    /// List what calls changed or may have changed; show one, settle one whose outcome is unknown
    Effects(EffectsArgs),
    /// Show the state of the ledger; verify it, back it up, restore a backup, accept a different ledger
    Ledger(LedgerArgs),
    /// Bring the ledger of an earlier version up to date, after a backup
    Migrate(MigrateArgs),
    /// Show the budgets: what is spent, reserved and left, and when each renews
    Budgets(BudgetsArgs),
    /// List the tools that are held back, and why; hold one back, release one
    Quarantine(QuarantineArgs),
    /// List the calls that wait for a person's approval; show one, decide with a person's credential, check a warrant
    Approvals(ApprovalsArgs),
    /// List what people allow from now on; show one grant, take one back with a person's credential, check its statement
    Grants(GrantsArgs),
    /// Verify the log of what was decided and done; copy it for others, prove that it has a call
    Audit(AuditArgs),
    /// Print the policy schema, test policies, explain a decision, see what other policies would decide
    Policy(PolicyArgs),
    /// Show what tools and statements do, and which tools can be mixed up
    Identity(IdentityArgs),
    /// List the API keys; create one, revoke one
    Keys(KeysArgs),
    /// List the passkeys with which people sign in and sign decisions; show public keys, revoke one
    Passkeys(PasskeysArgs),
    /// Make a credential with which an agent acts for a user, with the user's rights or fewer
    Delegate(DelegateArgs),
    /// Revoke a credential by its id, and every credential derived from it
    Revoke(RevokeArgs),
    /// List the callbacks for finished long work, and what was not delivered; test one
    Callbacks(CallbacksArgs),
    /// Set, list and remove the secrets that the gateway sends to upstreams
    Secret(SecretArgs),
    /// Log in at an upstream that asks for a login, and agree to its use
    Login(LoginArgs),
    /// Log out of an upstream
    Logout(LogoutArgs),
    /// List who is logged in at which upstream, and until when
    Logins,
    /// Print a JSON Schema
    Schema(SchemaArgs),
    /// Look for what could keep the gateway from working
    Doctor(DoctorArgs),
    /// See it work: a sample company, calls that pass and calls that are refused at each gate
    Demo(DemoArgs),
    /// The sample company as an MCP server over stdio; `demo` starts it
    #[command(hide = true)]
    Sample(SampleArgs),
}

/// `doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Also ask the databases behind tools that only read whether their logins could write. Each tool is called once
    #[arg(long)]
    pub databases: bool,
}

/// `init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// What lists or describes the servers: a client's file (`mcpServers`, VS Code's mcp.json, Codex's config.toml), the
    /// registry's server.json, or an MCPB bundle; .mcp.json by default.
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// The SHA-256 that FILE must have, as its author published it.
    #[arg(long, value_name = "HEX", requires = "from")]
    pub sha256: Option<String>,
    /// Write the configuration and its contracts anew; the old files are kept as *.bak.
    #[arg(long)]
    pub force: bool,
    /// Start the servers of FILE without asking first.
    #[arg(long, short = 'y')]
    pub yes: bool,
    /// Move secrets that FILE has in plain text to the encrypted store; the configuration then refers to them there.
    #[arg(long)]
    pub store_secrets: bool,
}

/// `connect`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches as they are typed; `plan` makes a decision of them")]
pub(crate) struct ConnectArgs {
    /// Which client.
    pub client: Option<ClientName>,
    /// Which of the client's files: the one of this folder or the one of this user.
    #[arg(long, requires = "client", conflicts_with = "file")]
    pub scope: Option<ClientFileScope>,
    /// This file instead of the client's usual one.
    #[arg(long, value_name = "PATH")]
    pub file: Option<PathBuf>,
    /// What the client calls the gateway [default: servanda].
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// The client starts the gateway itself, as a command.
    #[arg(long, conflicts_with = "http")]
    pub stdio: bool,
    /// The client reaches the gateway that `servanda serve` runs.
    #[arg(long)]
    pub http: bool,
    /// Remove the servers from the client's file that are behind the gateway now, so that the agent sees only the gateway.
    #[arg(long)]
    pub replace: bool,
    /// Also write the client's own rule that lets every tool of the gateway pass without its question: the gateway asks people where an approval
    /// is needed.
    #[arg(long)]
    pub allow: bool,
    /// Write without asking.
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    pub yes: bool,
    /// Show what would change and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `disconnect`.
#[derive(Debug, Args)]
pub(crate) struct DisconnectArgs {
    /// Which client; not needed if only one is connected.
    pub client: Option<ClientName>,
    /// Which of the client's files, if both are connected.
    #[arg(long, requires = "client", conflicts_with = "file")]
    pub scope: Option<ClientFileScope>,
    /// The file that was connected with --file.
    #[arg(long, value_name = "PATH", conflicts_with = "client")]
    pub file: Option<PathBuf>,
    /// Write without asking.
    #[arg(long, short = 'y', conflicts_with = "dry_run")]
    pub yes: bool,
    /// Show what would change and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// `serve`.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Listen here instead of at the configured address; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// How long the gateway may take to stop in total, instead of the configured time.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(DRAIN_MS_MIN..))]
    pub drain_ms_max: Option<u64>,
    /// When to print one line per call on stderr: auto prints them on a terminal.
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub calls: CallLines,
}

/// When `serve` prints one line per call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CallLines {
    /// Only if stderr is a terminal.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl CallLines {
    /// Whether the lines are printed.
    pub(crate) fn are_printed(self) -> bool {
        match self {
            Self::Auto => std::io::stderr().is_terminal(),
            Self::Always => true,
            Self::Never => false,
        }
    }
}

/// `tools`.
#[derive(Debug, Args)]
pub(crate) struct ToolsArgs {
    /// Do not ask the upstreams what they offer.
    #[arg(long)]
    pub offline: bool,
    /// Show how long recorded calls took instead, and which time limits do not fit; asks no upstream.
    #[arg(long)]
    pub latency: bool,
}

/// `diff`.
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The tools, as `servanda tools` shows them; all if none is named.
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
}

/// `pin`.
#[derive(Debug, Args)]
pub(crate) struct PinArgs {
    /// The tools, as `servanda tools` shows them.
    #[arg(value_name = "NAME", required_unless_present = "all", conflicts_with = "all")]
    pub names: Vec<String>,
    /// Every tool that has a contract.
    #[arg(long)]
    pub all: bool,
    /// Agree without being asked.
    #[arg(long, short = 'y')]
    pub yes: bool,
}

/// `check`.
#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Show in full what the configuration starts and which addresses it uses: its author alone decides what runs here.
    #[arg(long)]
    pub commands: bool,
}

/// `pins`.
#[derive(Debug, Args)]
pub(crate) struct PinsArgs {
    /// Do not ask the upstreams what they offer.
    #[arg(long)]
    pub offline: bool,
}

/// `call`.
#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The exposed name, as `servanda tools` shows it.
    pub tool: String,
    /// The arguments as JSON; `-` reads them from stdin.
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    pub arguments: Option<String>,
    /// How long to wait, in milliseconds, if the contract allows more.
    #[arg(long, value_name = "MS")]
    pub timeout_ms: Option<u64>,
    /// Show the result on a terminal unchanged, with its control characters.
    #[arg(long)]
    pub raw: bool,
    /// The operation's idempotency key: calls with the same key are performed once.
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A task that the configuration declares; only tools of the task's kinds are called.
    #[arg(long, value_name = "TASK")]
    pub task: Option<String>,
    /// The intended kind: read, write or destructive; a tool of another kind is not called.
    #[arg(long, value_name = "KIND")]
    pub intent: Option<String>,
    /// An earlier call; a tool of another kind than that call's tool is not called.
    #[arg(long, value_name = "CALL")]
    pub like: Option<String>,
    /// Call as the holder of an API key, to try out what it may do: the key's id or its beginning, its label, or tenant/principal. The
    /// record says that the operator made the call.
    #[arg(long = "as", value_name = "KEY")]
    pub acting_as: Option<String>,
    /// Do not make the call: show what it would do. Exit code 5 if it would not be sent now.
    #[arg(long)]
    pub dry_run: bool,
}

/// `explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The call, or the beginning of its id; without it, the latest calls are listed.
    pub call_id: Option<String>,
    /// The latest call.
    #[arg(long, conflicts_with = "call_id")]
    pub last: bool,
    /// Show the answer that was withheld because it broke its contract.
    #[arg(long)]
    pub quarantined: bool,
}

/// `identity`.
#[derive(Debug, Args)]
pub(crate) struct IdentityArgs {
    /// What to show.
    #[command(subcommand)]
    pub command: IdentityCommand,
}

/// The subcommands of `identity`.
#[derive(Debug, Subcommand)]
pub(crate) enum IdentityCommand {
    /// Show what a tool does, and which other tools take the same arguments
    Show {
        /// The exposed name, as `servanda tools` shows it.
        tool: String,
    },
    /// List the tools that take the same arguments, the worst mix-ups first, and what tells them apart
    Confusions,
    /// Say what each statement of a file would do: one line of JSON for each, in order
    Effects {
        /// Lines of JSON with `sql` or `shell`, and `dialect`; `-` reads them from stdin.
        #[arg(value_name = "FILE.jsonl")]
        file: PathBuf,
    },
    /// Say what each tool of a file does, judged by its definition alone: one line of JSON for each, in order
    Classify {
        /// Lines of JSON, each a tool's definition; `-` reads them from stdin.
        #[arg(value_name = "FILE.jsonl")]
        file: PathBuf,
        /// Do not read names and titles.
        #[arg(long)]
        without_names: bool,
        /// Do not read the authors' hints.
        #[arg(long)]
        ignore_annotations: bool,
        /// Ask language models too, those that this file names. The tools' definitions are sent to them.
        #[arg(long, value_name = "MODELS.yaml")]
        models: Option<PathBuf>,
    },
}

/// `callbacks`.
#[derive(Debug, Args)]
pub(crate) struct CallbacksArgs {
    /// What to do; without it, they are listed.
    #[command(subcommand)]
    pub command: Option<CallbacksCommand>,
}

/// What to do about a callback.
#[derive(Debug, Subcommand)]
pub(crate) enum CallbacksCommand {
    /// Send a signed test event and say what came back
    Test {
        /// The callback.
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// `schema`.
#[derive(Debug, Args)]
pub(crate) struct SchemaArgs {
    /// Which schema.
    pub which: SchemaName,
}

/// The schemas that `schema` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SchemaName {
    /// A whole tool contract.
    Contract,
    /// The contracts of a server's tools, as `init` writes them.
    ServerContracts,
    /// What a call returns in `_meta`, on request.
    Observation,
    /// What a dry run returns.
    Preview,
    /// What a refused call returns.
    Feedback,
    /// The full refusal: in the record, and returned on request.
    Refusal,
    /// `servanda.yaml`.
    Config,
}

/// `demo`.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Exit after the tour instead of staying up.
    #[arg(long)]
    pub once: bool,
    /// Where the gateway listens after the tour; port 0 takes a free port.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7332")]
    pub listen: String,
}

/// `sample`.
#[derive(Debug, Args)]
pub(crate) struct SampleArgs {
    /// Where the company keeps its books; in memory if not given.
    #[arg(long, value_name = "FILE")]
    pub database: Option<PathBuf>,
    /// Offer the misbehaving tools too.
    #[arg(long)]
    pub misbehave: bool,
    /// Which versions of the protocol to speak.
    #[arg(long, default_value = "both")]
    pub era: SampleEra,
}

/// Which versions of the protocol the sample speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SampleEra {
    /// Both.
    Both,
    /// Up to 2025-11-25.
    Legacy,
    /// From 2026-07-28.
    Modern,
}
