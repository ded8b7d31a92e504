//! What a contract for a discovered tool should say, worked out from its definition alone.
//!
//! What a tool does is the classifier's to find; an author's hint makes it more dangerous, and makes it harmless only where nothing in
//! the definition speaks against that. What stays uncertain is classed as more dangerous. Every conclusion comes with its reason, because a person has to be able to disagree. The
//! result is a proposal: admission judges it like any other contract.

mod assembly;
mod duration;
mod evidence;
mod pinned_definition;
mod programs;
mod secrets;
mod spelling;
#[cfg(test)]
mod tests;

use servanda_contract::{
    ToolContract,
    layers::{ContractLayers, Defaults, LayerError, ToolEntry},
};

pub use evidence::{InferredBehaviour, ToolReach};
pub use pinned_definition::definition_layer;

use crate::pins::Definition;

/// A proposed contract and how it came about.
#[derive(Debug, Clone)]
pub struct InferredContract {
    /// What the server's file says about the tool.
    pub entry: ToolEntry,
    /// The whole contract that the entry makes without any defaults of the operator's.
    pub contract: ToolContract,
    /// What the tool seems to do, and why.
    pub reading: InferredBehaviour,
    /// What had to be changed or left out to make the definition enforceable.
    pub notes: Vec<String>,
}

/// Works out a contract for a tool of `upstream`.
pub fn infer(upstream: &str, definition: &Definition) -> Result<InferredContract, LayerError> {
    let reading = evidence::read(definition);
    let (offered, mut notes) = definition_layer(definition);
    let entry = assembly::entry(definition, &offered, &reading, &mut notes);
    let none = Defaults::default();
    let layers = ContractLayers {
        server: upstream,
        tool: &definition.name,
        configuration: &none,
        server_defaults: &none,
        entry: &entry,
        offered: Some(&offered),
    };
    let contract = layers.compose()?.contract;
    Ok(InferredContract { entry, contract, reading, notes })
}
