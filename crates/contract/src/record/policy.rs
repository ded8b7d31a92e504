//! What a record says about gate 8: which policies decided, their inputs that are not elsewhere in the record, and what
//! policies in shadow mode would have done. The shadow result has its own words, so that no reader takes it for a verdict.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tool::SideEffectClass;

/// Gate 8, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRecord {
    /// The ids of the policies that decided: those that permit the call, or those that made it refused.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub by: Texts,
    /// The scopes of the caller's credential, as policies saw them.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub scopes: Texts,
    /// The caller's groups, as policies saw them; absent in records from before groups were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Texts>,
    /// The task that the client named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The intent that the client stated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// How grave the call is, if the program in its arguments decides that and is milder than the contract's class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_class: Option<SideEffectClass>,
    /// What policies in shadow mode would have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowRecord>,
}

/// What policies in shadow mode would have done. It has no consequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowRecord {
    /// What they would have done.
    pub would_have: ShadowDecision,
    /// Why, in a word: for a refusal `forbidden`, `not_permitted` and so on; for an approval its pattern.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The ids of the policies that would have decided.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub by: Texts,
}

/// A shadow result; deliberately not a [`super::Decision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShadowDecision {
    /// It would have been allowed.
    Allowed,
    /// It would have been held until people approve it.
    Approval,
    /// It would have been refused.
    Refused,
}

/// Texts that many records share: another record of them costs only a reference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts(Option<Arc<[String]>>);

impl ShadowDecision {
    /// The word in records and on screens.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Approval => "approval",
            Self::Refused => "refused",
        }
    }
}

impl Texts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }

    /// The texts.
    pub fn as_slice(&self) -> &[String] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl FromIterator<String> for Texts {
    fn from_iter<I: IntoIterator<Item = String>>(texts: I) -> Self {
        let texts: Arc<[String]> = texts.into_iter().collect();
        // An empty list is always `None`, so that equal lists compare equal.
        Self((!texts.is_empty()).then_some(texts))
    }
}

impl Serialize for Texts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.as_slice().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Texts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::<String>::deserialize(deserializer).map(Self::from_iter)
    }
}
