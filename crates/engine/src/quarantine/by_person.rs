//! People hold tools back and release them: a person's change is compared with what they looked at, and put on record.
//!
//! Deliberately not here: who may do so, and enforcing it in this process.

use servanda_contract::{Digest, Timestamp};
use servanda_effects::{JournalError, NoteKind, Notebook};

use super::{QuarantineEvent, QuarantineEventKind, QuarantineHistory, UpstreamToolKey};

/// How often a change is tried while others change the same quarantine.
pub(super) const WRITES_MAX: usize = 32;

/// What a person does about a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineChange {
    /// The tool.
    pub tool: UpstreamToolKey,
    /// The name of its contract.
    pub contract: String,
    /// The digest of that contract, if there is one.
    pub contract_digest: Option<Digest>,
    /// Whether the tool is held back, or released.
    pub holds: bool,
    /// Why.
    pub reason: String,
    /// The person.
    pub by: String,
    /// What the person looked at ([`QuarantineHistory::mark`]), if they looked at a page that may be old.
    pub seen: Option<String>,
}

/// Why a person's change of a quarantine is not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum QuarantineChangeError {
    /// The tool is not held back, so it cannot be released.
    #[error("the tool is not held back")]
    NotHeld,
    /// Something happened since the person looked.
    #[error("the quarantine of the tool changed meanwhile")]
    ChangedMeanwhile,
    /// The store did not take it, or it is not known whether it did.
    #[error("the store of quarantines does not answer: {0}")]
    Store(String),
}

/// The history of a tool; without events if nothing ever happened to it.
pub async fn history_of(
    notebook: &dyn Notebook,
    tool: &UpstreamToolKey,
    now: Timestamp,
) -> Result<QuarantineHistory, JournalError> {
    Ok(FoundHistory::read(notebook, tool, now).await?.history)
}

/// Puts a person's change on record, and returns the tool's history. A running gateway reads it within seconds. Of two changes at the same
/// moment, wherever they are made, the second is made to what the first left.
pub async fn change_by_person(
    notebook: &dyn Notebook,
    change: QuarantineChange,
    now: Timestamp,
) -> Result<QuarantineHistory, QuarantineChangeError> {
    let QuarantineChange { tool, contract, contract_digest, holds, reason, by, seen } = change;
    let what = if holds { QuarantineEventKind::Blocked { reason } } else { QuarantineEventKind::Released { reason } };
    let event = QuarantineEvent { at_ms: now.unix_ms(), by, contract, contract_digest, what };
    for _ in 0..WRITES_MAX {
        let found = FoundHistory::read(notebook, &tool, now).await?;
        if seen.as_ref().is_some_and(|seen| *seen != found.history.mark()) {
            return Err(QuarantineChangeError::ChangedMeanwhile);
        }
        if !holds && found.history.hold().is_none() {
            return Err(QuarantineChangeError::NotHeld);
        }
        if let Some(history) = found.with(notebook, event.clone(), now).await? {
            return Ok(history);
        }
    }
    Err(QuarantineChangeError::Store("others changed the tool's quarantine all the time".to_owned()))
}

/// The history of a tool, and the note that it was read from.
#[derive(Debug)]
pub(super) struct FoundHistory {
    pub(super) history: QuarantineHistory,
    stored: Option<String>,
}

impl FoundHistory {
    pub(super) async fn read(
        notebook: &dyn Notebook,
        tool: &UpstreamToolKey,
        now: Timestamp,
    ) -> Result<Self, JournalError> {
        let note = notebook.read(NoteKind::Quarantine, &tool.to_key(), now).await?;
        let history = note.as_ref().and_then(QuarantineHistory::from_note);
        let history = history.unwrap_or_else(|| QuarantineHistory::new(tool.clone()));
        Ok(Self { history, stored: note.map(|note| note.value) })
    }

    /// Puts an event on record. None if the history changed since it was read: then nothing is written.
    pub(super) async fn with(
        self,
        notebook: &dyn Notebook,
        event: QuarantineEvent,
        now: Timestamp,
    ) -> Result<Option<QuarantineHistory>, JournalError> {
        let Self { mut history, stored } = self;
        let changes = vec![event.logged(&history.tool, now)];
        history.add(event);
        let written = notebook.write_logged(history.note()?, stored, now, changes).await?;
        Ok(written.then_some(history))
    }
}

impl From<JournalError> for QuarantineChangeError {
    fn from(error: JournalError) -> Self {
        Self::Store(error.reason().to_owned())
    }
}
