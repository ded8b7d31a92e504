//! The configuration of the verifiable log.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The verifiable log: what the gateway decided and did, in a form that outsiders can check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AuditConfig {
    /// Whether it is written. A log that was switched off for a while has a gap that its check reports.
    pub log: bool,
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self { log: true }
    }
}

impl AuditConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
