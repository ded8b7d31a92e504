//! Takes secrets out of what comes back: an upstream that repeats the credential it was given must not hand it to an agent.
//!
//! All occurrences in all forms an echo has (as it is, escaped in JSON once or twice, in an address, base64 at any place of
//! a longer text, hex) are looked for, in a fixed number of passes, each linear in the text. A secret that was hashed,
//! encrypted or cut into pieces is not found, and one that crosses the border of two texts only if they are scrubbed as one.
//!
//! What is scrubbed need not be JSON afterwards in every case: a secret may look like the second half of an escape.

mod forms;
mod view;

use std::{borrow::Cow, fmt};

use aho_corasick::{AhoCorasick, MatchKind};

use crate::Secret;

use view::{EXPANSION_MAX, READINGS, View};

/// What stands in a secret's place. Nothing in it has to be escaped anywhere.
pub const REDACTED: &str = "[redacted]";
/// Bytes of the shortest secret: anything shorter would black out ordinary words.
pub const SECRET_BYTES_MIN: usize = 6;
/// Bytes of the longest.
pub const SECRET_BYTES_MAX: usize = 16 << 10;
/// Secrets one scrubber knows.
pub const SECRETS_MAX: usize = 256;
/// Bytes of all of them together: the searcher takes many times that.
pub const SECRETS_BYTES_MAX: usize = 256 << 10;
/// Bytes of text that are decoded at once: what is decoded needs many times its size.
const WINDOW_BYTES: usize = 256 << 10;

/// Knows the secrets of one upstream, in every form.
#[derive(Clone)]
pub struct Scrubber {
    searcher: AhoCorasick,
    /// How far a form may reach into the next window.
    overlap_bytes: usize,
}

/// Why there is no scrubber for these secrets. They are named by their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotScrubbable {
    /// Too short to be looked for: refused when it is configured, because else it would be let through.
    #[error("secret {index} has fewer than {SECRET_BYTES_MIN} bytes and could not be kept out of answers")]
    TooShort {
        /// Which, counted from zero.
        index: usize,
    },
    /// Too long.
    #[error("secret {index} has more than {SECRET_BYTES_MAX} bytes")]
    TooLong {
        /// Which, counted from zero.
        index: usize,
    },
    /// Too many.
    #[error("more than {SECRETS_MAX} secrets")]
    TooMany,
    /// Too long together.
    #[error("the secrets have more than {SECRETS_BYTES_MAX} bytes together")]
    TooMuch,
}

impl Scrubber {
    /// A scrubber for these secrets.
    pub fn of(secrets: &[Secret]) -> Result<Self, NotScrubbable> {
        if secrets.len() > SECRETS_MAX {
            return Err(NotScrubbable::TooMany);
        }
        if secrets.iter().map(|secret| secret.expose().len()).sum::<usize>() > SECRETS_BYTES_MAX {
            return Err(NotScrubbable::TooMuch);
        }
        let mut forms = Vec::new();
        for (index, secret) in secrets.iter().enumerate() {
            match secret.expose().len() {
                0..SECRET_BYTES_MIN => return Err(NotScrubbable::TooShort { index }),
                SECRET_BYTES_MIN..=SECRET_BYTES_MAX => forms.extend(forms::of(secret.expose())),
                _ => return Err(NotScrubbable::TooLong { index }),
            }
        }
        forms.sort_by(|one, other| one.as_slice().cmp(other));
        forms.dedup();
        // Standard matching is the one that reports overlaps, and those must go as a whole.
        let searcher = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(forms.iter().map(|form| form.as_slice()))
            .map_err(|_| NotScrubbable::TooMuch)?;
        let overlap_bytes = searcher.max_pattern_len().saturating_mul(EXPANSION_MAX);
        Ok(Self { searcher, overlap_bytes })
    }

    /// The text without the secrets; the same bytes if there were none.
    pub fn scrub<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let spans = self.spans(text);
        if spans.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut clean = Vec::with_capacity(text.len());
        let mut kept_to = 0;
        for (start, end) in spans {
            clean.extend_from_slice(text.get(kept_to..start).unwrap_or_default());
            clean.extend_from_slice(REDACTED.as_bytes());
            kept_to = end;
        }
        clean.extend_from_slice(text.get(kept_to..).unwrap_or_default());
        Cow::Owned(clean)
    }

    /// The same for text.
    pub fn scrub_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.scrub(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// Where secrets are: in order, apart from each other.
    fn spans(&self, text: &[u8]) -> Vec<(usize, usize)> {
        let mut spans = Vec::new();
        let mut window_start = 0;
        while window_start < text.len() {
            let end = window_start.saturating_add(WINDOW_BYTES).saturating_add(self.overlap_bytes).min(text.len());
            // Backslashes are read in pairs, and in pairs of pairs: a window does not begin inside of one.
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
        let mut spans = self.found(window);
        for view in READINGS.iter().filter_map(|reading| View::of(window, reading)) {
            spans.extend(self.found(&view.bytes).into_iter().filter_map(|(start, end)| view.place_of(start, end)));
        }
        merged(spans)
    }

    fn found(&self, text: &[u8]) -> Vec<(usize, usize)> {
        merged(self.searcher.find_overlapping_iter(text).map(|found| (found.start(), found.end())).collect())
    }
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
        // The searcher would print what it looks for.
        formatter.debug_struct("Scrubber").field("forms_count", &self.searcher.patterns_len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
