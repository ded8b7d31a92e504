//! Whether a definition says that its tool works for long. Only what it says counts: a tool that is uncertain is not slow, and
//! long work costs a second commit and a tool to fetch results with.

use servanda_contract::tool::TimeoutClass;

use super::spelling::words;
use crate::pins::{Definition, TaskSupport};

/// What a definition says of any tool that works for long.
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

/// What it says of a tool that begins something and does not wait for its end. Of a look it says that the look is at such work.
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

/// The timeout class of a tool: the ordinary one unless its definition says that it takes long.
pub(super) fn timeout_class(definition: &Definition, mutates: bool) -> TimeoutClass {
    let as_task = definition.execution.is_some_and(|execution| execution.task_support != TaskSupport::Forbidden);
    if as_task || says_long(definition, mutates) { TimeoutClass::LongRunning } else { TimeoutClass::Standard }
}

fn says_long(definition: &Definition, mutates: bool) -> bool {
    let told = [Some(&definition.name), definition.title.as_ref(), definition.description.as_ref()];
    let said: Vec<String> = told.into_iter().flatten().map(|text| format!(" {} ", words(text).join(" "))).collect();
    let says =
        |phrases: &[&str]| phrases.iter().any(|phrase| said.iter().any(|text| text.contains(&format!(" {phrase} "))));
    says(&LONG) || mutates && says(&BEGUN)
}
