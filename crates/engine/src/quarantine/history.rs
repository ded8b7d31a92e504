//! What happened to a tool that somebody held back: who, when, why, and who let it go. The last event counts; the others are
//! there to be read.

use serde::{Deserialize, Serialize};
use servanda_catalog::{HeldTool, ToolHold};
use servanda_contract::Digest;
use servanda_effects::{JournalError, Note, NoteKind};

use crate::probes::ProbeSnapshot;

/// The form of the note.
const VERSION: u8 = 1;
/// Events that are kept of a tool; of more, the oldest go.
const EVENTS_MAX: usize = 32;

/// Who holds a tool back that was seen to lie.
pub(crate) const GATEWAY: &str = "servanda";

/// Which tool: what its upstream is called here, and what the tool is called there. Never an exposed name, which is text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UpstreamToolKey {
    /// The upstream's id.
    pub upstream: String,
    /// The tool's own name.
    pub tool: String,
}

/// Everything that is known about a tool that is or was held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuarantineHistory {
    /// Which tool.
    pub tool: UpstreamToolKey,
    /// What happened, oldest first.
    pub events: Vec<QuarantineEvent>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantineEvent {
    /// When.
    pub at_ms: u64,
    /// Who did it.
    pub by: String,
    /// The name of the tool's contract then.
    pub contract: String,
    /// The digest of that contract, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract_digest: Option<Digest>,
    /// What.
    #[serde(flatten)]
    pub what: QuarantineEventKind,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum QuarantineEventKind {
    /// It changed something, and its contract says that it only reads.
    Observed {
        /// The call around which that was seen.
        call_id: String,
        /// What saw it.
        probes: Vec<ObservedChange>,
    },
    /// A person holds it back.
    Blocked {
        /// Why.
        reason: String,
    },
    /// A person let it go.
    Released {
        /// Why.
        reason: String,
    },
}

/// A change that a probe saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedChange {
    /// The probe.
    pub name: String,
    /// What it saw first.
    pub before: ProbeSnapshot,
    /// What it saw then.
    pub after: ProbeSnapshot,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct StoredHistory {
    version: u8,
    events: Vec<QuarantineEvent>,
}

impl UpstreamToolKey {
    /// Its key in a notebook: a JSON array, so that no two tools have the same.
    pub fn to_key(&self) -> String {
        serde_json::Value::from(vec![self.upstream.as_str(), self.tool.as_str()]).to_string()
    }

    /// The tool of a key.
    pub fn from_key(text: &str) -> Option<Self> {
        let [upstream, tool] = serde_json::from_str::<[String; 2]>(text).ok()?;
        Some(Self { upstream, tool })
    }
}

impl QuarantineHistory {
    /// Nothing happened yet.
    pub fn new(tool: UpstreamToolKey) -> Self {
        Self { tool, events: Vec::new() }
    }

    /// What a note says; none if it is about no tool. One whose form is not known holds its tool back: somebody wanted
    /// something, and it is not known that it was to let it go.
    pub fn from_note(note: &Note) -> Option<Self> {
        let tool = UpstreamToolKey::from_key(&note.key)?;
        let stored: Option<StoredHistory> = serde_json::from_str(&note.value).ok();
        let events = stored.filter(|stored| stored.version == VERSION).map_or_else(
            || {
                let reason = "what was written down about it cannot be read by this version".to_owned();
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

    /// One more event.
    pub fn add(&mut self, event: QuarantineEvent) {
        let too_many = (self.events.len() + 1).saturating_sub(EVENTS_MAX);
        self.events.drain(..too_many);
        self.events.push(event);
    }

    /// What happened last.
    pub fn last(&self) -> Option<&QuarantineEvent> {
        self.events.last()
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

    /// The same for a catalog.
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
