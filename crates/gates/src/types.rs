//! Gate 3, types: every value has the type its schema names.

use serde_json::Value;
use servanda_contract::{GateName, Refusal, TaxonomyClass, schema::Findings};

use crate::{
    Resolved,
    operation::Operation,
    structure::{self, Structured},
};

/// Evidence: the right types. Carries what the next gate will refuse.
#[derive(Debug)]
pub(crate) struct Typed {
    pub(crate) resolved: Resolved,
    pub(crate) arguments: Value,
    pub(crate) findings: Findings,
    pub(crate) operation: Operation,
}

pub(crate) fn gate(structured: Structured) -> Result<Typed, Box<Refusal>> {
    let Structured { resolved, arguments, mut findings, operation } = structured;
    let errors = std::mem::take(&mut findings.types);
    if errors.is_empty() {
        return Ok(Typed { resolved, arguments, findings, operation });
    }
    // Where everything that is wrong is a `null`, the type is not the mistake.
    let hint = if errors.iter().all(|error| error.actual == "null") {
        "leave out what has no value: `null` is not \"none\" here"
    } else {
        "send each value in its JSON type"
    };
    let hint = hint.to_owned();
    Err(structure::refuse(&resolved, GateName::Types, TaxonomyClass::TypeMismatch, errors, hint))
}
