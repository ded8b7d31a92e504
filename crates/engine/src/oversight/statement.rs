//! What people give as a reason or as evidence: one line that is kept with what they did.

/// The longest reason or evidence.
pub const STATEMENT_CHARS_MAX: usize = 2_000;

/// The text without white space around it, if it is one line that says something and is not too long.
pub fn checked_statement(text: &str) -> Option<&str> {
    let text = text.trim();
    let is_line = !text.is_empty() && !text.chars().any(char::is_control);
    (is_line && text.chars().nth(STATEMENT_CHARS_MAX).is_none()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_that_says_something() {
        let longest = "ä".repeat(STATEMENT_CHARS_MAX);
        for (text, expected) in [
            (" seen on the statement ", Some("seen on the statement")),
            ("", None),
            (" \t ", None),
            ("two\nlines", None),
            ("a\u{1b}[31mcolour", None),
            (longest.as_str(), Some(longest.as_str())),
            (&format!("{longest}x"), None),
        ] {
            assert_eq!(checked_statement(text), expected, "{text:?}");
        }
    }
}
