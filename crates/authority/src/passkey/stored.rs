//! A person's passkey as a store keeps it: whose it is, what the person calls it, and the credential with which the person had signed in.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use servanda_contract::{Timestamp, digest::hex};
use sha2::{Digest as _, Sha256};

use super::RegisteredPasskey;
use crate::CredentialId;

/// Characters of the name that a person gives a passkey.
pub const PASSKEY_NAME_CHARS_MAX: usize = 64;

const HANDLE_DOMAIN: &[u8] = b"servanda/passkey-person/v1\0";
const ID_DOMAIN: &[u8] = b"servanda/passkey-id/v1\0";
/// Characters of the id by which a passkey is recorded and revoked.
const ID_CHARS: usize = 32;

/// A person's passkey. None of it authenticates a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredPasskey {
    /// The version of this form.
    pub version: u32,
    /// The tenant.
    pub tenant: String,
    /// The person.
    pub principal: String,
    /// What the person calls it.
    pub name: String,
    /// The API key with which the person had signed in when registering it: the passkey ends with it. None where the gateway asks for no
    /// credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<CredentialId>,
    /// When it was registered.
    pub created_at: Timestamp,
    /// The passkey, with the counter that it had at its registration.
    pub passkey: RegisteredPasskey,
}

impl StoredPasskey {
    /// The version that this program writes.
    pub const VERSION: u32 = 1;

    /// The handle of its person.
    pub fn handle(&self) -> String {
        passkey_handle(&self.tenant, &self.principal)
    }

    /// The key under which a store has it: the person's handle and the id.
    pub fn store_key(&self) -> String {
        Self::store_key_of(&self.handle(), &self.passkey.credential_id)
    }

    /// The key under which a store has the passkey of that person with that `WebAuthn` id.
    pub fn store_key_of(handle: &str, credential_id: &str) -> String {
        format!("{handle}.{}", id(handle, credential_id))
    }

    /// The id by which it is recorded and revoked. Two people never share one, even if one of them copies the other's `WebAuthn` id.
    pub fn credential(&self) -> CredentialId {
        CredentialId::new("passkey", &id(&self.handle(), &self.passkey.credential_id))
    }
}

/// The name under which authenticators remember a person (`user.id` of `WebAuthn`), in base64url. It says nothing about the person.
pub fn passkey_handle(tenant: &str, principal: &str) -> String {
    let hash =
        Sha256::new().chain_update(HANDLE_DOMAIN).chain_update(tenant).chain_update(b"\0").chain_update(principal);
    URL_SAFE_NO_PAD.encode(hash.finalize())
}

fn id(handle: &str, credential_id: &str) -> String {
    let hash =
        Sha256::new().chain_update(ID_DOMAIN).chain_update(handle).chain_update(b"\0").chain_update(credential_id);
    let mut text = hex(&hash.finalize());
    text.truncate(ID_CHARS);
    text
}
