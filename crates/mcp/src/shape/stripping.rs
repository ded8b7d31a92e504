//! Removes members from JSON in one pass over its tokens, whatever its depth.

use std::borrow::Cow;

use super::{META, tokens::JsonToken};
use crate::envelope::to_json;

/// Whether a member is removed, by whether it is in `_meta` and by its name.
pub(super) type JsonMemberFilter<'u> = &'u dyn Fn(bool, &str) -> bool;

/// The JSON without unwanted members; `None` if there are none. `tokens` are those of `json`.
///
/// A name that is not text is never unwanted; the rest of the JSON is stripped all the same.
pub(super) fn stripped(
    json: &str,
    tokens: impl Iterator<Item = JsonToken>,
    is_unwanted: JsonMemberFilter<'_>,
) -> Option<String> {
    let mut stripping = MemberStripper {
        json,
        is_unwanted,
        inside: Vec::new(),
        is_meta_next: false,
        leaving: None,
        copy: StrippedCopy::default(),
    };
    for token in tokens {
        stripping.take(token)?;
    }
    stripping.copy.finish(json)
}

/// The state of the pass.
struct MemberStripper<'a> {
    json: &'a str,
    is_unwanted: JsonMemberFilter<'a>,
    /// For each array and object around the next token: whether it is the object of a `_meta`.
    inside: Vec<bool>,
    /// Whether the next value is that of a `_meta`.
    is_meta_next: bool,
    /// How many arrays and objects contain the member that is being removed.
    leaving: Option<usize>,
    copy: StrippedCopy,
}

/// The output so far.
#[derive(Default)]
struct StrippedCopy {
    written: String,
    /// How many bytes of the JSON are copied or removed.
    done: usize,
    has_left_out: bool,
}

impl MemberStripper<'_> {
    /// Processes one token. `None` if the tokens are not those of the JSON.
    fn take(&mut self, token: JsonToken) -> Option<()> {
        match token {
            JsonToken::Open { is_object } => {
                self.inside.push(is_object && self.is_meta_next);
                self.is_meta_next = false;
            }
            JsonToken::Close { at } => {
                if self.leaving == Some(self.inside.len()) {
                    self.leaving = None;
                    self.copy.leave_out_last(at);
                }
                self.inside.pop();
                self.is_meta_next = false;
            }
            JsonToken::Comma { at } => {
                if self.leaving == Some(self.inside.len()) {
                    self.leaving = None;
                    self.copy.done = at + 1;
                }
                self.is_meta_next = false;
            }
            JsonToken::Text { start, end, is_name: true } if self.leaving.is_none() => self.name(start, end)?,
            JsonToken::Text { .. } => {}
        }
        Some(())
    }

    fn name(&mut self, start: usize, end: usize) -> Option<()> {
        let quoted = self.json.get(start.checked_sub(1)?..=end)?;
        let Some(name) = decoded(quoted) else { return Some(()) };
        let is_in_meta = self.inside.last().copied().unwrap_or_default();
        if (self.is_unwanted)(is_in_meta, &name) {
            self.copy.until(self.json, start - 1)?;
            self.copy.has_left_out = true;
            self.leaving = Some(self.inside.len());
            return Some(());
        }
        self.is_meta_next = name == META;
        if let Cow::Owned(name) = name {
            // A name with escapes is written without them, so that every reader finds the same name.
            self.copy.until(self.json, start - 1)?;
            self.copy.written.push_str(&to_json(&name));
            self.copy.done = end + 1;
        }
        Some(())
    }
}

impl StrippedCopy {
    fn until(&mut self, json: &str, end: usize) -> Option<()> {
        self.written.push_str(json.get(self.done..end)?);
        self.done = end;
        Some(())
    }

    /// Removes the last member of an object that closes at `at`, and the comma before it.
    fn leave_out_last(&mut self, at: usize) {
        let kept = self.written.trim_ascii_end();
        let kept = kept.strip_suffix(',').unwrap_or(kept).len();
        self.written.truncate(kept);
        self.done = at;
    }

    fn finish(mut self, json: &str) -> Option<String> {
        self.until(json, json.len())?;
        self.has_left_out.then_some(self.written)
    }
}

/// Decodes the text between quotation marks; `None` if it is not valid text. Borrowed if it has no escapes.
pub(super) fn decoded(quoted: &str) -> Option<Cow<'_, str>> {
    if quoted.contains('\\') {
        return serde_json::from_str::<String>(quoted).ok().map(Cow::Owned);
    }
    let inside = quoted.strip_prefix('"')?.strip_suffix('"')?;
    Some(Cow::Borrowed(inside))
}
