//! Gate 4, bounds: every value is within its limits: range, length, pattern, format, enumeration, count.

use serde_json::Value;
use servanda_contract::{GateName, Refusal, TaxonomyClass};

use crate::{ResolvedCall, operation::Operation, structure, types::TypedCall};

/// Evidence: the arguments satisfy the whole schema.
#[derive(Debug)]
pub(crate) struct BoundedCall {
    pub(crate) resolved: ResolvedCall,
    pub(crate) arguments: Value,
    pub(crate) operation: Operation,
}

pub(crate) fn gate(typed: TypedCall) -> Result<BoundedCall, Box<Refusal>> {
    let TypedCall { resolved, arguments, findings, operation } = typed;
    let errors = findings.bounds;
    if errors.is_empty() {
        return Ok(BoundedCall { resolved, arguments, operation });
    }
    let hint = match errors.iter().find_map(|error| error.did_you_mean.as_deref()) {
        Some(option) => format!("did you mean `{option}`?"),
        None => "choose values within `expected`".to_owned(),
    };
    Err(structure::refuse(&resolved, GateName::Bounds, TaxonomyClass::OutOfBounds, errors, hint))
}
