//! A tool: what it says about itself and how it runs.
//!
//! Responsible for the shape every tool shares. The tools themselves live in `catalogue`, each
//! definition next to its implementation.

use serde_json::{Map, Value, json};

use crate::SampleError;
use crate::arguments::Arguments;
use crate::call::SampleCall;
use crate::company::Company;
use crate::failure::SampleToolOutcome;
use crate::session::SampleSession;

/// A tool that sends messages to the client itself: it reports progress, or it misbehaves.
pub(crate) type ToolScript = fn(&SampleSession, &SampleCall) -> Result<(), SampleError>;

pub(crate) struct SampleTool {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) description: &'static str,
    pub(crate) input: fn() -> Value,
    /// Absent only for tools that never give an honest answer.
    pub(crate) output: Option<fn() -> Value>,
    pub(crate) hints: Hints,
    pub(crate) run: ToolRunner,
}

#[derive(Clone, Copy)]
pub(crate) enum ToolRunner {
    /// Answers at once from the company's records.
    AtOnce(fn(&Company, Arguments) -> SampleToolOutcome),
    /// Sends its own messages, before the next message is read.
    Inline(ToolScript),
    /// Sends its own messages, while other calls are served.
    Background(ToolScript),
}

/// The annotations of a tool, named by what it does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Hints {
    /// No annotations at all, as on many real tools.
    Absent,
    Reads,
    /// Adds a record; two calls add two.
    Adds,
    /// Replaces or removes a record; a second call changes nothing more.
    Replaces,
    /// Has effects outside the company that cannot be undone.
    Commits,
}

impl SampleTool {
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
