//! Sets of names, written as patterns: a name, everything under a name, everything. The sets form trees, so that the
//! intersection of two lists of patterns is a list of patterns again, and never longer than both together.
//!
//! Which names a call has is decided elsewhere. A name may itself stand for many (`invoice/*`, as the gates write what a
//! call reads and changes): it is covered only by a pattern that covers all of them.

use std::{collections::BTreeSet, fmt, marker::PhantomData};

use serde::{Deserialize, Serialize};

/// Patterns one list may have.
pub const PATTERNS_MAX: usize = 256;
/// Bytes one pattern may have.
pub const PATTERN_BYTES_MAX: usize = 256;

/// What kind of name: says what separates its segments.
pub trait NameKind: Clone + Copy + fmt::Debug + PartialEq + Eq {
    /// Between two segments.
    const SEPARATOR: char;
    /// What the names are called in sentences.
    const WORD: &'static str;
}

/// Names of contracts: `company.void_invoice`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolName;

/// Names of what calls read and change: `invoice/123`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceName;

/// A set of names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<String>", try_from = "Vec<String>")]
pub struct Names<K: NameKind> {
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

/// Text that is no list of patterns. It does not repeat the text: a credential's parts are not for logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotNames {
    /// More than a list may have.
    #[error("more than {PATTERNS_MAX} patterns")]
    TooMany,
    /// One that is not one.
    #[error("pattern {index} of the {kind} names is none: write a name, a name and `{separator}*`, or `*`")]
    NotAPattern {
        /// Which, counted from zero.
        index: usize,
        /// Of what.
        kind: &'static str,
        /// What stands between segments.
        separator: char,
    },
}

impl NameKind for ToolName {
    const SEPARATOR: char = '.';
    const WORD: &'static str = "tool";
}

impl NameKind for ResourceName {
    const SEPARATOR: char = '/';
    const WORD: &'static str = "resource";
}

impl<K: NameKind> Names<K> {
    /// Every name.
    pub fn all() -> Self {
        Self::normal([Pattern::All])
    }

    /// No name.
    pub fn none() -> Self {
        Self::normal([])
    }

    /// Reads patterns as people write them.
    pub fn read<T: AsRef<str>>(patterns: &[T]) -> Result<Self, NotNames> {
        if patterns.len() > PATTERNS_MAX {
            return Err(NotNames::TooMany);
        }
        let read = |(index, text): (usize, &T)| {
            let not_a_pattern = NotNames::NotAPattern { index, kind: K::WORD, separator: K::SEPARATOR };
            Pattern::read::<K>(text.as_ref()).ok_or(not_a_pattern)
        };
        let patterns: Vec<Pattern> = patterns.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        Ok(Self::normal(patterns))
    }

    /// The names of both.
    #[must_use]
    pub fn narrowed_by(&self, other: &Self) -> Self {
        let pairs = self.patterns.iter().flat_map(|one| other.patterns.iter().map(move |two| (one, two)));
        // The sets are trees: of two patterns one covers the other, or they have no name in common.
        Self::normal(pairs.filter_map(|(one, two)| {
            let smaller = if two.covers::<K>(one) { Some(one) } else { one.covers::<K>(two).then_some(two) };
            smaller.cloned()
        }))
    }

    /// Whether every name here is also there.
    pub fn is_within(&self, other: &Self) -> bool {
        self.patterns.iter().all(|one| other.patterns.iter().any(|two| two.covers::<K>(one)))
    }

    /// Whether the name is one of these.
    pub fn covers(&self, name: &str) -> bool {
        self.patterns.iter().any(|pattern| pattern.covers_name::<K>(name))
    }

    /// Whether it is every name there is, so that none needs to be looked at.
    pub fn is_all(&self) -> bool {
        self.patterns.contains(&Pattern::All)
    }

    /// Whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.patterns.is_empty()
    }

    /// How many patterns it takes to say it.
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
            // A name that climbs (`invoice/../customer/1`) is not below what it begins with.
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

fn has_plain_segments<K: NameKind>(name: &str) -> bool {
    name.split([K::SEPARATOR, '\\']).all(|segment| !matches!(segment, "" | "." | ".."))
}

impl<K: NameKind> From<Names<K>> for Vec<String> {
    fn from(names: Names<K>) -> Self {
        names.patterns.iter().map(Pattern::text::<K>).collect()
    }
}

impl<K: NameKind> TryFrom<Vec<String>> for Names<K> {
    type Error = NotNames;

    fn try_from(patterns: Vec<String>) -> Result<Self, NotNames> {
        Self::read(&patterns)
    }
}
