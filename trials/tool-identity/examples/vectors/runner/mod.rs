//! Runs vectors: reads their inputs, asks the layers, compares the answers. `tool_identity` has the rules; this module has only
//! the vectors' format and the defaults of its fixtures.

mod approvals;
mod calls;
mod exposure;
mod fixtures;
mod lookups;
mod names;
mod report;

use serde_json::{Map, Value, json};
use tool_identity::{Fault, IdentityError};

pub(crate) use report::Report;

/// The layers' answer to a vector.
pub(crate) enum Answer {
    /// A value, or that it was refused.
    Given(Result<Value, IdentityError>),
    /// No answer, by decision.
    Declined(&'static str),
    /// The format has no such function.
    UnknownFunction,
}

/// Runs every vector of a file; `None` if it has no list of them.
pub(crate) fn run(file: &Value) -> Option<Report> {
    let mut report = Report::default();
    for vector in file.get("vectors")?.as_array()? {
        let function = vector.get("function").and_then(Value::as_str).unwrap_or_default();
        let input = vector.get("input").unwrap_or(&Value::Null);
        report.add(vector, check(vector, ask(function, input)));
    }
    Some(report)
}

fn ask(function: &str, input: &Value) -> Answer {
    let groups = [names::answer, lookups::answer, calls::answer, approvals::answer, exposure::answer];
    groups.into_iter().find_map(|answer| answer(function, input)).unwrap_or(Answer::UnknownFunction)
}

/// Why the vector failed, if it did.
fn check(vector: &Value, answer: Answer) -> Result<(), String> {
    let (expected, got) = match (vector.get("expected"), vector.get("error"), answer) {
        (_, _, Answer::UnknownFunction) => return Err("unknown function".to_owned()),
        (_, _, Answer::Declined(why)) => return Err(format!("declined: {why}")),
        (Some(expected), None, Answer::Given(got)) => {
            (expected.clone(), got.unwrap_or_else(|error| json!({ "error": error_of(&error) })))
        }
        (None, Some(error), Answer::Given(got)) => (
            json!({ "error": error }),
            got.map_or_else(|error| json!({ "error": error_of(&error) }), |value| json!({ "instead": value })),
        ),
        _ => return Err("a vector has either `expected` or `error`".to_owned()),
    };
    if expected == got { Ok(()) } else { Err(format!("expected {expected}\n      got      {got}")) }
}

/// An error as the vectors write it.
pub(crate) fn error_of(error: &IdentityError) -> Value {
    let kind = match error.fault() {
        Fault::Configuration => "UserError",
        Fault::Call => "ModelBehaviorError",
    };
    let mut written = Map::from_iter([("type".to_owned(), json!(kind)), ("code".to_owned(), json!(error.code()))]);
    if let Some(subject) = error.subject() {
        written.insert("subject".to_owned(), json!(subject));
    }
    if let IdentityError::DuplicateServerToolNames { names } = error {
        written.insert("names".to_owned(), json!(names));
        written.insert("suggests_prefixing".to_owned(), json!(true));
    }
    Value::Object(written)
}
