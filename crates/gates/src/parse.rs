//! Gate 1, parse: the arguments are strict JSON and an object. Looser text is not examined further.

use serde_json::{Map, Value};
use servanda_contract::{
    FieldError, GateName, Refusal, TaxonomyClass,
    json::{self, JsonLimits, StrictError},
};

use crate::ResolvedCall;

/// The limits of the gates.
#[derive(Debug, Clone, Copy)]
pub struct GateLimits {
    /// The most bytes of arguments.
    pub arguments_bytes_max: usize,
    /// The deepest nesting of arrays and objects.
    pub arguments_depth_max: usize,
}

/// Evidence: strict JSON, an object.
#[derive(Debug)]
pub(crate) struct ParsedCall {
    pub(crate) resolved: ResolvedCall,
    pub(crate) arguments: Value,
}

pub(crate) fn gate(resolved: ResolvedCall, limits: GateLimits) -> Result<ParsedCall, Box<Refusal>> {
    let proposal = &resolved.proposal;
    // Absent arguments are an empty object, as the protocol defines it.
    if proposal.arguments.is_empty() {
        return Ok(ParsedCall { resolved, arguments: Value::Object(Map::new()) });
    }
    let limits = JsonLimits { bytes_max: limits.arguments_bytes_max, depth_max: limits.arguments_depth_max };
    match json::decode(&proposal.arguments, limits) {
        Ok(arguments @ Value::Object(_)) => Ok(ParsedCall { resolved, arguments }),
        Ok(other) => Err(not_an_object(&resolved, &other)),
        Err(error) => Err(refuse(&resolved, &error)),
    }
}

fn refuse(resolved: &ResolvedCall, error: &StrictError) -> Box<Refusal> {
    let finding = whole("strict JSON within the limits", "other text", error.to_string());
    Box::new(
        Refusal::new(
            resolved.proposal.call_id.clone(),
            GateName::Parse,
            TaxonomyClass::SyntacticParseFail,
            format!("the arguments cannot be taken: {error}"),
            error.hint().to_owned(),
        )
        .with_field_errors(vec![finding]),
    )
}

fn not_an_object(resolved: &ResolvedCall, value: &Value) -> Box<Refusal> {
    let actual = match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    let message = format!("the arguments must be an object, but are {actual}");
    let hint = match value {
        Value::String(_) => "send the object itself, not its JSON text inside a string",
        _ => "send `arguments` as one JSON object with the tool's parameters as members",
    };
    let refusal = Refusal::new(
        resolved.proposal.call_id.clone(),
        GateName::Parse,
        TaxonomyClass::SyntacticParseFail,
        message.clone(),
        hint.to_owned(),
    );
    Box::new(refusal.with_field_errors(vec![whole("an object", actual, message)]))
}

fn whole(expected: &str, actual: &str, message: String) -> FieldError {
    FieldError {
        field: "arguments".to_owned(),
        pointer: String::new(),
        expected: expected.to_owned(),
        actual: actual.to_owned(),
        message,
        did_you_mean: None,
    }
}
