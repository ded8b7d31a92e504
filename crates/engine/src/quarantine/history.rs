//! What happened to a tool that somebody held back: who, when, why, and who let it go. The last event counts; the others are
//! there to be read.

use serde::{Deserialize, Serialize};
use servanda_catalog::{HeldTool, ToolHold};
use servanda_contract::Digest;
use servanda_effects::{JournalError, Note, NoteKind};

use crate::probes::Seen;

/// The form of the note.
const VERSION: u8 = 1;
/// Events that are kept of a tool; of more, the oldest go.
const EVENTS_MAX: usize = 32;

/// Who holds a tool back that was seen to lie.
pub(crate) const GATEWAY: &str = "servanda";

/// Which tool: what its upstream is called here, and what the tool is called there. Never an exposed name, which is text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ToolKey {
    /// The upstream's id.
    pub upstream: String,
    /// The tool's own name.
    pub tool: String,
}

/// Everything that is known about a tool that is or was held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Which tool.
    pub tool: ToolKey,
    /// What happened, oldest first.
    pub events: Vec<Event>,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
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
    pub what: What,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "did", rename_all = "snake_case")]
pub enum What {
    /// It changed something, and its contract says that it only reads.
    Observed {
        /// The call around which that was seen.
        call_id: String,
        /// What saw it.
        probes: Vec<SeenChange>,
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
pub struct SeenChange {
    /// The probe.
    pub name: String,
    /// What it saw first.
    pub before: Seen,
    /// What it saw then.
    pub after: Seen,
}

/// As it is stored.
#[derive(Serialize, Deserialize)]
struct Stored {
    version: u8,
    events: Vec<Event>,
}

impl ToolKey {
    /// Its key in a notebook: a JSON array, so that no two tools have the same.
    pub fn text(&self) -> String {
        serde_json::Value::from(vec![self.upstream.as_str(), self.tool.as_str()]).to_string()
    }

    /// The tool of a key.
    pub fn read(text: &str) -> Option<Self> {
        let [upstream, tool] = serde_json::from_str::<[String; 2]>(text).ok()?;
        Some(Self { upstream, tool })
    }
}

impl History {
    /// Nothing happened yet.
    pub fn new(tool: ToolKey) -> Self {
        Self { tool, events: Vec::new() }
    }

    /// What a note says; none if it is about no tool. One whose form is not known holds its tool back: somebody wanted
    /// something, and it is not known that it was to let it go.
    pub fn read(note: &Note) -> Option<Self> {
        let tool = ToolKey::read(&note.key)?;
        let stored: Option<Stored> = serde_json::from_str(&note.value).ok();
        let events = stored.filter(|stored| stored.version == VERSION).map_or_else(
            || {
                let reason = "what was written down about it cannot be read by this version".to_owned();
                let (by, contract) = (GATEWAY.to_owned(), String::new());
                vec![Event { at_ms: 0, by, contract, contract_digest: None, what: What::Blocked { reason } }]
            },
            |stored| stored.events,
        );
        Some(Self { tool, events })
    }

    /// One more event.
    pub fn add(&mut self, event: Event) {
        let too_many = (self.events.len() + 1).saturating_sub(EVENTS_MAX);
        self.events.drain(..too_many);
        self.events.push(event);
    }

    /// What happened last.
    pub fn last(&self) -> Option<&Event> {
        self.events.last()
    }

    /// Why the tool is held back, if it is.
    pub fn hold(&self) -> Option<ToolHold> {
        let event = self.last()?;
        match &event.what {
            What::Observed { call_id, probes } => Some(ToolHold::Observed {
                call_id: call_id.clone(),
                probes: probes.iter().map(|probe| probe.name.clone()).collect(),
            }),
            What::Blocked { reason } => Some(ToolHold::Blocked { by: event.by.clone(), reason: reason.clone() }),
            What::Released { .. } => None,
        }
    }

    /// The same for a catalog.
    pub fn held(&self) -> Option<HeldTool> {
        let ToolKey { upstream, tool } = self.tool.clone();
        self.hold().map(|hold| HeldTool { upstream, tool, hold })
    }

    pub(super) fn note(&self) -> Result<Note, JournalError> {
        let stored = Stored { version: VERSION, events: self.events.clone() };
        let value = serde_json::to_string(&stored).map_err(|error| JournalError::new(error.to_string()))?;
        Ok(Note { kind: NoteKind::Quarantine, key: self.tool.text(), value, expires_at: None })
    }
}
