//! The arguments of `contract` and `review`.

use clap::{Args, Subcommand};

/// `contract`.
#[derive(Debug, Args)]
pub(crate) struct ContractArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ContractCommand,
}

/// What to do about contracts.
#[derive(Debug, Subcommand)]
pub(crate) enum ContractCommand {
    /// Print a tool's whole contract, and where each value comes from
    Show {
        /// The exposed name, as `servanda tools` shows it, or the contract's name.
        #[arg(value_name = "TOOL")]
        tool: String,
    },
}

/// `review`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct ReviewArgs {
    /// The tool to decide about, by its exposed name or its contract's name; without it, all open tools one by one.
    #[arg(value_name = "TOOL")]
    pub tool: Option<String>,
    /// Agree to what was inferred about TOOL.
    #[arg(long, requires = "tool", conflicts_with_all = ["class", "hold_back"])]
    pub agree: bool,
    /// Give TOOL another side-effect class, e.g. `READ_ONLY`.
    #[arg(long, requires = "tool", value_name = "CLASS", conflicts_with = "hold_back")]
    pub class: Option<String>,
    /// Hold TOOL back: a person approves each of its calls.
    #[arg(long, requires = "tool")]
    pub hold_back: bool,
    /// Release TOOL, which was held back: its calls are let through again.
    #[arg(long, requires = "tool", conflicts_with_all = ["agree", "class", "hold_back"])]
    pub release: bool,
    /// Why a class is right although the tool's definition says otherwise.
    #[arg(long, requires = "class", value_name = "TEXT")]
    pub reason: Option<String>,
    /// Also list the tools that a person has already decided about.
    #[arg(long, conflicts_with = "tool")]
    pub all: bool,
}
