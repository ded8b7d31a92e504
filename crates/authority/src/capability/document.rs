//! The contents of an agent credential: the root that we wrote, and the caveats that any holder may have added.

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use servanda_contract::{
    Timestamp,
    json::{JsonLimits, decode},
};

use super::{CREDENTIAL_BYTES_MAX, CapabilityError};
use crate::{
    Actor, CredentialBudget, CredentialId,
    rights::{Narrowing, Rights},
};

/// The most credentials that one derives from.
pub const LINEAGE_MAX: usize = 32;
const DEPTH_MAX: usize = 8;

/// The part that we wrote.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CredentialRoot {
    pub(super) id: String,
    pub(super) key_id: String,
    pub(super) tenant: String,
    pub(super) principal: String,
    /// The user's groups when it was created.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) groups: BTreeSet<String>,
    /// The acting agent first.
    pub(super) actors: Vec<Actor>,
    /// The credentials that it derives from.
    pub(super) lineage: Vec<CredentialId>,
    pub(super) issued_at: Timestamp,
    pub(super) rights: Rights,
    /// The budgets of the credentials that it derives from: what is spent under this one is charged there too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) budgets: Vec<CredentialBudget>,
}

/// What a holder removes, and the agent to whom the holder delegates, if any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caveat {
    /// The next agent, as named by the holder. Naming one uses up a delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// What is removed.
    #[serde(default)]
    pub narrowing: Narrowing,
}

impl CredentialRoot {
    pub(super) fn read(part: &str) -> Result<Self, CapabilityError> {
        read(part)
    }
}

impl Caveat {
    pub(super) fn read(part: &str) -> Result<Self, CapabilityError> {
        read(part)
    }
}

fn read<T: DeserializeOwned>(part: &str) -> Result<T, CapabilityError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| CapabilityError::Malformed)?;
    let limits = JsonLimits { bytes_max: CREDENTIAL_BYTES_MAX, depth_max: DEPTH_MAX };
    let value = decode(&bytes, limits).map_err(|_| CapabilityError::Malformed)?;
    serde_json::from_value(value).map_err(|_| CapabilityError::Malformed)
}
