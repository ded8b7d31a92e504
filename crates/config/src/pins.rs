//! The configuration of pins: what to do about tools whose definitions differ from those that were agreed to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_catalog::pins;

/// What to do about tools whose definitions differ from those in `servanda.lock`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PinsConfig {
    /// For changes that only add to a tool's input or output. Any other change holds the tool back.
    pub additive: AdditivePins,
    /// For tools that have a contract and no pin. By default, they pass with a warning if there is no lock file at all, and are held back
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingPins>,
}

/// What to do about changes that only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AdditivePins {
    /// The tool passes, with a line in the log.
    #[default]
    Allow,
    /// The tool is held back until a person agrees.
    Hold,
}

/// What to do about tools without a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingPins {
    /// They are pinned when they are first seen.
    Pin,
    /// They are held back.
    Hold,
    /// They pass.
    Ignore,
}

impl PinsConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The policy that the engine enforces.
    pub fn policy(&self) -> pins::PinPolicy {
        let additive = match self.additive {
            AdditivePins::Allow => pins::AdditiveChangePolicy::Allow,
            AdditivePins::Hold => pins::AdditiveChangePolicy::Hold,
        };
        let missing = self.missing.map(|missing| match missing {
            MissingPins::Pin => pins::MissingPinPolicy::Pin,
            MissingPins::Hold => pins::MissingPinPolicy::Hold,
            MissingPins::Ignore => pins::MissingPinPolicy::Ignore,
        });
        pins::PinPolicy { additive, missing }
    }
}
