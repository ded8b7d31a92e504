//! The file of one server's contracts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Defaults, ToolEntry};

/// The decisions about the tools of one server: `contracts/SERVER.yaml`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerContracts {
    /// The server's id in the configuration.
    pub server: String,
    /// Defaults for all of the server's tools.
    #[serde(default, skip_serializing_if = "Defaults::is_empty")]
    pub defaults: Defaults,
    /// Entries by the tool's own name.
    pub tools: BTreeMap<String, ToolEntry>,
}
