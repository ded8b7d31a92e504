//! The arguments of `calls`.

use clap::Args;
use servanda_contract::{GateName, TaxonomyClass, Timestamp, record::Outcome};
use servanda_ledger::CallFilter;

use super::effects::{TimeArgument, when};
use crate::failure::CommandFailure;

/// `calls`.
#[derive(Debug, Args)]
pub(crate) struct CallsArgs {
    /// Only calls of this caller: a user, tenant/user, an agent, or the id of a credential (key:…).
    #[arg(long, value_name = "NAME")]
    pub caller: Option<String>,
    /// Only calls of this tool, as `servanda tools` shows it or by its contract's name.
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,
    /// Only calls with this outcome: completed, refused, `tool_error`, `not_executed`, quarantined, unknown, replayed, dispatching,
    /// `input_required`, `task_created` or previewed.
    #[arg(long, value_name = "OUTCOME", value_parser = outcome)]
    pub outcome: Option<Outcome>,
    /// Only calls of this class, as `POLICY_VIOLATION`.
    #[arg(long, value_name = "CLASS", value_parser = class)]
    pub class: Option<TaxonomyClass>,
    /// Only calls that this gate refused, by its name or number: policy, 8.
    #[arg(long, value_name = "GATE", value_parser = gate)]
    pub gate: Option<GateName>,
    /// Only calls of this session, as `servanda explain CALL --json` has it: sessions of clients of the older protocol.
    #[arg(long, value_name = "SESSION")]
    pub run: Option<String>,
    /// Only calls of this trace, by its W3C trace id.
    #[arg(long, value_name = "TRACE_ID", value_parser = trace)]
    pub trace: Option<String>,
    /// Only calls received since then: 2026-11-15, 2026-11-15T09:30Z, or 90m, 12h, 7d ago.
    #[arg(long, value_name = "TIME", value_parser = when)]
    pub since: Option<TimeArgument>,
    /// Only calls received before then.
    #[arg(long, value_name = "TIME", value_parser = when, conflicts_with = "follow")]
    pub until: Option<TimeArgument>,
    /// List at most this many.
    #[arg(long, value_name = "NUMBER", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=50_000))]
    pub limit: u32,
    /// List the latest calls, the oldest first, and then print each new call as it is recorded.
    #[arg(long, short = 'f')]
    pub follow: bool,
    /// Print a table in CSV (RFC 4180). A cell that a spreadsheet would take for a formula begins with a quote.
    #[arg(long, conflicts_with = "follow")]
    pub csv: bool,
}

impl CallsArgs {
    /// The filter for the store; `now` is the current time.
    pub(crate) fn filter(&self, now: Timestamp) -> Result<CallFilter, CommandFailure> {
        let (since_ms, until_ms) = (self.since.map(|at| at.unix_ms(now)), self.until.map(|at| at.unix_ms(now)));
        if since_ms.zip(until_ms).is_some_and(|(since_ms, until_ms)| since_ms >= until_ms) {
            return Err(
                CommandFailure::bad_input("--since is not before --until").hint("no call was received in between")
            );
        }
        let (caller, tool) = (self.caller.clone(), self.tool.clone());
        let (outcome, class, gate) = (self.outcome, self.class, self.gate);
        let (run, trace) = (self.run.clone(), self.trace.clone());
        Ok(CallFilter { caller, tool, outcome, class, gate, run, trace, since_ms, until_ms })
    }
}

fn outcome(text: &str) -> Result<Outcome, String> {
    Outcome::from_name(text).ok_or_else(|| known("outcomes", Outcome::ALL.into_iter().map(Outcome::name)))
}

pub(super) fn class(text: &str) -> Result<TaxonomyClass, String> {
    let found = TaxonomyClass::from_name(&text.to_uppercase());
    found.ok_or_else(|| known("classes", TaxonomyClass::ALL.into_iter().map(TaxonomyClass::name)))
}

fn gate(text: &str) -> Result<GateName, String> {
    GateName::from_name(text).ok_or_else(|| known("gates", GateName::ALL.into_iter().map(|gate| gate.to_string())))
}

/// A trace id, as records and leaves have it.
pub(super) fn trace(text: &str) -> Result<String, String> {
    let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_id { Ok(text.to_ascii_lowercase()) } else { Err("a trace id has 32 hex digits".to_owned()) }
}

fn known(what: &str, names: impl Iterator<Item = impl Into<String>>) -> String {
    format!("known {what} are {}", names.map(Into::into).collect::<Vec<String>>().join(", "))
}
