//! What a record says about gate 8: which policies made the difference, what they were told beyond the rest of the record, and
//! what policies that are only tried out would have done. The last has words of its own, so that nobody takes it for a verdict.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tool::SideEffectClass;

/// Gate 8, as stored.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyRecord {
    /// The ids of the policies that made the difference: that permit it, or for which it was refused.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub by: Texts,
    /// The scopes of the caller's credential, as policies saw them.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub scopes: Texts,
    /// The caller's groups, as policies saw them; not said by records from before they were kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Texts>,
    /// The task that the client said it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// What the client said it wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// How grave the call is, where the program that it brought decides and is milder than the contract's class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program_class: Option<SideEffectClass>,
    /// What policies that decide nothing would have done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shadow: Option<ShadowRecord>,
}

/// What policies in shadow would have done. Nothing was done because of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShadowRecord {
    /// What they would have done.
    pub would_have: ShadowDecision,
    /// Why, if they would have refused, in a word: `forbidden`, `not_permitted` and so on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// The ids of the policies that would have made the difference.
    #[serde(default, skip_serializing_if = "Texts::is_empty")]
    pub by: Texts,
}

/// What would have been done; deliberately no [`super::Decision`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShadowDecision {
    /// It would have been allowed.
    Allowed,
    /// It would have been refused.
    Refused,
}

/// Texts that many records have in common: a record of them is one more reference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Texts(Option<Arc<[String]>>);

impl ShadowDecision {
    /// As records and screens have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
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
        // No texts are always the same nothing, so that equal ones are equal.
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
