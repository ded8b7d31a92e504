//! Tools that are or were held back, as text and as JSON.

use serde::Serialize;
use servanda_catalog::ToolHold;
use servanda_contract::Timestamp;
use servanda_engine::{
    probes::ProbeSnapshot,
    quarantine::{QuarantineEvent, QuarantineEventKind, QuarantineHistory},
};

use crate::screen::{TextStyle, lines, paint, table};

/// A tool, for `--json`.
#[derive(Serialize)]
pub(super) struct QuarantineReport<'a> {
    tool: String,
    upstream: &'a str,
    upstream_tool: &'a str,
    contract: &'a str,
    state: &'static str,
    events: &'a [QuarantineEvent],
}

pub(super) fn report(history: &QuarantineHistory, exposed: String) -> QuarantineReport<'_> {
    QuarantineReport {
        tool: exposed,
        upstream: &history.tool.upstream,
        upstream_tool: &history.tool.tool,
        contract: history.last().map_or("", |event| &event.contract),
        state: state(history),
        events: &history.events,
    }
}

/// One line per tool.
pub(super) fn list(held: &[(String, &QuarantineHistory)]) -> String {
    let mut rows = table(&["tool", "since", "why", "by"]);
    for (exposed, history) in held {
        let Some(event) = history.last() else { continue };
        let why = match history.hold() {
            Some(ToolHold::Observed { call_id, probes }) => {
                format!("it only reads, and changed {} ({call_id})", probes.join(", "))
            }
            Some(ToolHold::Blocked { reason, .. }) => reason,
            _ => String::new(),
        };
        rows.add_row([paint(exposed, TextStyle::Bad), at(event), why, event.by.clone()]);
    }
    lines(&rows)
}

/// Everything that happened to one tool.
pub(super) fn page(history: &QuarantineHistory, exposed: &str) -> String {
    let state = state(history);
    let style = if state == "held" { TextStyle::Bad } else { TextStyle::Good };
    let mut lines = vec![format!("{}  {}", paint(exposed, TextStyle::Strong), paint(state, style))];
    lines.push(format!("  upstream  `{}` as `{}`", history.tool.upstream, history.tool.tool));
    for event in &history.events {
        lines.push(format!("  {}  {}", at(event), what(event)));
        if let QuarantineEventKind::Observed { call_id, probes } = &event.what {
            for probe in probes {
                lines.push(format!("    {}: {} then {}", probe.name, seen(&probe.before), seen(&probe.after)));
            }
            lines.push(format!("    servanda explain {call_id}"));
        }
    }
    lines.join("\n")
}

/// What a probe saw, in a word.
fn seen(seen: &ProbeSnapshot) -> String {
    match seen {
        ProbeSnapshot::Digest(digest) => format!("({})", digest.short()),
        ProbeSnapshot::Nothing => "nothing there".to_owned(),
        ProbeSnapshot::NotTaken(why) => format!("not taken: {why}"),
    }
}

fn what(event: &QuarantineEvent) -> String {
    let by = &event.by;
    match &event.what {
        QuarantineEventKind::Observed { .. } => {
            format!("held back by {by}: it says that it only reads, and changed something")
        }
        QuarantineEventKind::Blocked { reason } => format!("held back by {by}: {reason}"),
        QuarantineEventKind::Released { reason } => format!("released by {by}: {reason}"),
    }
}

fn state(history: &QuarantineHistory) -> &'static str {
    if history.hold().is_some() { "held" } else { "released" }
}

fn at(event: &QuarantineEvent) -> String {
    Timestamp::from_unix_ms(event.at_ms).to_string()
}
