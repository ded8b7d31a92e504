//! API keys: `svk_<id>_<secret>`, shown once, kept as a hash, ending by themselves and revocable.
//!
//! Where keys are kept is the shell's business: it reads the id, looks it up, and lets what it found decide.

use std::{collections::BTreeSet, fmt};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use servanda_contract::{Digest, Timestamp, digest::hex};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use crate::{
    AuthenticatedCaller, CredentialId, CredentialMethod, Secret,
    caller::{GROUPS_MAX, NAME_BYTES_MAX, VerifiedCredential, checked_groups, checked_name, checked_tenant},
    rights::{Rights, Scopes},
    secret::NoRandomness,
};

/// By which secret scanners know one.
pub const PREFIX: &str = "svk_";
/// How long a key may be good: a year and a day.
pub const KEY_LIFETIME_MS_MAX: u64 = 366 * 86_400_000;

const VERSION: u32 = 1;
const ID_BYTES: usize = 10;
const SECRET_BYTES: usize = 32;
const DOMAIN: &[u8] = b"servanda/api-key/v1\0";
/// Characters by which a person recognises a key: 24 of its 256 bits.
const RECOGNISED_CHARS: usize = 4;

/// What a new key is to be.
#[derive(Debug, Clone)]
pub struct ApiKeySpec {
    /// Whose tenant.
    pub tenant: String,
    /// Who it stands for.
    pub principal: String,
    /// The groups they are in.
    pub groups: BTreeSet<String>,
    /// What it is for, in the words of whoever makes it.
    pub label: String,
    /// What it may do.
    pub rights: Rights,
    /// When it ends.
    pub expires_at: Timestamp,
}

/// A new key: what is kept, and what is shown once.
#[derive(Debug)]
pub struct CreatedApiKey {
    /// To keep.
    pub stored: StoredKey,
    /// To show once, and never to keep.
    pub text: Secret,
}

/// What is kept of a key. None of it lets anybody in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredKey {
    version: u32,
    /// By which it is looked up.
    pub id: String,
    secret_digest: Digest,
    /// Whose tenant.
    pub tenant: String,
    /// Who it stands for.
    pub principal: String,
    /// The groups they are in.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// What it is for.
    pub label: String,
    /// Its last characters, for people.
    pub ends_with: String,
    /// What it may do.
    pub rights: Rights,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// When it was revoked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked_at: Option<Timestamp>,
}

/// A key as somebody presented it.
pub struct PresentedKey {
    id: String,
    secret: Zeroizing<Vec<u8>>,
}

/// Why no key was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ApiKeyCreationError {
    /// Only local mode has all scopes.
    #[error("a key needs its scopes by name; only local mode has all of them")]
    AllScopes,
    /// In the past, or too far away.
    #[error("a key ends after now and within 366 days")]
    Lifetime,
    /// Tenant, principal or label.
    #[error(
        "tenant, principal, label and groups are 1 to {NAME_BYTES_MAX} bytes without control characters, and a tenant has no slash"
    )]
    Name,
    /// Too many.
    #[error("more than {GROUPS_MAX} groups")]
    Groups,
    /// The system's fault.
    #[error(transparent)]
    Randomness(#[from] NoRandomness),
}

/// Why a key lets nobody in. What the caller is told is less: see [`crate::bearer::AuthenticationError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Not of the form of a key.
    #[error("not of the form of an API key")]
    Malformed,
    /// No such key, or not its secret: nobody learns which.
    #[error("no such API key")]
    Unknown,
    /// Its time is over.
    #[error("the API key has expired")]
    Expired,
    /// It was taken back.
    #[error("the API key was revoked")]
    Revoked,
    /// Kept by a version of this program that is not ours.
    #[error("the API key is kept in a form this version does not know")]
    Version,
}

/// Makes a key.
pub fn make(terms: ApiKeySpec, now: Timestamp) -> Result<CreatedApiKey, ApiKeyCreationError> {
    let ApiKeySpec { tenant, principal, groups, label, rights, expires_at } = terms;
    if rights.scopes == Scopes::All {
        return Err(ApiKeyCreationError::AllScopes);
    }
    if expires_at <= now || expires_at.since_ms(now) > KEY_LIFETIME_MS_MAX {
        return Err(ApiKeyCreationError::Lifetime);
    }
    checked_tenant(&tenant).map_err(|_| ApiKeyCreationError::Name)?;
    for name in [&principal, &label] {
        checked_name(name).map_err(|_| ApiKeyCreationError::Name)?;
    }
    if groups.len() > GROUPS_MAX {
        return Err(ApiKeyCreationError::Groups);
    }
    checked_groups(groups.iter().map(String::as_str)).map_err(|_| ApiKeyCreationError::Name)?;
    let id = hex(Secret::random(ID_BYTES)?.expose());
    let secret = Secret::random(SECRET_BYTES)?;
    let written = Zeroizing::new(URL_SAFE_NO_PAD.encode(secret.expose()));
    let text = Secret::from(format!("{PREFIX}{id}_{}", *written));
    let stored = StoredKey {
        version: VERSION,
        secret_digest: digest_of(&id, secret.expose()),
        tenant,
        principal,
        groups,
        label,
        ends_with: written.chars().skip(written.len().saturating_sub(RECOGNISED_CHARS)).collect(),
        rights,
        created_at: now,
        expires_at,
        revoked_at: None,
        id,
    };
    Ok(CreatedApiKey { stored, text })
}

impl PresentedKey {
    /// Reads a key. Nothing of it is in the error.
    pub fn read(text: &str) -> Result<Self, KeyError> {
        let (id, secret) =
            text.strip_prefix(PREFIX).and_then(|rest| rest.split_once('_')).ok_or(KeyError::Malformed)?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        // The length first: nothing is decoded that could not be a key.
        let secret_chars = (SECRET_BYTES * 4).div_ceil(3);
        if id.len() != ID_BYTES * 2 || !id.bytes().all(is_hex) || secret.len() != secret_chars {
            return Err(KeyError::Malformed);
        }
        let secret = Zeroizing::new(URL_SAFE_NO_PAD.decode(secret).map_err(|_| KeyError::Malformed)?);
        Ok(Self { id: id.to_owned(), secret })
    }

    /// By which it is looked up.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl StoredKey {
    /// Lets the presenter in, if the key is this one and still good.
    pub fn authenticate(&self, presented: &PresentedKey, now: Timestamp) -> Result<AuthenticatedCaller, KeyError> {
        if self.version != VERSION {
            return Err(KeyError::Version);
        }
        let digest = digest_of(&self.id, &presented.secret);
        let same = verify_slices_are_equal(digest.as_bytes(), self.secret_digest.as_bytes()).is_ok();
        if self.id != presented.id || !same {
            return Err(KeyError::Unknown);
        }
        self.authenticate_as(CredentialMethod::ApiKey, now)
    }

    /// Lets the operator act for the holder of the key, who is not there: to try out what the key may do. What comes of it is on record
    /// as the operator's word. The caller has to be the one who owns the store of keys.
    pub fn authenticate_for_operator(&self, now: Timestamp) -> Result<AuthenticatedCaller, KeyError> {
        if self.version != VERSION {
            return Err(KeyError::Version);
        }
        self.authenticate_as(CredentialMethod::Operator, now)
    }

    /// Who holds it, if it is still good.
    fn authenticate_as(&self, method: CredentialMethod, now: Timestamp) -> Result<AuthenticatedCaller, KeyError> {
        if self.revoked_at.is_some() {
            return Err(KeyError::Revoked);
        }
        let expires_at = self.expires_at.min(self.rights.expires_at);
        if now >= expires_at {
            return Err(KeyError::Expired);
        }
        Ok(VerifiedCredential {
            tenant: self.tenant.clone(),
            principal: self.principal.clone(),
            groups: self.groups.clone(),
            actors: Vec::new(),
            lineage: vec![self.credential()],
            rights: Rights { expires_at, ..self.rights.clone() },
            method,
        }
        .into())
    }

    /// What it is recorded and revoked by.
    pub fn credential(&self) -> CredentialId {
        CredentialId::new("key", &self.id)
    }
}

/// A fast hash is right here: the secret has 256 random bits, and no hash, slow or fast, is inverted by guessing those.
/// Slow ones are for what people think up.
fn digest_of(id: &str, secret: &[u8]) -> Digest {
    let hash = Sha256::new().chain_update(DOMAIN).chain_update(id.as_bytes()).chain_update(b"\0").chain_update(secret);
    Digest::from(<[u8; 32]>::from(hash.finalize()))
}

impl fmt::Debug for PresentedKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PresentedKey").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
