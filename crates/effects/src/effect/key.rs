//! Identifiers: handles of effects, owners, and the keys that effects are looked up by.

use std::fmt;

use serde::{Deserialize, Serialize};
use servanda_contract::{CallId, Digest};

/// Identifies one effect forever: the handle in answers and in `servanda effects`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EffectId(String);

/// The key that an effect is looked up by. The payload is only compared, never looked up, and a caller cannot
/// name another caller's key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EffectKey {
    /// The tenant.
    pub tenant: String,
    /// The authenticated principal.
    pub principal: String,
    /// The contract's name.
    pub tool: String,
    /// The contract's major version.
    pub contract_major: u64,
    /// The client's key, or the gateway's own if the client gave none.
    pub client_key: ClientKey,
}

/// Where a key comes from. Keys of different origins are never equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ClientKey {
    /// The client gave the key itself.
    Given(String),
    /// Derived from the operation or step the client named.
    Derived(Digest),
    /// The client gave none: this call is an operation of its own.
    Call(CallId),
}

/// A process that performs effects. A restarted process is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(String);

impl EffectId {
    /// A new id; ids made later sort later.
    pub fn new() -> Self {
        Self(format!("eff_{}", uuid::Uuid::now_v7().simple()))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for EffectId {
    fn default() -> Self {
        Self::new()
    }
}

impl OwnerId {
    /// A new id, for a process that has just started.
    pub fn new() -> Self {
        Self(format!("own_{}", uuid::Uuid::now_v7().simple()))
    }

    /// The text form.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for OwnerId {
    fn default() -> Self {
        Self::new()
    }
}

impl ClientKey {
    /// Whether the client may use the key again.
    pub const fn can_come_again(&self) -> bool {
        !matches!(self, Self::Call(_))
    }
}

impl From<String> for EffectId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<String> for OwnerId {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for EffectId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Display for ClientKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(key) => write!(formatter, "key:{key}"),
            Self::Derived(digest) => write!(formatter, "derived:{digest}"),
            Self::Call(call_id) => write!(formatter, "call:{call_id}"),
        }
    }
}

impl From<ClientKey> for String {
    fn from(key: ClientKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for ClientKey {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(':') {
            Some(("key", key)) => Ok(Self::Given(key.to_owned())),
            Some(("call", call_id)) => Ok(Self::Call(CallId::from(call_id.to_owned()))),
            Some(("derived", digest)) => {
                Digest::try_from(digest.to_owned()).map(Self::Derived).map_err(|error| error.to_string())
            }
            _ => Err("a stored key begins with `key:`, `derived:` or `call:`".to_owned()),
        }
    }
}
