//! Gate 3, types: every value has the type its schema names.

use serde_json::Value;
use servanda_contract::{GateName, Refusal, TaxonomyClass, schema::Findings};

use crate::{
    ResolvedCall,
    operation::Operation,
    structure::{self, StructuredCall},
};

/// Evidence: the right types. Carries the findings that the next gate will refuse.
#[derive(Debug)]
pub(crate) struct TypedCall {
    pub(crate) resolved: ResolvedCall,
    pub(crate) arguments: Value,
    pub(crate) findings: Findings,
    pub(crate) operation: Operation,
}

pub(crate) fn gate(structured: StructuredCall) -> Result<TypedCall, Box<Refusal>> {
    let StructuredCall { resolved, arguments, mut findings, operation } = structured;
    let errors = std::mem::take(&mut findings.types);
    if errors.is_empty() {
        return Ok(TypedCall { resolved, arguments, findings, operation });
    }
    // If every wrong value is a `null`, the type is not the mistake.
    let hint = if errors.iter().all(|error| error.actual == "null") {
        "leave out what has no value: `null` is not \"none\" here"
    } else {
        "send each value in its JSON type"
    };
    let hint = hint.to_owned();
    Err(structure::refuse(&resolved, GateName::Types, TaxonomyClass::TypeMismatch, errors, hint))
}
