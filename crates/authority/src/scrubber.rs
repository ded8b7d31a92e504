//! Removes secrets from what comes back: an upstream that repeats its credential must not pass it to an agent.
//!
//! The scrubber looks for all occurrences in all usual forms of an echo (verbatim, in other case, escaped in JSON once
//! or twice, in an address once or twice, in HTML once or twice or inside an address, base64 once or twice at any place
//! of a longer text, hex with or without separators, and both across lines, indentation and blanks), in a fixed number
//! of passes, each linear in the text. It does not find a secret that was hashed, encrypted, compressed, reversed, cut
//! into pieces or encoded in a way that is not listed (base32, base58, rot13, quoted-printable). It finds a secret that
//! crosses the border of two texts only if they are scrubbed as one. `docs/credentials.md` has the whole list.
//!
//! Text that is scrubbed as text may no longer be JSON: a secret may look like the second half of an escape. Text that
//! is scrubbed as JSON stays JSON.
//!
//! Credentials that are new for every call are recognised by their common beginning, a stem: searching for each of them
//! would cost more than the call.

mod forms;
mod json;
mod view;

use std::{borrow::Cow, fmt};

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use crate::Secret;

use forms::SecretForm;
use view::{DecodedView, Decoding, EXPANSION_MAX, READINGS};

/// Replaces a secret. No format needs to escape any of its characters.
pub const REDACTED: &str = "[redacted]";
/// Bytes of the shortest secret: a shorter one would black out ordinary words.
pub const SECRET_BYTES_MIN: usize = 6;
/// Bytes of the longest secret.
pub const SECRET_BYTES_MAX: usize = 16 << 10;
/// The most secrets of one scrubber.
pub const SECRETS_MAX: usize = 2_048;
/// Bytes of all secrets together: the searcher needs more than a hundred times that.
pub const SECRETS_BYTES_MAX: usize = 256 << 10;
/// Bytes of text that are decoded at once: decoding needs many times their size.
const WINDOW_BYTES: usize = 256 << 10;
/// How far a value may reach beyond its stem.
const TAIL_BYTES_MAX: usize = SECRET_BYTES_MAX;

/// The secrets of one upstream, in every form.
#[derive(Clone)]
pub struct Scrubber {
    searcher: AhoCorasick,
    /// The kind of each form, by the form's number.
    kinds: Vec<SecretFormKind>,
    /// How far a form may reach into the next window.
    overlap_bytes: usize,
}

/// The kind of a form.
#[derive(Debug, Clone, Copy)]
struct SecretFormKind {
    is_stem: bool,
    is_hex: bool,
    is_encoded: bool,
}

/// Why there is no scrubber for these secrets. Errors name a secret by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScrubberError {
    /// Too short to be searched for: refused when it is configured, because it could not be removed from answers.
    #[error("secret {index} has fewer than {SECRET_BYTES_MIN} bytes and could not be removed from answers")]
    TooShort {
        /// The secret's index, from zero.
        index: usize,
    },
    /// Too long.
    #[error("secret {index} has more than {SECRET_BYTES_MAX} bytes")]
    TooLong {
        /// The secret's index, from zero.
        index: usize,
    },
    /// Too many secrets.
    #[error("more than {SECRETS_MAX} secrets")]
    TooMany,
    /// Too many bytes in all secrets together.
    #[error("the secrets have more than {SECRETS_BYTES_MAX} bytes together")]
    TooMuch,
}

impl Scrubber {
    /// A scrubber for these secrets.
    pub fn new(secrets: &[Secret]) -> Result<Self, ScrubberError> {
        Self::with_stems(secrets, &[])
    }

    /// A scrubber for these secrets, and for everything that begins with one of these stems and continues like a token.
    /// Stems count as secrets, after the others.
    pub fn with_stems(secrets: &[Secret], stems: &[Secret]) -> Result<Self, ScrubberError> {
        if secrets.len() + stems.len() > SECRETS_MAX {
            return Err(ScrubberError::TooMany);
        }
        let all = || secrets.iter().chain(stems);
        if all().map(|secret| secret.expose().len()).sum::<usize>() > SECRETS_BYTES_MAX {
            return Err(ScrubberError::TooMuch);
        }
        let mut forms = Vec::new();
        for (index, secret) in all().enumerate() {
            let is_stem = index >= secrets.len();
            match secret.expose().len() {
                0..SECRET_BYTES_MIN => return Err(ScrubberError::TooShort { index }),
                SECRET_BYTES_MIN..=SECRET_BYTES_MAX => {
                    let kind = |form: &SecretForm| SecretFormKind {
                        is_stem,
                        is_hex: form.is_hex,
                        is_encoded: form.is_encoded,
                    };
                    forms.extend(forms::all_forms(secret.expose()).into_iter().map(|form| (kind(&form), form.bytes)));
                }
                _ => return Err(ScrubberError::TooLong { index }),
            }
        }
        // If a secret is also a stem, the stem removes more.
        forms.sort_by(|(one, one_bytes), (other, other_bytes)| {
            one_bytes.as_slice().cmp(other_bytes).then_with(|| other.is_stem.cmp(&one.is_stem))
        });
        forms.dedup_by(|(_, later), (_, before)| later.as_slice() == before.as_slice());
        // Only standard matching reports overlaps, and overlapping secrets must be removed as a whole.
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            // For few patterns the library would build a table with a row for each of their bytes: gigabytes.
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .ascii_case_insensitive(true)
            .build(forms.iter().map(|(_, bytes)| bytes.as_slice()))
            .map_err(|_| ScrubberError::TooMuch)?;
        let tail_bytes = if stems.is_empty() { 0 } else { TAIL_BYTES_MAX };
        let overlap_bytes = searcher.max_pattern_len().saturating_mul(EXPANSION_MAX).saturating_add(tail_bytes);
        Ok(Self { searcher, kinds: forms.iter().map(|(kind, _)| *kind).collect(), overlap_bytes })
    }

    /// The text without the secrets; the same bytes if there were none.
    pub fn scrub<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let spans = self.spans(text);
        if spans.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(without(text, spans)) }
    }

    /// The same for a string.
    pub fn scrub_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scrub(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// The same for JSON, which stays JSON: a string replaces a secret. Parts without a secret keep their bytes, and
    /// text that is not JSON is scrubbed as text.
    pub fn scrub_json<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        json::scrub(self, text)
    }

    /// The length of the longest form: the last bytes of a truncated text may be the beginning of one.
    pub fn longest_bytes(&self) -> usize {
        self.searcher.max_pattern_len()
    }

    /// The memory that the searcher takes.
    #[cfg(test)]
    fn memory_bytes(&self) -> usize {
        self.searcher.memory_usage()
    }

    /// The spans of the secrets: in order, without overlaps.
    fn spans(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        let mut window_start = 0;
        while window_start < text.len() {
            let end = window_start.saturating_add(WINDOW_BYTES).saturating_add(self.overlap_bytes).min(text.len());
            // Backslashes are read in pairs, and in pairs of pairs: a window must not begin inside of one.
            let before = text.get(..window_start).unwrap_or_default();
            let backslashes = before.iter().rev().take_while(|byte| **byte == b'\\').count();
            let begin = window_start - backslashes % 4;
            let found = self.spans_in_window(text.get(begin..end).unwrap_or_default());
            spans.extend(found.into_iter().map(|(start, end)| (begin + start, begin + end)));
            window_start += WINDOW_BYTES;
        }
        merged(spans)
    }

    fn spans_in_window(&self, window: &[u8]) -> Vec<(usize, usize)> {
        let mut spans = self.find_forms(window, |_| true);
        for (first, others) in READINGS {
            let Some(view) = DecodedView::decode_text(window, first) else { continue };
            spans.extend(self.spans_in_view(&view, first));
            for other in others {
                spans.extend(view.decode_again(*other).iter().flat_map(|view| self.spans_in_view(view, *other)));
            }
        }
        merged(spans)
    }

    /// The spans of the text whose decoded form contains a secret.
    fn spans_in_view(&self, view: &DecodedView, last: Decoding) -> Vec<(usize, usize)> {
        // Without its blanks a plain sentence may look like a secret, so only encoded forms count if blanks were
        // removed.
        let found = self.find_forms(&view.bytes, |kind| match last {
            Decoding::Separators => kind.is_hex,
            Decoding::Blanks => kind.is_encoded,
            _ => true,
        });
        found.into_iter().filter_map(|(start, end)| view.span_of(start, end)).collect()
    }

    fn find_forms(&self, text: &[u8], counts: impl Fn(SecretFormKind) -> bool) -> Vec<(usize, usize)> {
        let mut token = TokenEndFinder { text, end: 0 };
        let mut spans: Vec<(usize, usize)> = Vec::new();
        for found in self.searcher.find_overlapping_iter(text) {
            let Some(kind) = self.kinds.get(found.pattern().as_usize()).copied().filter(|kind| counts(*kind)) else {
                continue;
            };
            let (start, end) = (found.start(), if kind.is_stem { token.end_from(found.end()) } else { found.end() });
            // A span that overlaps the last one is joined to it: a text of nothing but secrets has one span, not one
            // for each form.
            match spans.last_mut() {
                Some((last_start, last_end)) if *last_start <= start && start <= *last_end => {
                    *last_end = end.max(*last_end);
                }
                _ => spans.push((start, end)),
            }
        }
        merged(spans)
    }
}

/// Finds the ends of tokens, however they are encoded: at the first byte that no token contains. Callers ask from left
/// to right, so it reads every byte once; otherwise a text of nothing but stems would be read again for each of them.
struct TokenEndFinder<'a> {
    text: &'a [u8],
    /// The last end found.
    end: usize,
}

impl TokenEndFinder<'_> {
    fn end_from(&mut self, from: usize) -> usize {
        let in_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=%".contains(byte);
        if self.end <= from {
            let rest = self.text.get(from..).unwrap_or_default();
            self.end = from + rest.iter().position(|byte| !in_token(byte)).unwrap_or(rest.len());
        }
        self.end.min(from.saturating_add(TAIL_BYTES_MAX))
    }
}

/// The text with a placeholder instead of each span.
fn without(text: &[u8], spans: Vec<(usize, usize)>) -> Vec<u8> {
    let mut clean = Vec::with_capacity(text.len());
    let mut kept_to = 0;
    for (start, end) in spans {
        clean.extend_from_slice(text.get(kept_to..start).unwrap_or_default());
        clean.extend_from_slice(REDACTED.as_bytes());
        kept_to = end;
    }
    clean.extend_from_slice(text.get(kept_to..).unwrap_or_default());
    clean
}

fn merged(mut spans: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    spans.sort_unstable();
    let mut merged: Vec<(usize, usize)> = Vec::with_capacity(spans.len());
    for (start, end) in spans {
        match merged.last_mut() {
            Some((_, last_end)) if *last_end >= start => *last_end = end.max(*last_end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

impl fmt::Debug for Scrubber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The searcher would print the secrets.
        formatter.debug_struct("Scrubber").field("forms_count", &self.searcher.patterns_len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
