//! The tokens of valid JSON, in one pass: brackets, commas, and texts.
//!
//! Numbers and words such as `true` are not tokens, because no check here needs them.

use memchr::memchr2;

/// A token and its place in the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsonToken {
    /// `{` or `[`.
    Open { is_object: bool },
    /// `}` or `]`.
    Close { at: usize },
    /// A comma between values.
    Comma { at: usize },
    /// A text: the bytes between its quotation marks are `start..end`.
    Text { start: usize, end: usize, is_name: bool },
}

/// The tokens from `at` on. It only moves forward, so the work is proportional to the bytes.
#[derive(Debug)]
pub(super) struct JsonTokens<'a> {
    json: &'a [u8],
    at: usize,
}

impl<'a> JsonTokens<'a> {
    pub(super) const fn new(json: &'a [u8]) -> Self {
        Self { json, at: 0 }
    }

    fn text(&mut self) -> JsonToken {
        let start = self.at;
        let rest = self.json.get(start..).unwrap_or_default();
        let end = start + string_end(rest);
        self.at = end + 1;
        let after = self.json.get(self.at..).unwrap_or_default();
        let is_name = after.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b':');
        JsonToken::Text { start, end, is_name }
    }
}

impl Iterator for JsonTokens<'_> {
    type Item = JsonToken;

    fn next(&mut self) -> Option<JsonToken> {
        loop {
            let at = self.at;
            let byte = *self.json.get(at)?;
            self.at += 1;
            match byte {
                b'{' | b'[' => return Some(JsonToken::Open { is_object: byte == b'{' }),
                b'}' | b']' => return Some(JsonToken::Close { at }),
                b',' => return Some(JsonToken::Comma { at }),
                b'"' => return Some(self.text()),
                _ => {}
            }
        }
    }
}

/// The number of bytes of a text before its closing quotation mark.
pub(super) fn string_end(text: &[u8]) -> usize {
    let mut from = 0;
    while let Some(found) = memchr2(b'"', b'\\', text.get(from..).unwrap_or_default()) {
        let at = from + found;
        if text.get(at) == Some(&b'"') {
            return at;
        }
        // A backslash escapes the byte after it.
        from = at + 2;
    }
    text.len()
}
