//! A contract's word on what its tool does, held against the tool's definition and its author's hints.
//!
//! Says who objects. Nothing is held back for it: a contract is a person's word, or was written on the dangerous side.

use servanda_contract::ToolContract;
use servanda_identity::classifier::{Declaration, Options, Review, classify, review as hear};

use crate::pins::Definition;

/// Hears what a definition says about a contract.
pub fn review(contract: &ToolContract, definition: &Definition) -> Review {
    let descriptor = definition.descriptor();
    let found = classify(&descriptor, Options { names: true, annotations: false });
    hear(Declaration::of(contract), descriptor.annotations, &found)
}
