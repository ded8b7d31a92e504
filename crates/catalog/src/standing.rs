//! How a tool stands: whether it may be called, and if not, why. Judged from the contract, the live definition and the
//! pins; the gravest reason to hold a tool back is the one that is told. What a tool was seen to do, and what a person says,
//! outranks all of it and is kept elsewhere.

use serde::Serialize;
use servanda_contract::{ToolContract, shared::Shared};
use servanda_identity::classifier::Objection;

use crate::{
    negotiation::{SchemaGap, SchemaMatch, fits},
    pins::{Definition, Difference, DifferenceSeverity, PinVerdict, Pins},
    review,
};

/// How a tool stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolStanding {
    /// Nobody has asked its upstream yet.
    Unasked,
    /// Its upstream offers it, and it is the one that was agreed to.
    Offered {
        /// What is optional in the contract and missing in the live definition.
        gaps: Vec<SchemaGap>,
        /// What was added since somebody agreed.
        drift: Vec<Difference>,
        /// Who says that it does more than its contract says, and nobody has answered.
        objections: Vec<Objection>,
    },
    /// Its upstream was asked and does not offer it to clients like this: not any more, or never.
    Withdrawn,
    /// It is offered, but may not be called.
    Held(ToolHold),
}

/// Why a tool that is offered may not be called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolHold {
    /// It was seen to change something, and its contract says that it only reads.
    Observed {
        /// The call around which that was seen.
        call_id: String,
        /// The probes that saw it.
        probes: Vec<String>,
    },
    /// A person holds it back.
    Blocked {
        /// Who.
        by: String,
        /// Why.
        reason: String,
    },
    /// Its live definition cannot be used.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Its definition is not the one that was agreed to.
    Quarantined {
        /// How grave the change is.
        severity: DifferenceSeverity,
        /// What changed, gravest first.
        differences: Vec<Difference>,
    },
    /// Nobody has agreed to its definition.
    Unpinned,
    /// It does not take what its contract says it takes.
    Incompatible {
        /// Why.
        reasons: Vec<SchemaGap>,
    },
}

/// A tool that is held back for what it did or because a person wants it, whatever its definition says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTool {
    /// Its upstream.
    pub upstream: String,
    /// Its own name there.
    pub tool: String,
    /// Why.
    pub hold: ToolHold,
}

/// Whether a tool's upstream can be reached, as agents are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Availability {
    /// It answers, as far as anybody knows: that it was asked for the first time is no news to agents.
    Available,
    /// It does not. A call is tried all the same: a server that is started when it is needed comes back with the call.
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

    /// Before anybody has asked.
    pub(crate) fn unasked(contract: &ToolContract, pins: &Pins) -> Self {
        let binding = &contract.binding;
        if pins.holds_unseen(&binding.upstream, &binding.tool) { Self::Held(ToolHold::Unpinned) } else { Self::Unasked }
    }

    /// After the upstream was asked; `live` is what it offers under the contract's name.
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
