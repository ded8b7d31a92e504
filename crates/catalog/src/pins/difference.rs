//! What changed between two definitions of a tool, and how grave that is.
//!
//! Additive may pass by policy. Breaking means that a caller who kept the old definition may fail. Dangerous means that
//! somebody who agreed to the old definition might not agree to the new one: its text changed, its reach widened, or there
//! is a new place to write free text into.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::Value;
use servanda_contract::legibility::reveal;

use super::{Definition, schema, wording};

/// Characters of a value that are shown.
const SHOWN_CHARS_MAX: usize = 400;

/// How grave a difference is, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A minor version: whoever used the old definition still can.
    Additive,
    /// A major version.
    Breaking,
    /// Somebody has to look.
    Dangerous,
}

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How grave.
    pub severity: Severity,
    /// JSON Pointer into the definition.
    pub pointer: String,
    /// What, in words.
    pub what: String,
    /// As pinned, shortened, with what does not show made visible.
    pub before: Option<String>,
    /// As served now, likewise.
    pub after: Option<String>,
    /// The change of a text, word by word: `[-gone-]`, `{+new+}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wording: Option<String>,
}

/// Everything that differs between the pinned definition and the live one. Nothing means identical.
pub fn compare(pinned: &Definition, live: &Definition) -> Vec<Difference> {
    let mut found = Found(Vec::new());
    text(&mut found, "/name", Some(&pinned.name), Some(&live.name));
    text(&mut found, "/title", pinned.title.as_deref(), live.title.as_deref());
    text(&mut found, "/description", pinned.description.as_deref(), live.description.as_deref());
    hints(&mut found, pinned, live);
    schema::compare_input(&mut found, &pinned.input_schema, &live.input_schema);
    schema::compare_output(&mut found, pinned.output_schema.as_deref(), live.output_schema.as_deref());
    found.0.sort_by(|one, other| other.severity.cmp(&one.severity).then_with(|| one.pointer.cmp(&other.pointer)));
    found.0
}

pub(super) struct Found(Vec<Difference>);

impl Found {
    pub(super) fn add(&mut self, severity: Severity, pointer: &str, what: impl Into<String>) {
        self.add_with(severity, pointer, what, None, None);
    }

    pub(super) fn add_with(
        &mut self,
        severity: Severity,
        pointer: &str,
        what: impl Into<String>,
        before: Option<String>,
        after: Option<String>,
    ) {
        // Both may have names that a server chose.
        let (pointer, what) = (reveal(pointer).into_owned(), reveal(&what.into()).into_owned());
        self.0.push(Difference { severity, pointer, what, before, after, wording: None });
    }
}

/// Text that a model reads: a change of it alone is how a tool is poisoned after it was agreed to.
pub(super) fn text(found: &mut Found, pointer: &str, before: Option<&str>, after: Option<&str>) {
    if before != after {
        let what = "its text changed, which a model reads as an instruction";
        found.add_with(Severity::Dangerous, pointer, what, before.map(shorten), after.map(shorten));
        if let Some(difference) = found.0.last_mut() {
            difference.wording = Some(wording::changed(before.unwrap_or_default(), after.unwrap_or_default()));
        }
    }
}

fn hints(found: &mut Found, pinned: &Definition, live: &Definition) {
    // A missing hint means the careful default of the protocol: not read-only, destructive, open world.
    let rows = [
        ("readOnlyHint", false, false, "it no longer says that it only reads"),
        ("destructiveHint", true, true, "it now says that it may destroy"),
        ("idempotentHint", false, false, "it no longer says that twice is once"),
        ("openWorldHint", true, true, "it now says that it reaches outside"),
    ];
    for (name, default, worse, what) in rows {
        let (before, after) = (pinned.hint(name).unwrap_or(default), live.hint(name).unwrap_or(default));
        let pointer = format!("/annotations/{name}");
        if before != after {
            let severity = if after == worse { Severity::Dangerous } else { Severity::Additive };
            let what = if after == worse { what } else { "its hint became milder" };
            found.add_with(severity, &pointer, what, Some(before.to_string()), Some(after.to_string()));
        }
    }
    let names: BTreeSet<&String> = live.annotations.keys().chain(pinned.annotations.keys()).collect();
    for name in names {
        let known = rows.iter().any(|(hint, ..)| hint == name);
        let (before, after) = (pinned.annotations.get(name), live.annotations.get(name));
        let pointer = format!("/annotations/{name}");
        if name == "title" {
            text(found, &pointer, before.and_then(Value::as_str), after.and_then(Value::as_str));
        } else if !known && before != after {
            found.add(Severity::Additive, &pointer, "an annotation changed");
        }
    }
}

pub(super) fn shorten(text: &str) -> String {
    wording::shorten(&reveal(text), SHOWN_CHARS_MAX)
}

impl Severity {
    /// The word for people and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Additive => "additive",
            Self::Breaking => "breaking",
            Self::Dangerous => "dangerous",
        }
    }
}
