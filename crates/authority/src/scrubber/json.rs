//! JSON without the secrets that is JSON still. Token by token, so that whatever has no secret in it keeps its bytes.

use std::borrow::Cow;

use serde_json::Value;

use super::{REDACTED, Scrubber, without};

/// The JSON text without the secrets; the same bytes if there were none. What is not JSON is scrubbed as text.
pub(super) fn scrub<'a>(scrubber: &Scrubber, text: &'a [u8]) -> Cow<'a, [u8]> {
    let spans = scrubber.spans(text);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    if !is_json(text) {
        return Cow::Owned(without(text, spans));
    }
    let clean = rewritten(scrubber, text, &spans).filter(|clean| is_json(clean) && scrubber.spans(clean).is_empty());
    // Otherwise a secret reaches across the border of two tokens, and nothing of the text can be kept.
    Cow::Owned(clean.unwrap_or_else(quoted))
}

/// Rewrites each token that holds a secret by itself; none if the text is no sequence of tokens.
fn rewritten(scrubber: &Scrubber, text: &[u8], spans: &[(usize, usize)]) -> Option<Vec<u8>> {
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
        match first {
            _ if !is_touched => clean.extend_from_slice(token),
            b'"' => clean.extend_from_slice(&string(scrubber, token)?),
            _ if scrubber.spans(token).is_empty() => clean.extend_from_slice(token),
            _ => clean.extend_from_slice(&quoted()),
        }
        at = end;
    }
    Some(clean)
}

/// A string without the secrets. Read first: a secret in the text may begin or end inside of an escape.
fn string<'a>(scrubber: &Scrubber, token: &'a [u8]) -> Option<Cow<'a, [u8]>> {
    if scrubber.spans(token).is_empty() {
        return Some(Cow::Borrowed(token));
    }
    let meant: String = serde_json::from_slice(token).ok()?;
    let clean = Value::from(scrubber.scrub_text(&meant).into_owned()).to_string().into_bytes();
    Some(Cow::Owned(if scrubber.spans(&clean).is_empty() { clean } else { quoted() }))
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
