//! One call in one line, with links that filter by what the line says.

use servanda_contract::{
    CallRecord, Timestamp, legibility,
    record::{CallSummary, Outcome},
};

use super::filter::{CallsFilter, FilterField};
use crate::{
    pages::words::StateWords,
    routing::{call_path, grant_path},
    view::Moment,
};

/// The longest name of a line.
const NAME_CHARS_MAX: usize = 80;

/// One call in one line.
pub(super) struct ListedCall {
    /// The address of its page.
    pub(super) href: String,
    /// When it was received.
    pub(super) at: Moment,
    /// The time of day, to the second.
    pub(super) time: String,
    /// Who called.
    pub(super) caller: LineValue,
    /// For whom, if an agent acted.
    pub(super) user: Option<LineValue>,
    /// The tool.
    pub(super) tool: LineValue,
    /// How it ended.
    pub(super) ended: StateWords,
    /// The calls that ended so.
    pub(super) ended_href: String,
    /// The class of its end, if that says more.
    pub(super) class: Option<LineValue>,
    /// The stage that refused it.
    pub(super) gate: Option<LineValue>,
    /// The address of the grant that it used, if a grant covered it.
    pub(super) grant_href: Option<String>,
    /// How long it took.
    pub(super) took: Option<String>,
}

/// A value, and the address of the list filtered by it.
pub(super) struct LineValue {
    pub(super) text: String,
    pub(super) href: String,
}

impl ListedCall {
    /// The line of a call in a list with a filter.
    pub(super) fn new(record: &CallRecord, filter: &CallsFilter, now: Timestamp) -> Self {
        let summary = CallSummary::from_record(record);
        let value = |field: FilterField, text: &str| LineValue {
            text: shortened(&legibility::one_line(text)),
            href: filter.with(field, text),
        };
        let caller = summary.agent.as_ref().unwrap_or(&summary.principal);
        Self {
            href: call_path(&summary.call_id),
            at: Moment::new(summary.received_ms, now),
            time: summary.time(),
            caller: value(FilterField::Caller, caller),
            user: summary.agent.as_ref().map(|_| value(FilterField::Caller, &summary.principal)),
            tool: value(FilterField::Tool, &summary.tool),
            ended: outcome_words(record),
            ended_href: filter.with(FilterField::Outcome, summary.outcome),
            class: summary.class.filter(|class| *class != "SUCCESS").map(|class| value(FilterField::Class, class)),
            gate: summary.gate.map(|gate| value(FilterField::Gate, &gate.to_string())),
            grant_href: summary.grant.as_deref().map(grant_path),
            took: summary.took_ms.filter(|_| summary.late_answer_of.is_none()).map(took_in_words),
        }
    }
}

/// How a call ended, in words.
pub(super) fn outcome_words(record: &CallRecord) -> StateWords {
    let style = match record.outcome {
        Outcome::Completed | Outcome::Replayed => "good",
        Outcome::Dispatching | Outcome::InputRequired | Outcome::TaskCreated | Outcome::Previewed => "waiting",
        Outcome::Refused | Outcome::NotExecuted => "warn",
        Outcome::ToolError | Outcome::Quarantined | Outcome::Unknown => "bad",
    };
    StateWords { words: record.ended(), style }
}

/// A duration as lists show it.
pub(super) fn took_in_words(ms: u64) -> String {
    match ms {
        0..10_000 => format!("{ms} ms"),
        _ => format!("{} s", ms / 1_000),
    }
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(NAME_CHARS_MAX) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
