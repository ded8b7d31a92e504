//! A tool's standing: whether it may be called, and if not, why. It follows from the contract, the live definition and the
//! pins; of several reasons to hold a tool, the gravest is reported. Quarantine, by observation or by a person, outranks all of
//! it and is kept elsewhere.

use serde::Serialize;
use servanda_contract::{ToolContract, shared::Shared};
use servanda_identity::classifier::Objection;

use crate::{
    negotiation::{SchemaGap, SchemaMatch, fits},
    pins::{Definition, Difference, DifferenceSeverity, PinVerdict, Pins},
    review,
};

/// A tool's standing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolStanding {
    /// Its upstream has not been asked yet.
    Unasked,
    /// Its upstream offers it, and its definition matches the pin.
    Offered {
        /// Optional parts of the contract that are missing in the live definition.
        gaps: Vec<SchemaGap>,
        /// What was added since the definition was pinned.
        drift: Vec<Difference>,
        /// Unanswered objections: who says that the tool does more than its contract says.
        objections: Vec<Objection>,
    },
    /// Its upstream was asked and does not, or no longer, offer it to clients of this profile.
    Withdrawn,
    /// It is offered, but may not be called.
    Held(ToolHold),
}

/// Why an offered tool may not be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolHold {
    /// It changed something, and its contract says that it only reads.
    Observed {
        /// The call during which probes saw the change.
        call_id: String,
        /// The probes that saw the change.
        probes: Vec<String>,
    },
    /// A person blocked it.
    Blocked {
        /// The person.
        by: String,
        /// The reason.
        reason: String,
    },
    /// Its live definition cannot be used.
    Rejected {
        /// The reason.
        reason: String,
    },
    /// Its definition differs from the pinned one.
    Quarantined {
        /// How grave the change is.
        severity: DifferenceSeverity,
        /// What changed, gravest first.
        differences: Vec<Difference>,
    },
    /// Its definition is not pinned.
    Unpinned,
    /// It does not accept what its contract says it accepts.
    Incompatible {
        /// The reasons.
        reasons: Vec<SchemaGap>,
    },
}

/// A tool in quarantine, for what it did or because a person wants it, whatever its definition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTool {
    /// Its upstream.
    pub upstream: String,
    /// Its own name there.
    pub tool: String,
    /// The reason.
    pub hold: ToolHold,
}

/// Whether a tool's upstream can be reached, as told to agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// It answers, or it has not been asked yet: asking it for the first time is no change for agents.
    Available,
    /// It does not answer. A call is tried anyway, because a server that is started on demand comes back with the call.
    Unavailable,
}

/// A definition as an upstream serves it now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LiveDefinition {
    Defined(Shared<Definition>),
    Rejected(String),
}

impl ToolStanding {
    /// Whether it may be called.
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Unasked | Self::Offered { .. })
    }

    /// One word for tables and JSON.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Unasked => "unasked",
            Self::Offered { .. } => "offered",
            Self::Withdrawn => "withdrawn",
            Self::Held(ToolHold::Observed { .. }) => "observed",
            Self::Held(ToolHold::Blocked { .. }) => "blocked",
            Self::Held(ToolHold::Rejected { .. }) => "rejected",
            Self::Held(ToolHold::Quarantined { .. }) => "quarantined",
            Self::Held(ToolHold::Unpinned) => "unpinned",
            Self::Held(ToolHold::Incompatible { .. }) => "incompatible",
        }
    }

    /// The standing before the upstream is asked.
    pub(crate) fn unasked(contract: &ToolContract, pins: &Pins) -> Self {
        let binding = &contract.binding;
        if pins.holds_unseen(&binding.upstream, &binding.tool) { Self::Held(ToolHold::Unpinned) } else { Self::Unasked }
    }

    /// The standing after the upstream was asked; `live` is what it offers under the contract's name.
    pub(crate) fn judge(contract: &ToolContract, live: Option<&LiveDefinition>, pins: &Pins) -> Self {
        let definition = match live {
            None => return Self::Withdrawn,
            Some(LiveDefinition::Rejected(reason)) => return Self::Held(ToolHold::Rejected { reason: reason.clone() }),
            Some(LiveDefinition::Defined(definition)) => definition,
        };
        let drift = match pins.judge(&contract.binding.upstream, definition) {
            PinVerdict::Changed { severity, differences } => {
                return Self::Held(ToolHold::Quarantined { severity, differences });
            }
            PinVerdict::Unpinned => return Self::Held(ToolHold::Unpinned),
            PinVerdict::Agreed { drift } => drift,
            PinVerdict::FirstSight | PinVerdict::Unguarded => Vec::new(),
        };
        match fits(contract, &definition.input_schema) {
            SchemaMatch::Full => Self::offered(contract, definition, Vec::new(), drift),
            SchemaMatch::Partial { gaps } => Self::offered(contract, definition, gaps, drift),
            SchemaMatch::Incompatible { reasons } => Self::Held(ToolHold::Incompatible { reasons }),
        }
    }

    fn offered(contract: &ToolContract, definition: &Definition, gaps: Vec<SchemaGap>, drift: Vec<Difference>) -> Self {
        let objections = review(contract, definition).open_objections().to_vec();
        Self::Offered { gaps, drift, objections }
    }
}
