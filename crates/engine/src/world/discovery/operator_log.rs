//! Logs for the operator when the standing of a tool changes: one line for each change. Text of the server is shortened and its hidden
//! characters are shown.

use servanda_catalog::{
    Inventory, StandingChange, ToolHold, ToolStanding,
    negotiation::SchemaGap,
    pins::{Difference, DifferenceSeverity},
};

/// How many characters of a change one line shows.
const SHOWN_CHARS_MAX: usize = 1_000;
/// How many unusable definitions are logged one by one.
const REJECTED_TOLD_MAX: usize = 20;

pub(crate) fn log_change(change: &StandingChange) {
    let StandingChange { tool, upstream, before, now, first_look } = change;
    match &**now {
        ToolStanding::Held(ToolHold::Quarantined { severity, differences }) => {
            let (severity, diff) = (severity.word(), differences_in_line(differences));
            tracing::warn!(
                %tool, %upstream, severity, diff,
                "a tool's definition is not the one that was agreed to, so the tool is held back; `servanda diff {tool}` shows \
                 it, `servanda pin {tool}` agrees"
            );
        }
        ToolStanding::Held(ToolHold::Observed { call_id, probes }) => {
            tracing::error!(
                %tool, %upstream, call = call_id, probes = probes.join(", "),
                "a tool that says it only reads changed something, so it is held back; `servanda quarantine list` says more, \
                 `servanda explain {call_id}` has what was seen"
            );
        }
        ToolStanding::Held(ToolHold::Blocked { by, reason }) => {
            tracing::warn!(
                %tool, %upstream, by, reason = in_line(reason),
                "an operator holds a tool back; `servanda quarantine release {tool}` lets it go"
            );
        }
        ToolStanding::Held(ToolHold::Unpinned) => {
            tracing::warn!(
                %tool, %upstream,
                "no person has agreed to a tool's definition, so the tool is held back; `servanda pin {tool}` agrees"
            );
        }
        ToolStanding::Held(ToolHold::Rejected { reason }) => {
            tracing::warn!(%tool, %upstream, reason = in_line(reason), "a tool's definition cannot be used, so the tool is held back");
        }
        ToolStanding::Held(ToolHold::Incompatible { reasons }) => {
            tracing::warn!(
                %tool, %upstream, reasons = gaps_in_line(reasons),
                "a tool does not take what its contract says, so it is held back; correct the contract"
            );
        }
        // Objections to the contract are logged separately, and once.
        ToolStanding::Offered { gaps, drift, .. } => {
            if !drift.is_empty() {
                let (severity, diff) = (DifferenceSeverity::Additive.word(), differences_in_line(drift));
                tracing::warn!(%tool, %upstream, severity, diff, "a tool's definition grew; `servanda pin {tool}` agrees to it");
            }
            if !gaps.is_empty() {
                tracing::warn!(%tool, %upstream, gaps = gaps_in_line(gaps), "a tool lacks something that its contract has");
            }
            if !before.is_open() && !first_look {
                tracing::warn!(%tool, %upstream, "a tool that was {} is offered again", before.word());
            }
        }
        // Whether any client is offered the tool is reported separately (`report_missing`).
        ToolStanding::Withdrawn if *first_look => {
            tracing::debug!(%tool, %upstream, "a tool is not offered to this kind of client");
        }
        ToolStanding::Withdrawn => tracing::warn!(%tool, %upstream, "a tool is not offered any more"),
        ToolStanding::Unasked => {}
    }
}

/// Logs that a tool seems to do more than its contract says.
pub(super) fn log_objections(change: &StandingChange, objections: &str) {
    let StandingChange { tool, upstream, .. } = change;
    tracing::warn!(
        %tool, %upstream, objections = in_line(objections),
        "a tool seems to do more than its contract says; correct `effect` and `behaviour` there, or answer with \
         `behaviour.reviewed`; `servanda identity show {tool}` has more"
    );
}

/// Logs the tools that have a contract but are offered to no client.
pub(super) fn log_missing(upstream: &str, tools: &[String]) {
    for tool in tools {
        tracing::warn!(
            %tool, %upstream,
            "a tool that has a contract is not offered to any client (any more); `servanda tools` shows what is, and its \
             contract can be removed"
        );
    }
}

pub(super) fn log_rejected(upstream: &str, inventory: &Inventory) {
    for rejected in inventory.rejected.iter().take(REJECTED_TOLD_MAX) {
        let tool = rejected.name.as_deref().map_or_else(|| format!("definition {}", rejected.position), in_line);
        tracing::warn!(upstream, tool, reason = in_line(&rejected.reason), "a definition cannot be used");
    }
    if let Some(more) = inventory.rejected.len().checked_sub(REJECTED_TOLD_MAX).filter(|more| *more > 0) {
        tracing::warn!(upstream, more, "more definitions cannot be used");
    }
}

fn differences_in_line(differences: &[Difference]) -> String {
    let told = differences.iter().map(|difference| {
        let changed = difference.wording.as_ref().map(|wording| format!(": {wording}")).unwrap_or_default();
        format!("{} {}{changed}", difference.pointer, difference.what)
    });
    in_line(&told.collect::<Vec<_>>().join("; "))
}

fn gaps_in_line(gaps: &[SchemaGap]) -> String {
    in_line(&gaps.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
}

/// A server's text must neither start a new line in the log nor move the cursor.
fn in_line(text: &str) -> String {
    let revealed = servanda_contract::legibility::reveal(text);
    let mut line: String = revealed.replace(['\n', '\r', '\t'], " ").chars().take(SHOWN_CHARS_MAX).collect();
    if revealed.chars().nth(SHOWN_CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}
