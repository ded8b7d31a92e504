//! The history of a tool that is or was held back: who held it back, when and why, and who released it. The last event counts; the others
//! are kept to be read.

use serde::{Deserialize, Serialize};
use servanda_catalog::{HeldTool, ToolHold};
use servanda_contract::{Digest, Timestamp};
use servanda_effects::{JournalError, LoggedChange, LoggedThing, Note, NoteKind};

use crate::probes::ProbeSnapshot;

/// The version of the note's format.
const VERSION: u8 = 1;
/// The most events that are kept for a tool; the oldest are dropped first.
const EVENTS_MAX: usize = 32;

/// The name under which the gateway holds back a tool whose probes saw a violation.
pub(crate) const GATEWAY: &str = "servanda";

/// A tool, by the upstream's id here and the tool's name there. Never an exposed name, which is free text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UpstreamToolKey {
    /// The upstream's id.
    pub upstream: String,
    /// The tool's own name.
    pub tool: String,
}

/// All events of a tool that is or was held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineHistory {
    /// The tool.
    pub tool: UpstreamToolKey,
    /// The events, oldest first.
    pub events: Vec<QuarantineEvent>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineEvent {
    /// When.
    pub at_ms: u64,
    /// Who did it.
    pub by: String,
    /// The name of the tool's contract then.
    pub contract: String,
    /// The digest of that contract, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_digest: Option<Digest>,
    /// What happened.
    #[serde(flatten)]
    pub what: QuarantineEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum QuarantineEventKind {
    /// The tool changed something, although its contract says that it only reads.
    Observed {
        /// The call during which probes saw it.
        call_id: String,
        /// The changes that the probes saw.
        probes: Vec<ObservedChange>,
    },
    /// A person held the tool back.
    Blocked {
        /// Why.
        reason: String,
    },
    /// A person released the tool.
    Released {
        /// Why.
        reason: String,
    },
}

/// A change that a probe saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedChange {
    /// The name of the probe.
    pub name: String,
    /// What it saw before the call.
    pub before: ProbeSnapshot,
    /// What it saw after the call.
    pub after: ProbeSnapshot,
}

/// The stored form.
#[derive(Serialize, Deserialize)]
struct StoredHistory {
    version: u8,
    events: Vec<QuarantineEvent>,
}

impl UpstreamToolKey {
    /// The key in a notebook: a JSON array, so that no two tools have the same key.
    pub fn to_key(&self) -> String {
        serde_json::Value::from(vec![self.upstream.as_str(), self.tool.as_str()]).to_string()
    }

    /// Reads a key.
    pub fn from_key(text: &str) -> Option<Self> {
        let [upstream, tool] = serde_json::from_str::<[String; 2]>(text).ok()?;
        Some(Self { upstream, tool })
    }
}

impl QuarantineEvent {
    /// As the verifiable log tells it.
    pub(super) fn logged(&self, tool: &UpstreamToolKey, now: Timestamp) -> LoggedChange {
        let (change, call) = match &self.what {
            QuarantineEventKind::Observed { call_id, .. } => ("held after a call", Some(call_id.clone())),
            QuarantineEventKind::Blocked { .. } => ("held by a person", None),
            QuarantineEventKind::Released { .. } => ("released", None),
        };
        let (thing, id, by) = (LoggedThing::Quarantine, tool.to_key(), self.by.clone());
        LoggedChange { thing, id, change, by, call, digest: self.contract_digest, at: now }
    }
}

impl QuarantineHistory {
    /// A history without events.
    pub fn new(tool: UpstreamToolKey) -> Self {
        Self { tool, events: Vec::new() }
    }

    /// Reads a note; none if it is about no tool. A note of an unknown format holds its tool back, because it may have been written to
    /// hold it back.
    pub fn from_note(note: &Note) -> Option<Self> {
        let tool = UpstreamToolKey::from_key(&note.key)?;
        let stored: Option<StoredHistory> = serde_json::from_str(&note.value).ok();
        let events = stored.filter(|stored| stored.version == VERSION).map_or_else(
            || {
                let reason = "this version cannot read what is stored about it".to_owned();
                let (by, contract) = (GATEWAY.to_owned(), String::new());
                vec![QuarantineEvent {
                    at_ms: 0,
                    by,
                    contract,
                    contract_digest: None,
                    what: QuarantineEventKind::Blocked { reason },
                }]
            },
            |stored| stored.events,
        );
        Some(Self { tool, events })
    }

    /// Adds an event.
    pub fn add(&mut self, event: QuarantineEvent) {
        let too_many = (self.events.len() + 1).saturating_sub(EVENTS_MAX);
        self.events.drain(..too_many);
        self.events.push(event);
    }

    /// The last event.
    pub fn last(&self) -> Option<&QuarantineEvent> {
        self.events.last()
    }

    /// Stands for the state that this history shows: after another event it is another text.
    pub fn mark(&self) -> String {
        format!("{}-{}", self.events.len(), self.last().map_or(0, |event| event.at_ms))
    }

    /// Why the tool is held back, if it is.
    pub fn hold(&self) -> Option<ToolHold> {
        let event = self.last()?;
        match &event.what {
            QuarantineEventKind::Observed { call_id, probes } => Some(ToolHold::Observed {
                call_id: call_id.clone(),
                probes: probes.iter().map(|probe| probe.name.clone()).collect(),
            }),
            QuarantineEventKind::Blocked { reason } => {
                Some(ToolHold::Blocked { by: event.by.clone(), reason: reason.clone() })
            }
            QuarantineEventKind::Released { .. } => None,
        }
    }

    /// The hold as the catalog takes it.
    pub fn held(&self) -> Option<HeldTool> {
        let UpstreamToolKey { upstream, tool } = self.tool.clone();
        self.hold().map(|hold| HeldTool { upstream, tool, hold })
    }

    pub(super) fn note(&self) -> Result<Note, JournalError> {
        let stored = StoredHistory { version: VERSION, events: self.events.clone() };
        let value = serde_json::to_string(&stored).map_err(|error| JournalError::new(error.to_string()))?;
        Ok(Note { kind: NoteKind::Quarantine, key: self.tool.to_key(), value, expires_at: None })
    }
}
