//! OAuth scopes: words by RFC 6749, compared exactly, in sets. No word implies another, and no word means all of them.

use std::{collections::BTreeSet, fmt};

use serde::{Deserialize, Serialize};

/// Scopes one set may have.
pub const SCOPES_MAX: usize = 128;
/// Bytes one scope may have.
pub const SCOPE_BYTES_MAX: usize = 128;

/// The scope of credentials for people: they sign in to the console, and are refused at every door for agents. A word like any other, so a
/// credential has it only if its maker named it.
pub const CONSOLE_SCOPE: &str = "servanda:console";

/// The scope of credentials for monitors: they read the figures at `/metrics`, and are refused at every door for agents.
pub const METRICS_SCOPE: &str = "servanda:metrics";

/// One scope.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Scope(String);

/// The scopes of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "ScopesText", try_from = "ScopesText")]
pub enum Scopes {
    /// All scopes. Only local mode and its delegations have them; no token can say so.
    All,
    /// Only these.
    These(BTreeSet<Scope>),
}

/// The text is not a scope, or has too many. The error does not repeat the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidScopeText {
    /// RFC 6749 allows visible ASCII without `"` and `\`.
    #[error("a scope is 1 to {SCOPE_BYTES_MAX} visible ASCII characters without `\"` and `\\`")]
    NotAScope,
    /// Too many scopes.
    #[error("more than {SCOPES_MAX} scopes")]
    TooMany,
}

impl Scope {
    /// Parses one word.
    pub fn read(text: &str) -> Result<Self, InvalidScopeText> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
        let good = (1..=SCOPE_BYTES_MAX).contains(&text.len()) && text.bytes().all(allowed);
        if good { Ok(Self(text.to_owned())) } else { Err(InvalidScopeText::NotAScope) }
    }

    /// The word.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Scopes {
    /// No scopes.
    pub fn none() -> Self {
        Self::These(BTreeSet::new())
    }

    /// Parses these words.
    pub fn from_words<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> Result<Self, InvalidScopeText> {
        let mut scopes = BTreeSet::new();
        for word in words {
            scopes.insert(Scope::read(word.as_ref())?);
            if scopes.len() > SCOPES_MAX {
                return Err(InvalidScopeText::TooMany);
            }
        }
        Ok(Self::These(scopes))
    }

    /// Parses a `scope` parameter or claim: words separated by spaces.
    pub fn parse_line(line: &str) -> Result<Self, InvalidScopeText> {
        Self::from_words(line.split(' ').filter(|word| !word.is_empty()))
    }

    /// The scopes in both sets.
    #[must_use]
    pub fn narrowed_by(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, scopes) | (scopes, Self::All) => scopes.clone(),
            (Self::These(one), Self::These(two)) => Self::These(one.intersection(two).cloned().collect()),
        }
    }

    /// Whether all scopes of this set are in the other.
    pub fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::All) => true,
            (Self::All, Self::These(_)) => false,
            (Self::These(one), Self::These(two)) => one.is_subset(two),
        }
    }

    /// Whether this set has a scope by name. The set of all scopes names none.
    pub fn names(&self, scope: &str) -> bool {
        match self {
            Self::All => false,
            Self::These(own) => own.iter().any(|own| own.as_str() == scope),
        }
    }

    /// The scopes of `required` that are missing here.
    pub fn missing(&self, required: &BTreeSet<Scope>) -> BTreeSet<Scope> {
        match self {
            Self::All => BTreeSet::new(),
            Self::These(own) => required.difference(own).cloned().collect(),
        }
    }

    /// The words in one line, for a `scope` member; `None` for all scopes, because no word means that.
    pub fn line(&self) -> Option<String> {
        match self {
            Self::All => None,
            Self::These(scopes) => Some(line(scopes)),
        }
    }
}

/// Scopes in one line, separated by spaces.
pub fn line(scopes: &BTreeSet<Scope>) -> String {
    scopes.iter().map(Scope::as_str).collect::<Vec<_>>().join(" ")
}

/// How a set is written: the string `"all"`, or a list, in which `all` is a word like any other.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum ScopesText {
    Word(String),
    List(Vec<String>),
}

impl From<Scopes> for ScopesText {
    fn from(scopes: Scopes) -> Self {
        match scopes {
            Scopes::All => Self::Word("all".to_owned()),
            Scopes::These(scopes) => Self::List(scopes.into_iter().map(|scope| scope.0).collect()),
        }
    }
}

impl TryFrom<ScopesText> for Scopes {
    type Error = InvalidScopeText;

    fn try_from(text: ScopesText) -> Result<Self, InvalidScopeText> {
        match text {
            ScopesText::Word(word) if word == "all" => Ok(Self::All),
            ScopesText::Word(_) => Err(InvalidScopeText::NotAScope),
            ScopesText::List(words) => Self::from_words(words),
        }
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.0
    }
}

impl TryFrom<String> for Scope {
    type Error = InvalidScopeText;

    fn try_from(text: String) -> Result<Self, InvalidScopeText> {
        Self::read(&text)
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}
