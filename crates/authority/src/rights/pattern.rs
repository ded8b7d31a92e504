//! Sets of names, written as patterns: a name, everything under a name, everything. The sets form trees, so the
//! intersection of two lists of patterns is a list of patterns again, and never longer than both together.
//!
//! Deliberately not here: which names a call has. A name may itself stand for many (`invoice/*`, as the gates write
//! what a call reads and changes): only a pattern that covers all of them covers it.

use std::{borrow::Cow, collections::BTreeSet, fmt, marker::PhantomData};

use serde::{Deserialize, Serialize};

/// Patterns one list may have.
pub const PATTERNS_MAX: usize = 256;
/// Bytes one pattern may have.
pub const PATTERN_BYTES_MAX: usize = 256;

/// The kind of a name: defines the separator of its segments.
pub trait NameKind: Clone + Copy + fmt::Debug + PartialEq + Eq {
    /// The character between two segments.
    const SEPARATOR: char;
    /// The word for these names in messages.
    const WORD: &'static str;
    /// Whether names may be URIs, which have an empty segment between the two slashes after the scheme.
    const MAY_BE_URIS: bool;
}

/// Contract names: `company.void_invoice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolName;

/// Resource names: `invoice/123`, and URIs of MCP resources: `book://company`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceName;

/// A set of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub struct NamePatterns<K: NameKind> {
    // INVARIANT: no pattern covers another, so that equal sets are equal values.
    patterns: BTreeSet<Pattern>,
    kind: PhantomData<K>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Pattern {
    All,
    /// The name and everything below it.
    Under(String),
    Exactly(String),
}

/// The text is not a list of patterns. The error does not repeat the text, because parts of a credential must not be
/// logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidNamePatterns {
    /// Too many patterns.
    #[error("more than {PATTERNS_MAX} patterns")]
    TooMany,
    /// One pattern is malformed.
    #[error(
        "pattern {index} of the {kind} names is malformed: write a name, a name followed by `{separator}*`, or `*`"
    )]
    NotAPattern {
        /// The pattern's index, from zero.
        index: usize,
        /// The kind of names.
        kind: &'static str,
        /// The separator of segments.
        separator: char,
    },
}

impl NameKind for ToolName {
    const SEPARATOR: char = '.';
    const WORD: &'static str = "tool";
    const MAY_BE_URIS: bool = false;
}

impl NameKind for ResourceName {
    const SEPARATOR: char = '/';
    const WORD: &'static str = "resource";
    const MAY_BE_URIS: bool = true;
}

impl<K: NameKind> NamePatterns<K> {
    /// Every name.
    pub fn all() -> Self {
        Self::normal([Pattern::All])
    }

    /// No name.
    pub fn none() -> Self {
        Self::normal([])
    }

    /// Parses patterns as people write them.
    pub fn read<T: AsRef<str>>(patterns: &[T]) -> Result<Self, InvalidNamePatterns> {
        if patterns.len() > PATTERNS_MAX {
            return Err(InvalidNamePatterns::TooMany);
        }
        let read = |(index, text): (usize, &T)| {
            let not_a_pattern = InvalidNamePatterns::NotAPattern { index, kind: K::WORD, separator: K::SEPARATOR };
            Pattern::read::<K>(text.as_ref()).ok_or(not_a_pattern)
        };
        let patterns: Vec<Pattern> = patterns.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Self::normal(patterns))
    }

    /// The names in both sets.
    #[must_use]
    pub fn narrowed_by(&self, other: &Self) -> Self {
        let pairs = self.patterns.iter().flat_map(|one| other.patterns.iter().map(move |two| (one, two)));
        // The sets are trees: one of two patterns covers the other, or they have no name in common.
        Self::normal(pairs.filter_map(|(one, two)| {
            let smaller = if two.covers::<K>(one) { Some(one) } else { one.covers::<K>(two).then_some(two) };
            smaller.cloned()
        }))
    }

    /// Whether every name in this set is also in the other.
    pub fn is_within(&self, other: &Self) -> bool {
        self.patterns.iter().all(|one| other.patterns.iter().any(|two| two.covers::<K>(one)))
    }

    /// Whether the set contains the name.
    pub fn covers(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.covers_name::<K>(name))
    }

    /// Whether the set contains every name, so that none needs to be checked.
    pub fn is_all(&self) -> bool {
        self.patterns.contains(&Pattern::All)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// The number of patterns.
    pub fn len(&self) -> usize {
        self.patterns.len()
    }

    fn normal(patterns: impl IntoIterator<Item = Pattern>) -> Self {
        let all: BTreeSet<Pattern> = patterns.into_iter().collect();
        let covered = |one: &Pattern| all.iter().any(|two| two != one && two.covers::<K>(one));
        Self { patterns: all.iter().filter(|one| !covered(one)).cloned().collect(), kind: PhantomData }
    }
}

impl Pattern {
    fn read<K: NameKind>(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self::All);
        }
        let below = text.strip_suffix('*').and_then(|text| text.strip_suffix(K::SEPARATOR));
        let name = below.unwrap_or(text);
        let plain = name.len() <= PATTERN_BYTES_MAX
            && !name.chars().any(|character| {
                character == '*' || character == '\\' || character.is_whitespace() || character.is_control()
            });
        let make = if below.is_some() { Self::Under } else { Self::Exactly };
        (plain && has_plain_segments::<K>(name)).then(|| make(name.to_owned()))
    }

    fn covers<K: NameKind>(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (_, Self::All) | (Self::Exactly(_), Self::Under(_)) => false,
            (_, Self::Exactly(name)) => self.covers_name::<K>(name),
            (Self::Under(top), Self::Under(name)) => is_at_or_below::<K>(name, top),
        }
    }

    fn covers_name<K: NameKind>(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Exactly(own) => own == name,
            // A name that climbs (`invoice/../customer/1`) is not below its prefix.
            Self::Under(top) => is_at_or_below::<K>(name, top) && has_plain_segments::<K>(name),
        }
    }

    fn text<K: NameKind>(&self) -> String {
        match self {
            Self::All => "*".to_owned(),
            Self::Exactly(name) => name.clone(),
            Self::Under(name) => format!("{name}{}*", K::SEPARATOR),
        }
    }
}

fn is_at_or_below<K: NameKind>(name: &str, top: &str) -> bool {
    name.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with(K::SEPARATOR))
}

/// Whether a name is where it seems to be: no segment climbs, and none is empty except where a URI allows it: between
/// the slashes after its scheme, and before its path if it has no authority (`file:///`).
fn has_plain_segments<K: NameKind>(name: &str) -> bool {
    let name = with_dots_and_slashes(name);
    let may_be_uri = K::MAY_BE_URIS && !name.contains('\\');
    let mut empty_max = 0_u8;
    name.split([K::SEPARATOR, '\\']).all(|segment| match segment {
        "" => {
            let allowed = empty_max > 0;
            empty_max = empty_max.saturating_sub(1);
            allowed
        }
        "." | ".." => false,
        _ => {
            empty_max = if may_be_uri && is_scheme(segment) { 2 } else { 0 };
            true
        }
    })
}

/// Whether a segment is the scheme of a URI and its colon (RFC 3986).
fn is_scheme(segment: &str) -> bool {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
    segment
        .strip_suffix(':')
        .is_some_and(|scheme| scheme.starts_with(|first: char| first.is_ascii_alphabetic()) && scheme.bytes().all(good))
}

/// Decodes the dots and slashes that a URI may write as `%2e`, `%2f` and `%5c`: readers treat them the same.
fn with_dots_and_slashes(name: &str) -> Cow<'_, str> {
    if !name.contains('%') {
        return Cow::Borrowed(name);
    }
    let written = [("%2e", "."), ("%2E", "."), ("%2f", "/"), ("%2F", "/"), ("%5c", "\\"), ("%5C", "\\")];
    Cow::Owned(written.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to)))
}

impl<K: NameKind> From<NamePatterns<K>> for Vec<String> {
    fn from(names: NamePatterns<K>) -> Self {
        names.patterns.iter().map(Pattern::text::<K>).collect()
    }
}

impl<K: NameKind> TryFrom<Vec<String>> for NamePatterns<K> {
    type Error = InvalidNamePatterns;

    fn try_from(patterns: Vec<String>) -> Result<Self, InvalidNamePatterns> {
        Self::read(&patterns)
    }
}
