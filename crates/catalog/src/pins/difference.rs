//! What changed between two definitions of a tool, and how grave the change is.
//!
//! Additive may pass by policy. Breaking means that a caller with the old definition may fail. Dangerous means that a person
//! who agreed to the old definition might not agree to the new one: its text changed, its reach widened, or there is a new
//! place to write free text into.

use serde::Serialize;
use servanda_contract::legibility::reveal;

use super::text_diff;

/// Characters of a value that are shown.
const SHOWN_CHARS_MAX: usize = 400;

/// How grave a difference is, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceSeverity {
    /// Like a minor version: users of the old definition are not affected.
    Additive,
    /// Like a major version.
    Breaking,
    /// A person has to review it.
    Dangerous,
}

/// One thing that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// How grave.
    pub severity: DifferenceSeverity,
    /// JSON Pointer into the definition.
    pub pointer: String,
    /// The difference, in words.
    pub what: String,
    /// As pinned, shortened, with invisible characters made visible.
    pub before: Option<String>,
    /// As served now, in the same form.
    pub after: Option<String>,
    /// The change of a text, word by word: `[-gone-]`, `{+new+}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wording: Option<String>,
}

/// Collects differences.
#[derive(Default)]
pub(super) struct DifferenceCollector(Vec<Difference>);

impl DifferenceCollector {
    /// All of them, the gravest first.
    pub(super) fn sorted(mut self) -> Vec<Difference> {
        self.0.sort_by(|one, other| other.severity.cmp(&one.severity).then_with(|| one.pointer.cmp(&other.pointer)));
        self.0
    }

    pub(super) fn add(&mut self, severity: DifferenceSeverity, pointer: &str, what: impl Into<String>) {
        self.add_with(severity, pointer, what, None, None);
    }

    pub(super) fn add_with(
        &mut self,
        severity: DifferenceSeverity,
        pointer: &str,
        what: impl Into<String>,
        before: Option<String>,
        after: Option<String>,
    ) {
        // Both may contain names that a server chose.
        let (pointer, what) = (reveal(pointer).into_owned(), reveal(&what.into()).into_owned());
        self.0.push(Difference { severity, pointer, what, before, after, wording: None });
    }
}

/// Compares text that a model reads. A change of it alone is enough to poison a tool after a person agreed to it.
pub(super) fn text(found: &mut DifferenceCollector, pointer: &str, before: Option<&str>, after: Option<&str>) {
    if before != after {
        let what = "its text changed, which a model reads as an instruction";
        found.add_with(DifferenceSeverity::Dangerous, pointer, what, before.map(shorten), after.map(shorten));
        if let Some(difference) = found.0.last_mut() {
            difference.wording = Some(text_diff::word_diff(before.unwrap_or_default(), after.unwrap_or_default()));
        }
    }
}

pub(super) fn shorten(text: &str) -> String {
    text_diff::shorten(&reveal(text), SHOWN_CHARS_MAX)
}

impl DifferenceSeverity {
    /// The word for people and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Additive => "additive",
            Self::Breaking => "breaking",
            Self::Dangerous => "dangerous",
        }
    }
}
