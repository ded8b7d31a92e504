//! The file of one server's contracts.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Defaults, ToolEntry};
use crate::document::{self, DocumentError};

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

impl ServerContracts {
    /// Reads the file's text. `file` is used only in errors.
    pub fn from_document(file: &str, text: &str) -> Result<Self, DocumentError> {
        document::read(file, text)
    }

    /// The text of a file.
    pub fn to_document(&self) -> Result<String, DocumentError> {
        document::write(self)
    }
}
