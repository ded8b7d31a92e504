//! What the probes saw around a call, as it is stored and shown: digests and reasons, never the content.

use serde::{Deserialize, Serialize};
use servanda_contract::{Digest, Timestamp};
use servanda_effects::{JournalError, Note, NoteKind};

use super::verdict::{ProbeComparison, ProbeSnapshot, ProbeVerdict};

/// The version of the note's format.
const VERSION: u8 = 1;
/// How long a report is kept that accuses no tool.
const KEPT_MS: u64 = 90 * 86_400_000;

/// What the probes saw around one call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The version of this note's format.
    pub version: u8,
    /// The call.
    pub call_id: String,
    /// Its contract's name.
    pub tool: String,
    /// Its contract's digest.
    pub contract_digest: Digest,
    /// Whether the contract says that it only reads.
    pub reads_only: bool,
    /// How the call ended.
    pub outcome: String,
    /// Whether no call that may change something was running in this gateway between the looks.
    pub alone: bool,
    /// Around how many of a hundred calls of this tool probes are taken.
    pub sample_percent: u8,
    /// The verdict.
    pub verdict: ProbeVerdict,
    /// When the last look was taken.
    pub at_ms: u64,
    /// What each probe saw.
    pub probes: Vec<ProbeResult>,
}

/// What one probe saw.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Its name in the contract.
    pub name: String,
    /// What it looks at.
    pub target: String,
    /// What the looks tell.
    pub found: ProbeComparison,
    /// What it saw before the call was sent.
    pub before: ProbeSnapshot,
    /// What it saw when the end of the call was on record.
    pub after: ProbeSnapshot,
    /// What it saw a moment later, if a third look was taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub again: Option<ProbeSnapshot>,
}

impl ProbeReport {
    pub(crate) const VERSION: u8 = VERSION;

    /// Reads a note; none if this version does not know its format.
    pub fn read(note: &Note) -> Option<Self> {
        serde_json::from_str::<Self>(&note.value).ok().filter(|observed| observed.version == VERSION)
    }

    /// The names of the probes that found this.
    pub fn names(&self, found: ProbeComparison) -> Vec<String> {
        self.probes.iter().filter(|probe| probe.found == found).map(|probe| probe.name.clone()).collect()
    }

    /// The report as a note. A report that accuses a tool is kept for good, like the record of its call.
    pub(crate) fn note(&self, now: Timestamp) -> Result<Note, JournalError> {
        let value = serde_json::to_string(self).map_err(|error| JournalError::new(error.to_string()))?;
        let kept_until = Timestamp::from_unix_ms(now.unix_ms().saturating_add(KEPT_MS));
        let expires_at = (self.verdict != ProbeVerdict::Violation).then_some(kept_until);
        Ok(Note { kind: NoteKind::Observed, key: self.call_id.clone(), value, expires_at })
    }
}
