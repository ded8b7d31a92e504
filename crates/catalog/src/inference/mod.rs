//! What a contract for a discovered tool should say, inferred from its definition alone.
//!
//! The classifier finds what a tool does. An author's hint can make the result more dangerous; it can make it harmless only if
//! nothing in the definition contradicts that. An uncertain result is classed as more dangerous. Every conclusion has a reason,
//! because a person must be able to disagree. The result is a proposal: admission judges it like any other contract.

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
    /// The tool's entry in the server's file.
    pub entry: ToolEntry,
    /// The whole contract that the entry gives without the operator's defaults.
    pub contract: ToolContract,
    /// What the tool seems to do, and why.
    pub reading: InferredBehaviour,
    /// What was changed or left out to make the definition enforceable.
    pub notes: Vec<String>,
}

/// Infers a contract for a tool of `upstream`.
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
