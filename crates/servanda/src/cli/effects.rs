//! The arguments of `effects`.

use clap::{Args, Subcommand, ValueEnum};
use servanda_contract::{Timestamp, tool::EffectClass};
use servanda_effects::effect::{EffectFilter, EffectState};

use super::policy::span_ms;
use crate::failure::CommandFailure;

/// `effects`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct EffectsArgs {
    /// What to do; without it, the latest are listed.
    #[command(subcommand)]
    pub command: Option<EffectsCommand>,
    /// The effect to show or to settle, or the beginning of its handle.
    #[arg(value_name = "HANDLE")]
    pub handle: Option<String>,
    /// Say how it ended, as `settle` does.
    #[arg(long, value_name = "END", requires = "handle", requires = "evidence")]
    pub settle: Option<SettleAs>,
    /// How you know it.
    #[arg(long, value_name = "TEXT", requires = "settle")]
    pub evidence: Option<String>,
    /// List only effects in this state; may be given more than once.
    #[arg(long, value_name = "STATE", value_parser = effect_state, conflicts_with = "handle")]
    pub state: Vec<EffectState>,
    /// Which effects to list.
    #[command(flatten)]
    pub conditions: EffectConditions,
    /// List at most this many, the newest first.
    #[arg(long, value_name = "NUMBER", default_value_t = 50, conflicts_with = "handle")]
    pub limit: u32,
}

/// What to do about an effect.
#[derive(Debug, Subcommand)]
pub(crate) enum EffectsCommand {
    /// Show everything that is known about an effect
    Show {
        /// The effect, or the beginning of its handle.
        #[arg(value_name = "HANDLE")]
        handle: String,
    },
    /// Say how an effect with an unknown outcome ended, or how several did
    #[command(group = clap::ArgGroup::new("which").required(true).multiple(true).args(["handle", "filter", "since", "until", "all"]))]
    Settle {
        /// The effect, or the beginning of its handle.
        #[arg(value_name = "HANDLE", conflicts_with_all = ["filter", "since", "until", "all", "yes", "dry_run"])]
        handle: Option<String>,
        /// Or all effects that match this.
        #[command(flatten)]
        conditions: EffectConditions,
        /// Or every effect whose outcome is unknown.
        #[arg(long, conflicts_with_all = ["filter", "since", "until"])]
        all: bool,
        /// How it ended.
        #[arg(long = "as", value_name = "END")]
        settle_as: SettleAs,
        /// How you know it.
        #[arg(long, value_name = "TEXT")]
        evidence: String,
        /// Settle several without asking.
        #[arg(long)]
        yes: bool,
        /// Show which effects would be settled, and settle none.
        #[arg(long, conflicts_with = "yes")]
        dry_run: bool,
    },
}

/// Conditions that select effects.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct EffectConditions {
    /// Only effects of this tool=NAME, upstream=ID, tenant=NAME, principal=NAME or class=K|Q|N; may be given more than once, and then all
    /// must match.
    #[arg(long, value_name = "KEY=VALUE", value_parser = condition, conflicts_with = "handle")]
    pub filter: Vec<EffectCondition>,
    /// Only effects that began since then: 2026-11-15, 2026-11-15T09:30Z, or 90m, 12h, 7d ago.
    #[arg(long, value_name = "TIME", value_parser = when, conflicts_with = "handle")]
    pub since: Option<TimeArgument>,
    /// Only effects that began before then.
    #[arg(long, value_name = "TIME", value_parser = when, conflicts_with = "handle")]
    pub until: Option<TimeArgument>,
}

/// One condition on effects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EffectCondition {
    Tool(String),
    Upstream(String),
    Tenant(String),
    Principal(String),
    Class(EffectClass),
}

/// A point in time as people write it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeArgument {
    At(Timestamp),
    AgoMs(u64),
}

impl TimeArgument {
    /// The time in Unix milliseconds; `now` is the current time.
    pub(crate) fn unix_ms(self, now: Timestamp) -> u64 {
        match self {
            Self::At(time) => time.unix_ms(),
            Self::AgoMs(ago_ms) => now.unix_ms().saturating_sub(ago_ms),
        }
    }
}

impl EffectConditions {
    /// The filter for the store; `now` is the current time.
    pub(crate) fn filter(&self, now: Timestamp) -> Result<EffectFilter, CommandFailure> {
        let (since_ms, until_ms) = (self.since.map(|at| at.unix_ms(now)), self.until.map(|at| at.unix_ms(now)));
        if since_ms.zip(until_ms).is_some_and(|(since_ms, until_ms)| since_ms >= until_ms) {
            return Err(CommandFailure::bad_input("--since is not before --until").hint("nothing was begun in between"));
        }
        let mut filter = EffectFilter { since_ms, until_ms, ..EffectFilter::default() };
        for condition in &self.filter {
            let repeated = match condition {
                EffectCondition::Tool(name) => filter.tool.replace(name.clone()).map(|_| "tool"),
                EffectCondition::Upstream(id) => filter.upstream.replace(id.clone()).map(|_| "upstream"),
                EffectCondition::Tenant(name) => filter.tenant.replace(name.clone()).map(|_| "tenant"),
                EffectCondition::Principal(name) => filter.principal.replace(name.clone()).map(|_| "principal"),
                EffectCondition::Class(class) => filter.class.replace(*class).map(|_| "class"),
            };
            if let Some(key) = repeated {
                let message = format!("--filter {key}=… is given twice, and no effect has two");
                return Err(CommandFailure::bad_input(message).hint("run the command once for each"));
            }
        }
        Ok(filter)
    }
}

/// How an effect ended, according to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SettleAs {
    /// It was done.
    Completed,
    /// It was not done; the same call may be made again.
    NotExecuted,
}

fn effect_state(text: &str) -> Result<EffectState, String> {
    EffectState::from_name(text).ok_or_else(|| {
        let known: Vec<&str> = EffectState::ALL.into_iter().map(EffectState::name).collect();
        format!("known states are {}", known.join(", "))
    })
}

fn condition(text: &str) -> Result<EffectCondition, String> {
    let wrong = || "write tool=NAME, upstream=ID, tenant=NAME, principal=NAME or class=K, Q or N".to_owned();
    let (key, value) = text.split_once('=').filter(|(_, value)| !value.is_empty()).ok_or_else(wrong)?;
    let value = value.to_owned();
    Ok(match key {
        "tool" => EffectCondition::Tool(value),
        "upstream" => EffectCondition::Upstream(value),
        "tenant" => EffectCondition::Tenant(value),
        "principal" => EffectCondition::Principal(value),
        "class" => EffectCondition::Class(match value.as_str() {
            "K" => EffectClass::K,
            "Q" => EffectClass::Q,
            "N" => EffectClass::N,
            "R" => EffectClass::R,
            _ => return Err(wrong()),
        }),
        _ => return Err(wrong()),
    })
}

pub(super) fn when(text: &str) -> Result<TimeArgument, String> {
    let ago = || span_ms(text).ok().map(TimeArgument::AgoMs);
    Timestamp::parse(text)
        .map(TimeArgument::At)
        .or_else(ago)
        .ok_or_else(|| "write 2026-11-15, 2026-11-15T09:30Z (UTC), or 90m, 12h, 7d for so long ago".to_owned())
}
