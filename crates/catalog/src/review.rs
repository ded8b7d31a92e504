//! A contract's word on what its tool does, held against the tool's definition and its author's hints.
//!
//! Says who objects. Nothing is held back for it: a contract is a person's word, or was written on the dangerous side.

use servanda_contract::ToolContract;
use servanda_identity::classifier::{ClassifierOptions, DeclaredBehaviour, ReviewOutcome, classify, review as hear};

use crate::pins::Definition;

/// Hears what a definition says about a contract.
pub fn review(contract: &ToolContract, definition: &Definition) -> ReviewOutcome {
    let descriptor = definition.descriptor();
    let found = classify(&descriptor, ClassifierOptions { names: true, annotations: false });
    hear(DeclaredBehaviour::from_contract(contract), descriptor.annotations, &found)
}
