//! A tool's descriptor as the classifier reads it: what an upstream lists, or a line of a corpus.

use serde::Deserialize;
use serde_json::{Map, Value};

/// A tool definition, as far as the classifier looks at it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its own name.
    #[serde(default)]
    pub name: String,
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// For models.
    #[serde(default)]
    pub description: Option<String>,
    /// Of the arguments.
    #[serde(default, alias = "input_schema")]
    pub input_schema: Option<Map<String, Value>>,
    /// Of the structured result.
    #[serde(default, alias = "output_schema")]
    pub output_schema: Option<Map<String, Value>>,
    /// The author's hints.
    #[serde(default)]
    pub annotations: Option<Annotations>,
}

/// MCP's annotations: the author's word, never proof.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// Says it changes nothing.
    #[serde(default)]
    pub read_only_hint: Option<bool>,
    /// Says it may destroy.
    #[serde(default)]
    pub destructive_hint: Option<bool>,
    /// Says twice is once.
    #[serde(default)]
    pub idempotent_hint: Option<bool>,
    /// Says it reaches outside.
    #[serde(default)]
    pub open_world_hint: Option<bool>,
}
