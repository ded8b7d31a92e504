//! How long a tool may take. A new tool is not measured yet, so its timeout class says so, and the built-in limit is one that
//! real tools keep: half a minute for a read, a minute for a change, because a change that is given up too soon ends with an
//! unknown outcome. Only work that the definition calls long counts as long, because long work costs a second commit and a
//! handle.

use servanda_contract::tool::TimeoutClass;

use super::{
    evidence::{InferredBehaviour, ToolReach},
    spelling::words,
};
use crate::pins::{Definition, TaskSupport};

/// Phrases by which a definition describes any tool that works for long.
const LONG: [&str; 12] = [
    "long running",
    "longrunning",
    "asynchronous",
    "asynchronously",
    "in the background",
    "background job",
    "background task",
    "several minutes",
    "few minutes",
    "up to minutes",
    "can take minutes",
    "take minutes",
];

/// Phrases for a tool that starts something and does not wait for its end. In a read-only tool, they mean that it looks at such
/// work.
const BEGUN: [&str; 14] = [
    "async",
    "a job",
    "job id",
    "job that",
    "the job",
    "task id for",
    "returns a task",
    "poll for",
    "poll with",
    "poll until",
    "to poll",
    "polling",
    "operation id",
    "queued for",
];

/// The timeout class and limit of a tool that needs more time than the built-in limit; `None` if it does not.
pub(super) fn longer_limit(definition: &Definition, reading: &InferredBehaviour) -> Option<(TimeoutClass, u64)> {
    let as_task = definition.execution.is_some_and(|execution| execution.task_support != TaskSupport::Forbidden);
    let mutates = reading.reach != ToolReach::ReadOnly;
    let is_long = as_task || says_long(definition, mutates);
    is_long.then_some((TimeoutClass::LongRunning, TimeoutClass::LongRunning.timeout_ms_max()))
}

fn says_long(definition: &Definition, mutates: bool) -> bool {
    let told = [Some(&definition.name), definition.title.as_ref(), definition.description.as_ref()];
    let said: Vec<String> = told.into_iter().flatten().map(|text| format!(" {} ", words(text).join(" "))).collect();
    let says =
        |phrases: &[&str]| phrases.iter().any(|phrase| said.iter().any(|text| text.contains(&format!(" {phrase} "))));
    says(&LONG) || mutates && says(&BEGUN)
}
