//! What stands in an agent credential: the root that we wrote, and the caveats that anybody may have.

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

/// Credentials that one comes from, at most.
pub const LINEAGE_MAX: usize = 32;
const DEPTH_MAX: usize = 8;

/// What we wrote.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CredentialRoot {
    pub(super) id: String,
    pub(super) key_id: String,
    pub(super) tenant: String,
    pub(super) principal: String,
    /// The groups the user was in when it was made.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) groups: BTreeSet<String>,
    /// The one who acts now first.
    pub(super) actors: Vec<Actor>,
    /// What it comes from.
    pub(super) lineage: Vec<CredentialId>,
    pub(super) issued_at: Timestamp,
    pub(super) rights: Rights,
    /// Of what it comes from: what is drawn under this one is drawn there too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) budgets: Vec<CredentialBudget>,
}

/// What a holder takes away, and whom it is handed on to, if it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Caveat {
    /// The next agent, by the holder's word. Naming one uses up a delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// What is taken away.
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
