//! Removes secrets from JSON so that it stays JSON. Works token by token, so that tokens without a secret keep their
//! bytes.

use std::borrow::Cow;

use serde_json::Value;

use super::{REDACTED, Scrubber, without};

/// The JSON text without the secrets; the same bytes if there were none. Text that is not JSON is scrubbed as text.
///
/// Every pass decodes the text in many ways, so there are few: one finds the secrets, one scrubs the strings that have
/// any, and one checks whether the result is clean. Only if it is not, there is one more.
pub(super) fn scrub<'a>(scrubber: &Scrubber, text: &'a [u8]) -> Cow<'a, [u8]> {
    let spans = scrubber.spans(text);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    if !is_json(text) {
        return Cow::Owned(without(text, spans));
    }
    let is_clean = |clean: &Vec<u8>| is_json(clean) && scrubber.spans(clean).is_empty();
    let attempt = |touched| rewritten(scrubber, text, &spans, touched).filter(is_clean);
    Cow::Owned(attempt(TokenTreatment::Scrubbed).or_else(|| attempt(TokenTreatment::Replaced)).unwrap_or_else(quoted))
}

/// What happens to a token that contains or touches a secret.
#[derive(Clone, Copy)]
enum TokenTreatment {
    /// A string keeps everything except the secret.
    Scrubbed,
    /// The whole token is replaced: the secret spans several tokens, or the rest was a secret again.
    Replaced,
}

/// Every token by itself; `None` if the text is not a sequence of tokens.
fn rewritten(scrubber: &Scrubber, text: &[u8], spans: &[(usize, usize)], touched: TokenTreatment) -> Option<Vec<u8>> {
    let mut clean = Vec::with_capacity(text.len());
    let mut at = 0;
    let mut spans = spans.iter().peekable();
    while let Some(first) = text.get(at) {
        let end = match first {
            b'"' => end_of_string(text, at)?,
            byte if is_between(*byte) => at + 1,
            _ => text
                .get(at..)?
                .iter()
                .position(|byte| is_between(*byte) || *byte == b'"')
                .map_or(text.len(), |n| at + n),
        };
        let token = text.get(at..end)?;
        while spans.next_if(|(_, span_end)| *span_end <= at).is_some() {}
        let is_touched = spans.peek().is_some_and(|(span_start, _)| *span_start < end);
        let replacement = match (first, touched) {
            _ if !is_touched || is_between(*first) => Cow::Borrowed(token),
            (_, TokenTreatment::Replaced) => Cow::Owned(quoted()),
            (b'"', TokenTreatment::Scrubbed) => string(scrubber, token)?,
            _ if scrubber.spans(token).is_empty() => Cow::Borrowed(token),
            _ => Cow::Owned(quoted()),
        };
        clean.extend_from_slice(&replacement);
        at = end;
    }
    Some(clean)
}

/// A string without the secrets. It is decoded first: a secret in the text may begin or end inside of an escape.
fn string<'a>(scrubber: &Scrubber, token: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    let decoded: String = serde_json::from_slice(token).ok()?;
    Some(match scrubber.scrub_text(&decoded) {
        Cow::Borrowed(_) => Cow::Borrowed(token),
        Cow::Owned(clean) => Cow::Owned(Value::from(clean).to_string().into_bytes()),
    })
}

fn end_of_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

fn is_between(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'[' | b']' | b',' | b':') || byte.is_ascii_whitespace()
}

fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<&serde_json::value::RawValue>(text).is_ok()
}

fn quoted() -> Vec<u8> {
    format!("\"{REDACTED}\"").into_bytes()
}
