//! Gate 2, structure: the required fields are there and no unknown ones, and the client's statements about its
//! operation agree. Absent optional fields get their defaults first, so that the same arguments are judged,
//! hashed and sent.

use serde_json::Value;
use servanda_contract::{FieldError, GateName, Refusal, TaxonomyClass, schema::Findings};

use crate::{
    ResolvedCall,
    operation::{self, Operation},
    parse::ParsedCall,
};

/// Evidence: the right fields and no others. Carries the findings that the next two gates will refuse.
#[derive(Debug)]
pub(crate) struct StructuredCall {
    pub(crate) resolved: ResolvedCall,
    pub(crate) arguments: Value,
    pub(crate) findings: Findings,
    pub(crate) operation: Operation,
}

pub(crate) fn gate(parsed: ParsedCall) -> Result<StructuredCall, Box<Refusal>> {
    let ParsedCall { resolved, mut arguments } = parsed;
    let said = operation::take_argument(&resolved.contract, &mut arguments);
    let operation = operation::judge(&resolved.contract, &resolved.proposal.keys, said).map_err(|errors| {
        let (gate, class) = (GateName::Structure, TaxonomyClass::StructuralViolation);
        refuse(&resolved, gate, class, errors, operation::hint())
    })?;
    let schema = resolved.contract.input();
    schema.apply_defaults(&mut arguments);
    let mut findings = schema.judge(&arguments);
    let errors = std::mem::take(&mut findings.structure);
    if errors.is_empty() {
        return Ok(StructuredCall { resolved, arguments, findings, operation });
    }
    let hint = match errors.iter().find_map(|error| error.did_you_mean.as_deref()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "add what is missing, leave out the rest".to_owned(),
    };
    Err(refuse(&resolved, GateName::Structure, TaxonomyClass::StructuralViolation, errors, hint))
}

/// A refusal by one of the three gates that share the schema's findings.
pub(crate) fn refuse(
    resolved: &ResolvedCall,
    gate: GateName,
    class: TaxonomyClass,
    errors: Vec<FieldError>,
    hint: String,
) -> Box<Refusal> {
    let message = match errors.as_slice() {
        [only] => only.message.clone(),
        [first, rest @ ..] => format!("{} (and {} more)", first.message, rest.len()),
        [] => class.name().to_owned(),
    };
    let refusal = Refusal::new(resolved.proposal.call_id.clone(), gate, class, message, hint);
    Box::new(refusal.with_field_errors(errors))
}
