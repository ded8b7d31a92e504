//! The output of `servanda ledger`.

use std::fmt::Write as _;

use servanda_config::ledger_place::LedgerPlace;
use servanda_contract::Timestamp;
use servanda_ledger::{Adoption, LedgerPosition, LedgerStatus, LedgerVerification, LogReport};

/// The state of a ledger, as JSON.
#[derive(Debug, serde::Serialize)]
pub(super) struct LedgerReport {
    pub(super) ledger: String,
    pub(super) refused: Option<String>,
    #[serde(flatten)]
    pub(super) status: LedgerStatus,
}

pub(super) fn status(place: &LedgerPlace, status: &LedgerStatus) -> String {
    let mut page = format!("ledger         {place}\n");
    let mut line = |name: &str, says: String| {
        // Writing to a string cannot fail.
        let _ = writeln!(page, "{name:<14} {says}");
    };
    match &status.position {
        Some(LedgerPosition { ledger_id, position, written_ms, made_ms }) => {
            line("id", ledger_id.clone());
            line("position", format!("{position}, written {}", at(*written_ms)));
            line("made", at(*made_ms));
        }
        None if status.exists => line("id", "none: it is of an earlier version, or cannot be read".to_owned()),
        None => line("id", "there is no ledger yet".to_owned()),
    }
    if let Some(version) = status.schema_version {
        let needed = status.schema_needed;
        let says = if version == needed { String::new() } else { format!(", and this servanda needs {needed}") };
        line("schema", format!("version {version}{says}"));
    }
    match &status.known {
        Some(LedgerPosition { ledger_id, position, .. }) => {
            let ended = if status.ended_cleanly == Some(true) { "ended cleanly" } else { "open or killed" };
            line("known outside", format!("ledger {ledger_id} at position {position}, {ended}"));
        }
        None => line("known outside", "nothing".to_owned()),
    }
    if let Some(in_use) = status.in_use {
        line("in use", if in_use { "yes" } else { "no" }.to_owned());
    }
    if let (Some(bytes), log_bytes) = (status.bytes, status.log_bytes.unwrap_or_default()) {
        line("size", format!("{bytes} bytes, and {log_bytes} in the write-ahead log"));
    }
    if let Some(log) = &status.log {
        line("log", log.to_string());
    }
    for adoption in &status.adoptions {
        line("accepted", self::adoption(adoption).replace('\n', "\n               "));
    }
    page.trim_end().to_owned()
}

pub(super) fn adoption(adoption: &Adoption) -> String {
    let Adoption { adopted_ms, adopted_by, evidence, found, lost_from_ms, in_force_until_ms, ledger_id, .. } = adoption;
    let begins = if adoption.found_id.is_none() { "; nothing could be read, so it begins empty" } else { "" };
    let mut page = format!(
        "accepted {} by {adopted_by}: {evidence}\nwhat was found: {found}\nit is ledger {ledger_id} now{begins}\n\
         the time from {} to {} is lost: a key of class N that the ledger does not know is unknown until {}",
        at(*adopted_ms),
        at(*lost_from_ms),
        at(adoption.lost_until_ms),
        at(*in_force_until_ms)
    );
    if let (Some(settled_ms), Some(by)) = (adoption.settled_ms, &adoption.settled_by) {
        let evidence = adoption.settled_evidence.as_deref().unwrap_or_default();
        let _ = write!(page, "\nsettled {} by {by}: {evidence}", at(settled_ms));
    }
    page
}

pub(super) fn verified(verified: &LedgerVerification, log: Option<&LogReport>) -> String {
    let LedgerVerification { effects, calls, problems } = verified;
    let mut page = format!("{effects} effects and {calls} calls were read");
    if let Some(log) = log {
        let _ = write!(page, "\n{log}");
    }
    if problems.is_empty() {
        page.push_str("\nnothing is wrong");
    }
    for problem in problems {
        let _ = write!(page, "\nFAIL {problem}");
    }
    page
}

fn at(unix_ms: u64) -> String {
    Timestamp::from_unix_ms(unix_ms).to_string()
}
