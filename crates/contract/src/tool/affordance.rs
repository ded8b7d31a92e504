//! What the model is told about a tool, and the schemas that its arguments and results must match.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::shared::SchemaDocument;

/// Model-facing text and schemas.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Affordance {
    /// The description a model sees: the contract's, never the upstream's unpinned one.
    pub model_description: String,
    /// When to use it.
    pub allowed_use_cases: Vec<String>,
    /// When not to.
    pub forbidden_use_cases: Vec<String>,
    /// JSON Schema of the arguments, 2020-12 unless `$schema` says draft-07. Objects are closed unless they say otherwise.
    pub input_schema: SchemaDocument,
    /// JSON Schema of the structured result; empty when the tool promises none.
    pub output_schema: SchemaDocument,
    /// Calls that work.
    pub examples: Vec<Example>,
    /// A title for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// One call that works.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// What the call does.
    pub description: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
}
