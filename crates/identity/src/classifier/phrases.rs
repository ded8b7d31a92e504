//! Phrases that mean more than their words: "read-only", "cannot be undone", "returns the updated …". This module only finds
//! them; it weighs nothing.

use std::{collections::HashMap, sync::LazyLock};

/// A phrase: its name, and its variants. A `*` stands for one or two words.
const PHRASES: [(&str, &[&str]); 19] = [
    (
        "not read-only",
        &[
            "not read-only",
            "not readonly",
            "non read-only",
            "disabled in read-only",
            "not available in read-only",
            "readonly false",
        ],
    ),
    (
        "read-only",
        &["read-only", "readonly", "read only", "readonlyhint", "non-destructive", "nondestructive", "non-mutating"],
    ),
    (
        "changes nothing",
        &[
            "not modify",
            "not change",
            "not alter",
            "not create",
            "not write",
            "not mutate",
            "without modifying",
            "without changing",
            "without making",
            "without altering",
            "no side effects",
            "no changes",
            "not affect",
            "without applying",
            "without executing",
            "without running",
            "without saving",
            "without creating",
            "nothing is",
            "no modification",
            "no modifications",
            "not execute",
            "not persist",
            "not make changes",
            "without side",
            "only reads",
            "doesn't modify",
            "doesn't change",
            "never modifies",
            "never writes",
            "not perform",
            "doesn't create",
            "never changes",
            "change anything",
            "not obtain",
        ],
    ),
    (
        "beyond recall",
        &[
            "cannot be undone",
            "can't be undone",
            "irreversible",
            "irreversibly",
            "permanently",
            "permanent",
            "not reversible",
            "cannot be recovered",
            "cannot be reversed",
            "destructive",
        ],
    ),
    (
        "careful",
        &[
            "caution",
            "careful",
            "warning",
            "dangerous",
            "beware",
            "carefully",
            "confirm with * user",
            "user confirmation",
            "explicit confirmation",
            "explicitly asks",
            "explicit user",
        ],
    ),
    ("returns", &["returns", "return", "returned"]),
    (
        "returns what it made",
        &[
            "returns * created",
            "return * created",
            "returns * updated",
            "return * updated",
            "newly created",
            "returns * new",
            "was created",
            "were created",
            "successfully created",
            "successfully deleted",
            "confirmation message",
            "status message",
            "success message",
            "success status",
            "indicating success",
        ],
    ),
    (
        "side effects",
        &[
            "side effects",
            "side effect",
            "this will",
            "will be created",
            "will be deleted",
            "will be updated",
            "will be overwritten",
            "will overwrite",
            "takes effect",
            "will be removed",
            "will be sent",
            "will replace",
            "will create",
        ],
    ),
    (
        "write access",
        &[
            "write access",
            "write permission",
            "write permissions",
            "write scope",
            "write operation",
            "write operations",
            "mutation",
            "write-enabled",
            "allow-write",
            "write mode",
        ],
    ),
    ("cost", &["incur costs", "incur cost", "cost warning", "costs money", "charges apply", "billing", "credits"]),
    ("dry run", &["dry run", "dry-run", "preview"]),
    (
        "if not exists",
        &[
            "if * not exist",
            "if * doesn't exist",
            "already exists",
            "if not exists",
            "not already exist",
            "if * already exist",
        ],
    ),
    ("as a list", &["list of", "all the", "array of", "paginated", "pagination", "page of"]),
    (
        "details",
        &[
            "details of",
            "details about",
            "information about",
            "information on",
            "detailed information",
            "detailed info",
            "info about",
        ],
    ),
    ("by id", &["by id", "by its id", "by uuid", "by their id", "by name"]),
    ("a new", &["a new", "new"]),
    ("an existing", &["an existing", "existing"]),
    (
        "only select",
        &[
            "only select",
            "select queries",
            "select statements",
            "select query",
            "select statement",
            "select only",
            "read queries",
            "read-only sql",
        ],
    ),
    (
        "save to disk",
        &[
            "saves to",
            "save to",
            "saved to",
            "to disk",
            "output directory",
            "output file",
            "to a file",
            "local file",
            "writes to",
        ],
    ),
];

/// The variants by their first word, so that a sentence is scanned once.
static BY_FIRST: LazyLock<HashMap<&'static str, Vec<(&'static str, &'static str)>>> = LazyLock::new(|| {
    let mut by_first: HashMap<&str, Vec<(&str, &str)>> = HashMap::new();
    for (name, runs) in &PHRASES {
        for run in *runs {
            let (first, rest) = run.split_once(' ').unwrap_or((run, ""));
            by_first.entry(first).or_default().push((name, rest));
        }
    }
    by_first
});

/// The phrases of a sentence, each once.
pub(super) fn find_phrases(sentence: &[String]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for (at, word) in sentence.iter().enumerate() {
        let rest = sentence.get(at + 1..).unwrap_or_default();
        for (name, run) in BY_FIRST.get(word.as_str()).into_iter().flatten() {
            if !found.contains(name) && starts_with(rest, run) {
                found.push(*name);
            }
        }
    }
    found
}

fn starts_with(words: &[String], run: &str) -> bool {
    let (first, rest) = run.split_once(' ').unwrap_or((run, ""));
    match first {
        "" => true,
        "*" => (1..=2).any(|skipped| words.get(skipped..).is_some_and(|words| starts_with(words, rest))),
        first => words.split_first().is_some_and(|(word, words)| word == first && starts_with(words, rest)),
    }
}
