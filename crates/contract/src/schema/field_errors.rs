//! Describes an error by expected and actual name, type and measure. The offending value itself never leaves this module. Names
//! of members do, shortened, because the caller has to correct them.

use jsonschema::{
    ValidationError,
    error::{TypeKind, ValidationErrorKind as Kind},
};
use serde_json::Value;

use super::{suggestions::ComparisonBudget, validation_cost::CostExceeded};
use crate::FieldError;

/// Names or options that are listed; the rest are only counted.
const LISTED_MAX: usize = 32;
/// Characters shown of a name or option.
const NAME_CHARS_MAX: usize = 64;

/// Characters shown of a pointer: in an object with free names, the caller chooses its length.
const POINTER_CHARS_MAX: usize = 512;

/// A missing field.
pub(super) fn missing(
    at: &str,
    property: &Value,
    error: &ValidationError<'_>,
    schema: &Value,
    allowance: &mut ComparisonBudget,
) -> FieldError {
    let name = property.as_str().unwrap_or_default();
    let declared =
        parent_schema(error, schema).and_then(|parent| parent.get("properties")?.get(name)?.get("type").cloned());
    let expected = match declared {
        Some(Value::String(declared)) => format!("{declared} (required)"),
        _ => "a value (required)".to_owned(),
    };
    let mut finding = field_error(&join(at, name), expected, "missing");
    finding.message = format!("`{}` is missing: {}", finding.field, finding.expected);
    // A caller that wrote `invoiceId` for `invoice_id` made one mistake, not two.
    let written = error.instance().as_object().into_iter().flat_map(|object| object.keys()).map(String::as_str);
    if let Some(written) = allowance.nearest(name, written) {
        finding.message = format!("{}; `{}` was sent instead", finding.message, shown(&written));
    }
    finding
}

/// A field that the schema does not declare.
pub(super) fn unknown(at: &str, name: &str, known: &[String], allowance: &mut ComparisonBudget) -> FieldError {
    let names = || known.iter().map(String::as_str);
    let expected = if known.is_empty() { "no fields".to_owned() } else { format!("only {}", listed(names())) };
    let mut finding = field_error(&join(at, &shown(name)), expected, "an unknown field");
    finding.message = format!("`{}` is not a field of this tool: {}", finding.field, finding.expected);
    finding.did_you_mean = allowance.nearest(name, names());
    finding
}

/// A field that is declared, but does not fit the other fields that were sent.
pub(super) fn misplaced(at: &str, name: &str) -> FieldError {
    let expected = "fields of one alternative".to_owned();
    let mut finding = field_error(&join(at, &shown(name)), expected, "a field of another alternative");
    finding.message = format!("`{}` does not go with the other fields sent", finding.field);
    finding
}

/// The value fits none of several alternatives, and none of them is close enough to describe.
pub(super) fn no_alternative(at: &str, alternatives: usize) -> FieldError {
    field_error(at, format!("one of {alternatives} alternatives"), "none of them")
}

/// If every alternative is of another type, only the types are worth telling.
pub(super) fn no_such_type(
    context: &[Vec<ValidationError<'static>>],
    at: &str,
    error: &ValidationError<'_>,
    schema: &Value,
) -> Option<FieldError> {
    let mut expected: Vec<String> = Vec::new();
    for errors in context {
        let mismatch = errors.iter().find_map(|error| match error.kind() {
            Kind::Type { kind } if error.instance_path().as_str() == at => Some(types(kind)),
            _ => None,
        });
        let mismatch = mismatch?;
        if !expected.contains(&mismatch) {
            expected.push(mismatch);
        }
    }
    let finding =
        (!expected.is_empty()).then(|| field_error(at, expected.join(" or "), type_name(error.instance())))?;
    Some(leave_out(finding, error, schema))
}

/// The number of errors beyond the limit.
pub(super) fn omitted(count: usize) -> FieldError {
    let mut finding = field_error("", "no more errors than are listed".to_owned(), &format!("{count} more"));
    finding.message = format!("{count} more errors of this gate are not listed");
    finding
}

/// A value that is not validated, because that would take too long.
pub(super) fn too_costly(beyond: CostExceeded) -> FieldError {
    let (expected, actual, message) = match beyond {
        CostExceeded::Depth(depth_max) => (
            format!("at most {depth_max} levels deep"),
            "deeper".to_owned(),
            format!("nested deeper than {depth_max} levels, which this recursive schema allows at most"),
        ),
        CostExceeded::Steps => (
            "less at once".to_owned(),
            "more than can be checked".to_owned(),
            "too many values for a schema of so many alternatives: send less at once".to_owned(),
        ),
    };
    FieldError { message, ..field_error("", expected, &actual) }
}

/// A value that is not validated, because the schema cannot be compiled again. That would be a defect of ours.
pub(super) fn unusable() -> FieldError {
    let message = "the schema cannot be used now, so no value is taken".to_owned();
    FieldError { message, ..field_error("", "a schema that can be used".to_owned(), "none") }
}

/// Describes an error of one value.
pub(super) fn describe(
    at: &str,
    error: &ValidationError<'_>,
    schema: &Value,
    allowance: &mut ComparisonBudget,
) -> FieldError {
    let (kind, value) = (error.kind(), error.instance().as_ref());
    let (expected, actual) = expected_and_actual(kind, value);
    let mut finding = field_error(at, expected, &actual);
    if let (Kind::Enum { options }, Value::String(text)) = (kind, value) {
        let options = options.as_array().into_iter().flatten().filter_map(Value::as_str);
        finding.did_you_mean = allowance.nearest(text, options);
    }
    leave_out(finding, error, schema)
}

/// Handles `null` for an optional field: models write it for "none", and should leave the field out.
fn leave_out(mut finding: FieldError, error: &ValidationError<'_>, schema: &Value) -> FieldError {
    if error.instance().is_null() && is_optional(error, schema) {
        finding.message = format!("`{}` is null: leave it out, or send {}", finding.field, finding.expected);
        finding.expected = format!("{}; if there is none, leave it out", finding.expected);
    }
    finding
}

/// Whether the value at an error belongs to an optional field. If the schema does not say so in one place, the answer is no.
fn is_optional(error: &ValidationError<'_>, schema: &Value) -> bool {
    let at = error.schema_path().as_str();
    let Some((parent, field)) = at.rsplit_once('/').and_then(|(of_value, _)| of_value.rsplit_once("/properties/"))
    else {
        return false;
    };
    let name = error.instance_path().as_str().rsplit_once('/').map(|(_, name)| name);
    let Some(parent) = schema.pointer(parent).filter(|_| name == Some(field)) else { return false };
    let required = parent.get("required").and_then(Value::as_array);
    let name = dotted(field);
    !required.is_some_and(|required| required.iter().any(|required| required.as_str() == Some(name.as_str())))
}

fn expected_and_actual(kind: &Kind, value: &Value) -> (String, String) {
    let number = |relation: &str, limit: &Value| (format!("a number {relation} {limit}"), "another number".to_owned());
    let measure = |relation: &str, limit: u64, unit: &str, actual: usize| {
        (format!("{relation} {limit} {unit}"), format!("{actual} {unit}"))
    };
    let characters = value.as_str().map_or(0, |text| text.chars().count());
    let items = value.as_array().map_or(0, Vec::len);
    let members = value.as_object().map_or(0, serde_json::Map::len);
    let other = || format!("another {}", type_name(value));
    let words = |expected: &str, actual: &str| (expected.to_owned(), actual.to_owned());
    match kind {
        Kind::Type { kind } => (types(kind), type_name(value).to_owned()),
        Kind::Minimum { limit } => number(">=", limit),
        Kind::Maximum { limit } => number("<=", limit),
        Kind::ExclusiveMinimum { limit } => number(">", limit),
        Kind::ExclusiveMaximum { limit } => number("<", limit),
        Kind::MultipleOf { multiple_of } => (format!("a multiple of {multiple_of}"), "another number".to_owned()),
        Kind::MinLength { limit } => measure("at least", *limit, "characters", characters),
        Kind::MaxLength { limit } => measure("at most", *limit, "characters", characters),
        Kind::MinItems { limit } => measure("at least", *limit, "items", items),
        Kind::MaxItems { limit } => measure("at most", *limit, "items", items),
        Kind::AdditionalItems { limit } => {
            measure("at most", u64::try_from(*limit).unwrap_or(u64::MAX), "items", items)
        }
        Kind::MinProperties { limit } => measure("at least", *limit, "members", members),
        Kind::MaxProperties { limit } => measure("at most", *limit, "members", members),
        Kind::UniqueItems => words("items that are all different", "a repeated item"),
        Kind::Contains => words("an item of the contained kind", "none"),
        Kind::Pattern { pattern } => (format!("text matching `{pattern}`"), "other text".to_owned()),
        Kind::Format { format } => (formatted(format), "other text".to_owned()),
        Kind::ContentEncoding { content_encoding } => {
            (format!("text encoded as `{content_encoding}`"), "other text".to_owned())
        }
        Kind::ContentMediaType { content_media_type } => {
            (format!("text of type `{content_media_type}`"), "other text".to_owned())
        }
        Kind::Enum { options } => (format!("one of {}", options_listed(options)), other()),
        Kind::Constant { expected_value } => (format!("exactly {}", shown(&expected_value.to_string())), other()),
        Kind::Not { .. } => words("a value outside the excluded kind", "a value of it"),
        Kind::OneOfMultipleValid { .. } => words("exactly one alternative", "a value that fits more than one"),
        Kind::UnevaluatedItems { .. } => ("no further items".to_owned(), format!("{items} items")),
        Kind::FalseSchema => ("nothing here".to_owned(), type_name(value).to_owned()),
        Kind::PropertyNames { error } => {
            let (expected, _) = expected_and_actual(error.kind(), error.instance());
            (format!("field names that are {expected}"), "another name".to_owned())
        }
        unforeseen => (format!("a value that satisfies `{}`", unforeseen.keyword()), type_name(value).to_owned()),
    }
}

/// A format with an example, because its name alone does not say what is missing, which is most often the zone of a time.
fn formatted(format: &str) -> String {
    let example = match format {
        "date-time" => "2026-11-20T09:30:00Z",
        "time" => "09:30:00Z",
        "date" => "2026-11-20",
        "duration" => "PT30M",
        "email" => "ada@example.com",
        "uri" => "https://example.com/a",
        "uuid" => "123e4567-e89b-12d3-a456-426614174000",
        _ => return format!("text in the format `{format}`"),
    };
    // Short enough to reach an agent uncut.
    if matches!(format, "date-time" | "time") {
        return format!("a {format} with its zone, e.g. `{example}`");
    }
    format!("text in the format `{format}`, e.g. `{example}`")
}

fn field_error(pointer: &str, expected: String, actual: &str) -> FieldError {
    let pointer: String = pointer.chars().take(POINTER_CHARS_MAX).collect();
    let field = if pointer.is_empty() { "arguments".to_owned() } else { dotted(&pointer) };
    let message = format!("`{field}` must be {expected}, but is {actual}");
    FieldError { field, pointer, expected, actual: actual.to_owned(), message, did_you_mean: None }
}

/// The schema whose keyword failed.
pub(super) fn parent_schema<'s>(error: &ValidationError<'_>, schema: &'s Value) -> Option<&'s Value> {
    let keyword_at = error.schema_path().as_str();
    schema.pointer(keyword_at.rsplit_once('/')?.0)
}

fn types(kind: &TypeKind) -> String {
    match kind {
        TypeKind::Single(single) => single.to_string(),
        TypeKind::Multiple(several) => several.iter().map(|kind| kind.to_string()).collect::<Vec<_>>().join(" or "),
    }
}

/// The word of JSON Schema for a value's type.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn options_listed(options: &Value) -> String {
    let options: Vec<String> = options.as_array().into_iter().flatten().map(ToString::to_string).collect();
    listed(options.iter().map(String::as_str))
}

fn listed<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(LISTED_MAX);
    let text = names.take(LISTED_MAX).map(shown).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

fn shown(name: &str) -> String {
    name.chars().take(NAME_CHARS_MAX).collect()
}

fn join(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn dotted(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".").replace("~1", "/").replace("~0", "~")
}
