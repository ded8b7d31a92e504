//! The difference between two texts, as a unified diff for a terminal. What may be shown of them is decided by the caller.

use similar::TextDiff;

use crate::screen::{TextStyle, paint};

/// Unchanged lines that are shown around changed ones.
const CONTEXT_LINES: usize = 3;

/// A unified diff; `None` stands for a file that does not exist.
pub(crate) fn unified(file: &str, before: Option<&str>, after: Option<&str>) -> String {
    let name = |text: Option<&str>| if text.is_some() { file.to_owned() } else { "/dev/null".to_owned() };
    let (old, new) = (before.unwrap_or_default(), after.unwrap_or_default());
    let compared = TextDiff::from_lines(old, new);
    compared.unified_diff().context_radius(CONTEXT_LINES).header(&name(before), &name(after)).to_string()
}

/// The same diff in colours, if colours are enabled.
pub(crate) fn painted(diff: &str) -> String {
    let line = |line: &str| match line.chars().next() {
        _ if line.starts_with("+++") || line.starts_with("---") => paint(line, TextStyle::Strong),
        Some('+') => paint(line, TextStyle::Good),
        Some('-') => paint(line, TextStyle::Bad),
        Some('@') => paint(line, TextStyle::Quiet),
        _ => line.to_owned(),
    };
    diff.lines().map(line).collect::<Vec<_>>().join("\n")
}
