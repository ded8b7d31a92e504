//! The last lines a child wrote to its standard error: when a server dies, one of them usually tells its user why.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

/// How many lines are kept.
const LINES_MAX: usize = 32;
/// How much of a line is kept.
pub(crate) const LINE_BYTES_MAX: usize = 2048;

/// The last lines, oldest first.
#[derive(Debug, Default)]
pub(crate) struct StderrTail(Mutex<VecDeque<String>>);

impl StderrTail {
    pub(crate) fn add(&self, line: &[u8]) {
        let line = String::from_utf8_lossy(line.get(..LINE_BYTES_MAX).unwrap_or(line)).trim_end().to_owned();
        if line.is_empty() {
            return;
        }
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() >= LINES_MAX {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The last line that names an error, otherwise the last one with content.
    pub(crate) fn error_line(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let named = lines.iter().rev().find(|line| names_an_error(line));
        named.or_else(|| lines.iter().rev().find(|line| !is_trailer(line))).or_else(|| lines.back()).cloned()
    }
}

/// Whether the line begins like `Error: …`, `ImportError: …` or `error: …`, as error messages in most languages do.
fn names_an_error(line: &str) -> bool {
    let head = line.trim_start().split(':').next().unwrap_or_default();
    let one_word = !head.contains(char::is_whitespace);
    line.contains(':') && one_word && (head.ends_with("Error") || head.ends_with("Exception") || head == "error")
}

/// Node.js ends its crash reports with a stack, braces and its own version; the error is above them.
fn is_trailer(line: &str) -> bool {
    let text = line.trim();
    text.starts_with("Node.js v")
        || text.starts_with("at ")
        || text.chars().all(|character| "{}[](),^~".contains(character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_telling_line_is_found() {
        let table: [(&[&str], Option<&str>); 5] = [
            (&[], None),
            (
                &["Traceback (most recent call last):", "  File \"x\"", "ImportError: no x", ""],
                Some("ImportError: no x"),
            ),
            (&["Error: no token", "    at main (x.js:1)", "    at y", "", "Node.js v24.21.0"], Some("Error: no token")),
            (&["Node.js v24.21.0"], Some("Node.js v24.21.0")),
            (
                &[
                    "Error: Cannot find module '/x.js'",
                    "    at y",
                    "  code: 'MODULE_NOT_FOUND',",
                    "  requireStack: []",
                    "}",
                ],
                Some("Error: Cannot find module '/x.js'"),
            ),
        ];
        for (lines, expected) in table {
            let words = StderrTail::default();
            for line in lines {
                words.add(line.as_bytes());
            }
            assert_eq!(words.error_line().as_deref(), expected);
        }
    }

    #[test]
    fn words_are_bounded() {
        let words = StderrTail::default();
        for _ in 0..1_000 {
            words.add(&[b'x'; 10_000]);
        }
        assert_eq!(words.error_line().unwrap().len(), LINE_BYTES_MAX);
        assert_eq!(words.0.lock().unwrap().len(), LINES_MAX);
    }
}
