//! How long a tool may take. A look has the ordinary time unless its definition says that it works for long: long work costs a
//! second commit. A change that leaves the house, or of which little is known, has more: a change that is given up too soon ends
//! with nobody knowing whether it was made.

use servanda_contract::tool::TimeoutClass;

use super::{
    evidence::{Reach, Reading},
    spelling::words,
};
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

/// The timeout class of a tool.
pub(super) fn timeout_class(definition: &Definition, reading: &Reading) -> TimeoutClass {
    let as_task = definition.execution.is_some_and(|execution| execution.task_support != TaskSupport::Forbidden);
    let mutates = reading.reach != Reach::ReadOnly;
    let patient = mutates && (reading.reach > Reach::Internal || !reading.certain);
    if as_task || patient || says_long(definition, mutates) {
        TimeoutClass::LongRunning
    } else {
        TimeoutClass::Standard
    }
}

fn says_long(definition: &Definition, mutates: bool) -> bool {
    let told = [Some(&definition.name), definition.title.as_ref(), definition.description.as_ref()];
    let said: Vec<String> = told.into_iter().flatten().map(|text| format!(" {} ", words(text).join(" "))).collect();
    let says =
        |phrases: &[&str]| phrases.iter().any(|phrase| said.iter().any(|text| text.contains(&format!(" {phrase} "))));
    says(&LONG) || mutates && says(&BEGUN)
}
