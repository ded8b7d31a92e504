//! What is pinned of a tool: everything a model or a person reads, and nothing that changes without meaning.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use servanda_contract::{Digest, digest::Domain, json};

/// Name, title, description, schemas and annotations of a tool, as its upstream serves them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Definition {
    /// Its own name.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// For models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Of the arguments.
    #[serde(default)]
    pub input_schema: Map<String, Value>,
    /// Of the structured result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Map<String, Value>>,
    /// The author's hints.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub annotations: Map<String, Value>,
}

impl Definition {
    /// The digest of what is pinned: the same for any order of members and any white space.
    pub fn digest(&self) -> Digest {
        // A definition that was read as JSON can be written as JSON; an empty one would match no pin.
        let value = serde_json::to_value(self).unwrap_or_default();
        let canonical = json::canonicalize(&value);
        Digest::of(Domain::Definition, &[canonical.as_ref().map_or(&[], |canonical| canonical.bytes())])
    }

    /// Whether the author says that the tool changes nothing.
    pub(super) fn hint(&self, name: &str) -> Option<bool> {
        self.annotations.get(name).and_then(Value::as_bool)
    }
}
