//! What a contract for a discovered tool should say, worked out from its definition alone.
//!
//! Names and schemas are evidence, annotations are hints, descriptions are weak hints, and what stays uncertain is classed
//! as more dangerous. Every conclusion comes with its reason, because a person has to be able to disagree. The result is a
//! proposal: admission judges it like any other contract.

mod assembly;
mod evidence;
mod programs;
#[cfg(test)]
mod tests;

use serde::Deserialize;
use serde_json::{Map, Value};
use servanda_contract::ToolContract;

pub use evidence::{Reach, Reading};

use crate::pins::Definition;

/// A tool definition as an upstream serves it, as far as inference looks at it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its own name.
    pub name: String,
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// For models.
    #[serde(default)]
    pub description: Option<String>,
    /// Of the arguments.
    #[serde(default)]
    pub input_schema: Map<String, Value>,
    /// Of the structured result.
    #[serde(default)]
    pub output_schema: Option<Map<String, Value>>,
    /// The author's hints.
    #[serde(default)]
    pub annotations: Option<Hints>,
}

/// MCP's annotations: the author's word, never proof.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hints {
    /// Says it changes nothing.
    #[serde(default)]
    pub read_only_hint: Option<bool>,
    /// Says it may destroy.
    #[serde(default)]
    pub destructive_hint: Option<bool>,
    /// Says twice is once. Never believed.
    #[serde(default)]
    pub idempotent_hint: Option<bool>,
    /// Says it reaches outside.
    #[serde(default)]
    pub open_world_hint: Option<bool>,
}

/// A proposed contract and how it came about.
#[derive(Debug, Clone)]
pub struct Inferred {
    /// The proposal.
    pub contract: ToolContract,
    /// What the tool seems to do, and why.
    pub reading: Reading,
    /// What had to be changed or left out to make the definition enforceable.
    pub notes: Vec<String>,
}

impl Descriptor {
    /// The author's hints; none where the author gave none.
    pub(crate) fn hints(&self) -> Hints {
        self.annotations.clone().unwrap_or_default()
    }
}

impl From<&Definition> for Descriptor {
    fn from(definition: &Definition) -> Self {
        let hint = |name: &str| definition.annotations.get(name).and_then(Value::as_bool);
        let hints = Hints {
            read_only_hint: hint("readOnlyHint"),
            destructive_hint: hint("destructiveHint"),
            idempotent_hint: hint("idempotentHint"),
            open_world_hint: hint("openWorldHint"),
        };
        Self {
            name: definition.name.clone(),
            title: definition.title.clone(),
            description: definition.description.clone(),
            input_schema: definition.input_schema.clone(),
            output_schema: definition.output_schema.clone(),
            annotations: Some(hints),
        }
    }
}

/// Works out a contract for a tool of `upstream`.
pub fn infer(upstream: &str, descriptor: &Descriptor) -> Inferred {
    let reading = evidence::read(descriptor);
    let mut notes = Vec::new();
    let contract = assembly::assemble(upstream, descriptor, &reading, &mut notes);
    Inferred { contract, reading, notes }
}
