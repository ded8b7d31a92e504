//! A tool: what it says about itself, how it runs, and how its outcome becomes a result.
//!
//! Responsible for the shape every tool shares. The tools themselves live in `catalogue`, each
//! definition next to its implementation. Arguments are decoded strictly here, because a real server
//! validates its own input; it does not trust a gateway to have done so.

use std::fmt::Display;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::SampleError;
use crate::company::Company;
use crate::dialect::Dialect;
use crate::server::Server;

pub(crate) type Arguments = Map<String, Value>;
pub(crate) type Outcome = Result<Value, Failure>;
/// A tool that talks to the client itself: it reports progress, or it misbehaves.
pub(crate) type Script = fn(&Server, &Call) -> Result<(), SampleError>;

pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) input: fn() -> Value,
    /// Absent only on tools that never give an honest answer.
    pub(crate) output: Option<fn() -> Value>,
    pub(crate) hints: Hints,
    pub(crate) run: Run,
}

#[derive(Clone, Copy)]
pub(crate) enum Run {
    /// Answers at once from the company's records.
    AtOnce(fn(&Company, Arguments) -> Outcome),
    /// Speaks for itself, before the next message is read.
    Inline(Script),
    /// Speaks for itself, while other calls are served.
    Background(Script),
}

/// The annotations a tool carries, named by what it does to the world.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hints {
    /// No annotations at all, as on many real tools.
    Absent,
    Reads,
    /// Adds a record; asking twice adds two.
    Adds,
    /// Replaces or removes a record; asking twice changes nothing more.
    Replaces,
    /// Reaches outside the company and cannot be taken back.
    Commits,
}

/// One `tools/call`, as far as a script needs to know it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) id: Value,
    pub(crate) dialect: Dialect,
    pub(crate) arguments: Arguments,
    pub(crate) progress_token: Option<Value>,
}

/// Why a tool did not do what it was asked; the text is what the agent reads.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("invalid arguments: {0}")]
    Arguments(#[from] serde_json::Error),
    #[error("{0}")]
    Declined(String),
    #[error("the company database failed: {0}")]
    Database(#[from] rusqlite::Error),
}

impl Failure {
    pub(crate) fn declined(text: impl Into<String>) -> Self {
        Self::Declined(text.into())
    }
}

impl Tool {
    /// The tool as `tools/list` shows it.
    pub(crate) fn describe(&self) -> Value {
        let mut description = Map::new();
        description.insert("name".into(), self.name.into());
        description.insert("title".into(), self.title.into());
        description.insert("description".into(), self.description.into());
        description.insert("inputSchema".into(), (self.input)());
        if let Some(output) = self.output {
            description.insert("outputSchema".into(), output());
        }
        if let Some(annotations) = self.hints.annotations() {
            description.insert("annotations".into(), annotations);
        }
        Value::Object(description)
    }
}

impl Hints {
    fn annotations(self) -> Option<Value> {
        let (read_only, destructive, idempotent, open_world) = match self {
            Self::Absent => return None,
            Self::Reads => (true, false, true, false),
            Self::Adds => (false, false, false, false),
            Self::Replaces => (false, true, true, false),
            Self::Commits => (false, true, false, true),
        };
        Some(json!({
            "readOnlyHint": read_only,
            "destructiveHint": destructive,
            "idempotentHint": idempotent,
            "openWorldHint": open_world,
        }))
    }
}

/// Turns arguments into the tool's own type, refusing what the type does not know.
pub(crate) fn decode<T: DeserializeOwned>(arguments: Arguments) -> Result<T, Failure> {
    Ok(serde_json::from_value(Value::Object(arguments))?)
}

/// Refuses a value outside a list the schema names.
pub(crate) fn check_one_of(name: &str, value: &str, allowed: &[&str]) -> Result<(), Failure> {
    if allowed.contains(&value) {
        return Ok(());
    }
    let text = format!("`{name}` must be one of {}", allowed.join(", "));
    Err(Failure::declined(text))
}

/// Refuses a number outside the range the schema names.
pub(crate) fn check_between<T>(name: &str, value: T, min: T, max: T) -> Result<(), Failure>
where
    T: PartialOrd + Display + Copy,
{
    if min <= value && value <= max {
        return Ok(());
    }
    let text = format!("`{name}` must be between {min} and {max}");
    Err(Failure::declined(text))
}

/// Refuses a text that is empty or has more characters than the schema allows.
pub(crate) fn check_length(name: &str, text: &str, length_max: usize) -> Result<(), Failure> {
    check_between(&format!("length of {name}"), text.chars().count(), 1, length_max)
}

/// The body of a `tools/call` result: structured content, and the same JSON as text for older clients.
pub(crate) fn result_of(outcome: Outcome) -> Value {
    match outcome {
        Ok(content) => json!({
            "content": [{ "type": "text", "text": content.to_string() }],
            "structuredContent": content,
            "isError": false,
        }),
        Err(failure) => json!({
            "content": [{ "type": "text", "text": failure.to_string() }],
            "isError": true,
        }),
    }
}
