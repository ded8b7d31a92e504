//! What `servanda.yaml` says about tools whose definitions are not those that were agreed to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use servanda_catalog::pins;

/// What is done about tools whose definitions are not those in `servanda.lock`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PinsConfig {
    /// About changes that only add to what a tool takes or gives. Any other change holds the tool back.
    pub additive: AdditivePins,
    /// About tools that have a contract and no pin. If not said: they pass where there is no lock file at all, with a
    /// warning, and are held back otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingPins>,
}

/// What is done about changes that only add.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AdditivePins {
    /// The tool passes, with a line in the log.
    #[default]
    Allow,
    /// The tool is held back until somebody agrees.
    Hold,
}

/// What is done about tools without a pin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MissingPins {
    /// They are pinned as they are first seen.
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

    /// What it means.
    pub(crate) fn policy(&self) -> pins::PinPolicy {
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
