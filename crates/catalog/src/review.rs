//! Compares a contract's behaviour with the tool's definition and its author's hints.
//!
//! Reports objections. No tool is held because of one: a person wrote the contract, or `init` wrote it on the dangerous side.

use servanda_contract::ToolContract;
use servanda_identity::classifier::{ClassifierOptions, DeclaredBehaviour, ReviewOutcome, classify, review as hear};

use crate::pins::Definition;

/// Reviews a contract against a definition.
pub fn review(contract: &ToolContract, definition: &Definition) -> ReviewOutcome {
    let descriptor = definition.descriptor();
    let found = classify(&descriptor, ClassifierOptions { names: true, annotations: false });
    hear(DeclaredBehaviour::from_contract(contract), descriptor.annotations, &found)
}
