//! How deeply the brackets of an expression are nested, computed from its text. The parser is recursive and
//! uses a large part of a worker's stack for every level, so the depth has to be known before the parser gets
//! the text.

/// The deepest nesting of `(`, `[` and `{`, strings and comments left out.
pub(super) fn bracket_depth(expression: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut rest = expression;
    let mut word = "";
    while let Some(next) = rest.chars().next() {
        let step = match next {
            '"' | '\'' => string_len(rest, next, is_raw(word)),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            _ if is_word(next) => rest.find(|other| !is_word(other)).unwrap_or(rest.len()),
            _ => next.len_utf8(),
        };
        match next {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
        word = if is_word(next) { rest.get(..step).unwrap_or_default() } else { "" };
        rest = rest.get(step..).unwrap_or_default();
    }
    deepest
}

fn is_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Whether the word before a quote makes the string a raw string.
fn is_raw(word: &str) -> bool {
    ["r", "br", "rb"].contains(&word.to_ascii_lowercase().as_str())
}

/// The length of the string literal at the start, quotes included. An unclosed one takes the rest.
fn string_len(text: &str, quote: char, raw: bool) -> usize {
    let triple: String = std::iter::repeat_n(quote, 3).collect();
    let quotes = if text.starts_with(&triple) { triple } else { quote.to_string() };
    let mut at = quotes.len();
    while let Some(next) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if text.get(at..).is_some_and(|rest| rest.starts_with(&quotes)) {
            return at + quotes.len();
        }
        at += next.len_utf8();
        if next == '\\' && !raw {
            at += text.get(at..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
        }
    }
    text.len()
}
