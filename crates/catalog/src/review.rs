//! A contract's word on what its tool does, held against the tool's definition and its author's hints.
//!
//! Says who objects. Nothing is held back for it: a contract is a person's word, or was written on the dangerous side.

use servanda_contract::ToolContract;
use servanda_identity::classifier::{Declaration, Descriptor, Options, Review, classify, review as hear};

use crate::pins::Definition;

/// Hears what a definition says about a contract; without one, what the contract's own text says.
pub fn review(contract: &ToolContract, definition: Option<&Definition>) -> Review {
    let descriptor = definition.map_or_else(|| own_text(contract), Definition::descriptor);
    let found = classify(&descriptor, Options { names: true, annotations: false });
    let declared = Declaration::new(contract.mutability(), contract.behaviour.as_ref());
    hear(declared, descriptor.annotations, &found)
}

fn own_text(contract: &ToolContract) -> Descriptor {
    let affordance = &contract.affordance;
    Descriptor {
        name: contract.binding.tool.clone(),
        title: affordance.title.clone(),
        description: Some(affordance.model_description.clone()),
        input_schema: Some(affordance.input_schema.clone()),
        output_schema: Some(affordance.output_schema.clone()).filter(|schema| !schema.is_empty()),
        annotations: None,
    }
}
