//! Contracts in layers: a file holds the decisions about a tool and their reasons, and everything else comes from defaults.
//!
//! The layers, each overriding the one before it: built-in values for the tool's side-effect class; the tool's pinned
//! definition, which gives texts and schemas; `defaults` of the configuration; `defaults` of the server's file; the tool's own
//! entry. Objects are merged member by member, every other value replaces the one below it. The result is an ordinary
//! [`ToolContract`], so its digest does not depend on which layer wrote which value.
//!
//! This module reads no files, finds no pins and does not judge the result; its callers do.

mod built_in;
mod entry;
mod merge;
mod server;
#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::{Map, Value};

pub use built_in::{BuiltInInputs, contract_name};
pub use entry::{Defaults, EntryReview, ToolEntry};
pub use merge::ValueOrigins;
pub use server::ServerContracts;

use crate::{ToolContract, shared::SchemaDocument, tool::SideEffectClass};
use merge::MergedLayers;

/// The layer that a value of an effective contract comes from. Later variants override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Layer {
    /// Servanda's own value for the side-effect class.
    BuiltIn(SideEffectClass),
    /// The tool's pinned definition.
    Definition,
    /// `defaults` of the configuration.
    Configuration,
    /// `defaults` of the server's file.
    Server,
    /// The tool's entry in the server's file.
    Tool,
}

/// What a pinned definition contributes to a contract: texts, and schemas that can be enforced.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DefinitionLayer {
    /// The description for the model.
    pub description: String,
    /// The title for people.
    pub title: Option<String>,
    /// The schema of the arguments.
    pub input_schema: SchemaDocument,
    /// The schema of the structured result; empty if there is none.
    pub output_schema: SchemaDocument,
}

/// Everything that one tool's contract is composed of.
#[derive(Debug, Clone, Copy)]
pub struct ContractLayers<'a> {
    /// The server's id in the configuration.
    pub server: &'a str,
    /// The tool's own name.
    pub tool: &'a str,
    /// `defaults` of the configuration.
    pub configuration: &'a Defaults,
    /// `defaults` of the server's file.
    pub server_defaults: &'a Defaults,
    /// The tool's entry.
    pub entry: &'a ToolEntry,
    /// The layer of the pinned definition; none if the tool is not pinned.
    pub offered: Option<&'a DefinitionLayer>,
}

/// A contract composed of layers, with the origin of each value.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectiveContract {
    /// The contract.
    pub contract: ToolContract,
    /// Which layer each of its values comes from.
    pub origins: ValueOrigins,
}

/// Why layers do not compose to a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayerError {
    /// The layer to correct, if it is known.
    pub layer: Option<Layer>,
    /// The member, as a dotted path inside the contract; empty for the whole.
    pub field: String,
    /// What is wrong with it.
    pub reason: String,
}

impl ContractLayers<'_> {
    /// Composes the contract.
    pub fn compose(self) -> Result<EffectiveContract, LayerError> {
        let class = self.entry.class();
        let behaviour = self.entry.behaviour();
        let action = behaviour.map(|behaviour| behaviour.action);
        let subject = BuiltInInputs { server: self.server, tool: self.tool, class, action };
        let mut merged = MergedLayers::default();
        let built_in = built_in::contract(&subject).map_err(|error| LayerError::whole(error.to_string()))?;
        let written = of_entry(&built_in);
        merged.put(built_in, Layer::BuiltIn(class));
        merged.put(written, Layer::Tool);
        if let Some(offered) = self.offered {
            merged.put(offered.members(), Layer::Definition);
        }
        merged.put(self.configuration.members(class), Layer::Configuration);
        merged.put(self.server_defaults.members(class), Layer::Server);
        merged.put(self.entry.members(), Layer::Tool);
        if self.offered.is_none() && !self.entry.has_schema() {
            return Err(LayerError {
                layer: Some(Layer::Tool),
                field: "affordance".to_owned(),
                reason: "the tool has no pinned definition to take its schemas from; `servanda init` pins it, or the entry gives `affordance` itself".to_owned(),
            });
        }
        let mut effective = merged.into_contract()?;
        if let Some(offered) = self.offered {
            // A schema that no layer changed shares the definition's memory.
            effective.contract.affordance.input_schema.unify(&offered.input_schema);
            effective.contract.affordance.output_schema.unify(&offered.output_schema);
        }
        Ok(effective)
    }
}

/// The built-in values that only repeat the entry: the names and the class.
fn of_entry(built_in: &Map<String, Value>) -> Map<String, Value> {
    let repeated =
        [("identity", "name"), ("binding", "upstream"), ("binding", "tool"), ("transactional", "side_effect_class")];
    let mut members = Map::new();
    for (section, member) in repeated {
        let Some(value) = built_in.get(section).and_then(|section| section.get(member)) else { continue };
        let section = members.entry(section).or_insert_with(|| Map::new().into());
        if let Some(section) = section.as_object_mut() {
            section.insert(member.to_owned(), value.clone());
        }
    }
    members
}

impl DefinitionLayer {
    fn members(&self) -> Map<String, Value> {
        let mut affordance = Map::new();
        affordance.insert("model_description".to_owned(), self.description.clone().into());
        if let Some(title) = &self.title {
            affordance.insert("title".to_owned(), title.clone().into());
        }
        affordance.insert("input_schema".to_owned(), (*self.input_schema).clone().into());
        affordance.insert("output_schema".to_owned(), (*self.output_schema).clone().into());
        Map::from_iter([("affordance".to_owned(), affordance.into())])
    }
}

impl LayerError {
    fn whole(reason: String) -> Self {
        Self { layer: None, field: String::new(), reason }
    }
}

impl fmt::Display for Layer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(class) => write!(formatter, "built in for {}", class.word()),
            Self::Definition => formatter.write_str("the pinned definition"),
            Self::Configuration => formatter.write_str("defaults of the configuration"),
            Self::Server => formatter.write_str("defaults of the server's file"),
            Self::Tool => formatter.write_str("the tool's entry"),
        }
    }
}

impl fmt::Display for LayerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.field.is_empty() {
            write!(formatter, "`{}`: ", self.field)?;
        }
        formatter.write_str(&self.reason)
    }
}

impl std::error::Error for LayerError {}
