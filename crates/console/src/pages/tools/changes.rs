//! What changed in a definition since a person agreed to it, as parts that a page can mark.

use servanda_contract::legibility;
use servanda_engine::{Difference, DifferenceSeverity, ToolHold, ToolStanding};

/// One difference on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DefinitionChange {
    /// How grave it is.
    pub(crate) severity: &'static str,
    /// The class of the style sheet.
    pub(crate) style: &'static str,
    /// Where in the definition.
    pub(crate) pointer: String,
    /// What changed, in words.
    pub(crate) what: String,
    /// The text with what is gone and what is new; empty if it is not a text.
    pub(crate) wording: Vec<WordingPart>,
    /// As agreed to.
    pub(crate) before: Option<String>,
    /// As it is now.
    pub(crate) after: Option<String>,
}

/// A part of a changed text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WordingPart {
    /// It stayed.
    Same(String),
    /// It is gone.
    Gone(String),
    /// It is new.
    New(String),
}

/// The differences that a tool's standing has, the gravest first.
pub(crate) fn changes(standing: &ToolStanding) -> Vec<DefinitionChange> {
    let differences = match standing {
        ToolStanding::Held(ToolHold::Quarantined { differences, .. }) => differences.as_slice(),
        ToolStanding::Offered { drift, .. } => drift.as_slice(),
        _ => &[],
    };
    differences.iter().map(DefinitionChange::new).collect()
}

impl DefinitionChange {
    fn new(difference: &Difference) -> Self {
        let style = match difference.severity {
            DifferenceSeverity::Additive => "low",
            DifferenceSeverity::Breaking => "medium",
            DifferenceSeverity::Dangerous => "critical",
        };
        let revealed = |text: &String| legibility::reveal(text).into_owned();
        let wording = difference.wording.as_deref().map(parts).unwrap_or_default();
        let plain = |text: &Option<String>| text.as_ref().filter(|_| wording.is_empty()).map(revealed);
        Self {
            severity: difference.severity.word(),
            style,
            pointer: revealed(&difference.pointer),
            what: revealed(&difference.what),
            before: plain(&difference.before),
            after: plain(&difference.after),
            wording,
        }
    }
}

/// The parts of `kept [-gone-] {+new+}`. A server's own brackets are spelled out in such a text, so that it cannot mark anything itself.
fn parts(wording: &str) -> Vec<WordingPart> {
    let mut parts = Vec::new();
    let mut rest = wording;
    while let Some((start, is_gone)) = next_mark(rest) {
        let (close, inside) = (if is_gone { "-]" } else { "+}" }, start + 2);
        let text = rest.get(inside..).unwrap_or_default();
        // A text that was cut has no end of its last mark.
        let length = text.find(close).unwrap_or(text.len());
        parts.push(WordingPart::Same(revealed(rest.get(..start))));
        let inner = revealed(text.get(..length));
        parts.push(if is_gone { WordingPart::Gone(inner) } else { WordingPart::New(inner) });
        rest = text.get(length + close.len()..).unwrap_or_default();
    }
    parts.push(WordingPart::Same(revealed(Some(rest))));
    parts.retain(|part| !matches!(part, WordingPart::Same(text) if text.is_empty()));
    parts
}

fn next_mark(text: &str) -> Option<(usize, bool)> {
    let marks = [text.find("[-").map(|at| (at, true)), text.find("{+").map(|at| (at, false))];
    marks.into_iter().flatten().min_by_key(|(at, _)| *at)
}

fn revealed(text: Option<&str>) -> String {
    legibility::reveal(text.unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_parts() {
        let same = |text: &str| WordingPart::Same(text.to_owned());
        let gone = |text: &str| WordingPart::Gone(text.to_owned());
        let new = |text: &str| WordingPart::New(text.to_owned());
        for (wording, expected) in [
            ("nothing", vec![same("nothing")]),
            ("", vec![]),
            ("Reads[- files-]{+ mail+}.", vec![same("Reads"), gone(" files"), new(" mail"), same(".")]),
            ("[-a-]", vec![gone("a")]),
            ("x {+cut off", vec![same("x "), new("cut off")]),
            ("{+\u{202e}+}", vec![new("<U+202E>")]),
        ] {
            assert_eq!(parts(wording), expected, "{wording}");
        }
    }
}
