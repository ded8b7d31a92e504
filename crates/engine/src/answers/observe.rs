//! Checks an answer: it must be an MCP tool result, and its structured part must keep the contract. An answer that does not is withheld
//! whole: the caller learns that the effect happened and that the answer is unusable, never the answer.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use servanda_contract::{
    FieldError, TaxonomyClass,
    json::{self, StrictError},
    schema::CompiledSchema,
};
use servanda_gates::CompiledContract;
use servanda_mcp::{RawObject, envelope, fields, shape};

use super::upstream_failure::mapped_class_in_text;

/// How deep arrays and objects may be nested in an answer.
const ANSWER_DEPTH_MAX: usize = 100;

/// An answer that may be passed on.
#[derive(Debug)]
pub(crate) struct CheckedAnswer<'a> {
    /// The result's members as the upstream wrote them, without `_meta` and `resultType`.
    pub(crate) members: RawObject<'a>,
    /// The upstream's own `_meta` members.
    pub(crate) meta: RawObject<'a>,
    /// The structured part, where it is an object.
    pub(crate) data: Option<&'a RawValue>,
    /// Success, or what the tool's own error means.
    pub(crate) class: TaxonomyClass,
    /// The tool's own error text.
    pub(crate) error_text: Option<String>,
}

/// An answer that may not be passed on.
#[derive(Debug)]
pub(crate) struct InvalidAnswer {
    pub(crate) message: String,
    pub(crate) errors: Vec<FieldError>,
}

/// Checks an answer against the contract.
pub(crate) fn observe<'a>(contract: &CompiledContract, answer: &'a Bytes) -> Result<CheckedAnswer<'a>, InvalidAnswer> {
    shape::inspect(answer).map_err(|fault| invalid_answer(fault.to_string()))?;
    let members: RawObject<'a> =
        envelope::parse_json(answer).map_err(|error| invalid_answer(format!("is not a tool result: {error}")))?;
    match members.get("resultType").map(RawValue::get) {
        None | Some("\"complete\"") => {}
        Some("\"input_required\"") => {
            return Err(invalid_answer(
                "asks for input with `input_required`, but not in a form that can be passed on".to_owned(),
            ));
        }
        // The type is not repeated in the message: it is the upstream's text, of any length, and a model would take it for the gateway's.
        Some(_) => return Err(invalid_answer("has a result type that this version does not support".to_owned())),
    }
    let content = members.get("content").ok_or_else(|| invalid_answer("has no `content`".to_owned()))?;
    if !content.get().starts_with('[') {
        return Err(invalid_answer("has a `content` that is not an array".to_owned()));
    }
    let is_error = match members.get("isError").map(RawValue::get) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(invalid_answer("has an `isError` that is neither true nor false".to_owned())),
    };
    let mut structured = members.get("structuredContent");
    let meta = match members.get("_meta") {
        None => RawObject::default(),
        Some(raw) => serde_json::from_str::<RawObject<'a>>(raw.get())
            .map_err(|_| invalid_answer("has a `_meta` that is not an object".to_owned()))?
            // Only Servanda may write members with its own prefix.
            .without_prefix(fields::meta::OWN),
    };
    // A result must not carry questions: they would reach the requester unchecked.
    let mut left_out = vec!["_meta", "resultType", fields::member::INPUT_REQUESTS, fields::member::REQUEST_STATE];
    let (class, error_text) = if is_error {
        let text = first_text(content).unwrap_or_default();
        // An error need not have the shape of a result. Structured content without the promised shape is not passed on.
        if contract.output().is_some_and(|schema| check_structured(schema, structured).is_err()) {
            structured = None;
            left_out.push("structuredContent");
        }
        (mapped_class_in_text(contract.contract(), &text).unwrap_or(TaxonomyClass::UnknownError), Some(text))
    } else {
        if let Some(schema) = contract.output() {
            check_structured(schema, structured)?;
        }
        (TaxonomyClass::Success, None)
    };
    let data = structured.filter(|raw| raw.get().starts_with('{'));
    Ok(CheckedAnswer { members: members.without(&left_out), meta, data, class, error_text })
}

fn check_structured(schema: &CompiledSchema, structured: Option<&RawValue>) -> Result<(), InvalidAnswer> {
    let raw = structured
        .ok_or_else(|| invalid_answer("has no `structuredContent`, which the contract promises".to_owned()))?;
    let value = decode(raw.get())
        .map_err(|reason| invalid_answer(format!("has a `structuredContent` that is not strict JSON: {reason}")))?;
    let mut errors = schema.judge(&value).into_all();
    let promised = promised_names(schema.effective());
    for error in &mut errors {
        keep_to_promised(error, &promised);
    }
    match errors.first() {
        None => Ok(()),
        Some(first) => {
            Err(InvalidAnswer { message: format!("breaks the contract's output schema: {}", first.message), errors })
        }
    }
}

/// All names that the output schema has for members.
fn promised_names(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut rest = vec![schema];
    while let Some(schema) = rest.pop() {
        if let Some(Value::Object(properties)) = schema.get("properties") {
            names.extend(properties.keys().cloned());
        }
        match schema {
            Value::Object(members) => rest.extend(members.values()),
            Value::Array(items) => rest.extend(items),
            _ => {}
        }
    }
    names
}

/// Replaces names of members that the contract does not know. The upstream chose them, and nothing that the upstream chose in a withheld
/// answer is passed on.
fn keep_to_promised(error: &mut FieldError, promised: &BTreeSet<String>) {
    let known = |segment: &str| {
        let name = segment.replace("~1", "/").replace("~0", "~");
        promised.contains(&name) || segment.bytes().all(|byte| byte.is_ascii_digit())
    };
    if error.pointer.split('/').skip(1).all(known) {
        return;
    }
    let segments = error.pointer.split('/').skip(1).map(|segment| if known(segment) { segment } else { "*" });
    let pointer = segments.fold(String::new(), |pointer, segment| pointer + "/" + segment);
    let field = pointer.trim_start_matches('/').replace('/', ".");
    error.message = match error.actual.as_str() {
        "an unknown field" => format!("`{field}` is a field it does not promise: {}", error.expected),
        actual => format!("`{field}` must be {}, but is {actual}", error.expected),
    };
    (error.pointer, error.field) = (pointer, field);
}

/// Decodes strict JSON, with one exception: an upstream's data may hold integers that a double cannot represent. They are passed on as they
/// were written.
fn decode(text: &str) -> Result<Value, String> {
    match json::decode(text.as_bytes(), json::JsonLimits { bytes_max: usize::MAX, depth_max: ANSWER_DEPTH_MAX }) {
        Ok(value) => Ok(value),
        Err(StrictError::IntegerTooLarge { .. }) => serde_json::from_str(text).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn invalid_answer(what: String) -> InvalidAnswer {
    InvalidAnswer { message: what, errors: Vec::new() }
}

/// The text of the first text block, shortened: what a tool says about its own failure.
fn first_text(content: &RawValue) -> Option<String> {
    const TEXT_CHARS_MAX: usize = 2_000;
    #[derive(Deserialize)]
    struct ErrorTextBlock {
        #[serde(default)]
        text: Option<String>,
    }
    let blocks: Vec<ErrorTextBlock> = serde_json::from_str(content.get()).ok()?;
    blocks.into_iter().find_map(|block| block.text).map(|text| text.chars().take(TEXT_CHARS_MAX).collect())
}

#[cfg(test)]
mod tests;
