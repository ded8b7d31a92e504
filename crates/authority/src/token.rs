//! Access tokens (RFC 9068 and its variants): verified against an issuer's keys, for our resource, at a time.
//!
//! Two steps, because keys have to be looked up in between: [`UnverifiedToken`] only says which issuer and key to look
//! up, and [`UnverifiedToken::verify`] decides. A token is never passed on: upstreams get a credential that is created
//! for the call.

mod claims;
mod id_token;

use std::collections::BTreeSet;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};
use servanda_contract::{
    Digest, Timestamp,
    json::{JsonLimits, decode},
};
use sha2::{Digest as _, Sha256};

use crate::{
    AuthenticatedCaller, CredentialId, CredentialMethod,
    caller::VerifiedCredential,
    jwks::{KID_BYTES_MAX, KeySet, NoSuchKey},
    rights::{InvalidScopeText, Rights},
    signature::Algorithm,
};

pub use self::id_token::{ExpectedIdToken, IdTokenError, UnverifiedIdToken, VerifiedIdToken};

/// Bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// The most that two clocks may differ.
pub const LEEWAY_MS_MAX: u64 = 120_000;
const DEPTH_MAX: usize = 16;
const DOMAIN: &[u8] = b"servanda/access-token/v1\0";

/// An authorization server whose tokens are accepted.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// `iss`, exactly.
    pub issuer: String,
    /// What `aud` must contain: our resource identifier (RFC 8707).
    pub audience: String,
    /// The algorithms that are accepted from it.
    pub algorithms: Vec<Algorithm>,
    /// The tenant of its users.
    pub tenant: TenantSource,
    /// The claim that names the user; `sub` if `None`.
    pub principal_claim: Option<String>,
    /// A prefix for that name. It distinguishes two issuers of one tenant that both have an `ada`.
    pub principal_prefix: String,
    /// The claim that lists the user's groups; without it no groups are known.
    pub groups_claim: Option<String>,
    /// The most that its tokens allow. A token's scopes and end narrow it.
    pub rights: Rights,
    /// How much its clock may differ from ours, within [`LEEWAY_MS_MAX`].
    pub leeway_ms: u64,
}

/// Where a tenant's name comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantSource {
    /// All users belong to this tenant.
    Fixed(String),
    /// A claim names the tenant.
    Claim {
        /// The claim's name.
        claim: String,
        /// The tenants that this issuer may name; any, if it is the only issuer or trusted with all of them.
        tenants: Option<BTreeSet<String>>,
    },
}

/// A parsed token whose signature is not verified yet.
pub struct UnverifiedToken<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    kid: Option<String>,
    issuer: String,
    claims: Map<String, Value>,
}

/// Why a token is not accepted. The error contains nothing of the token except names of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than any token.
    #[error("the token has more than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// It does not have three parts of base64url, or they are not strict JSON.
    #[error("not of the form of a signed token")]
    Malformed,
    /// An algorithm that no issuer may use here: `none`, a symmetric one, an unknown one.
    #[error("the token's algorithm is not accepted from any issuer")]
    Algorithm,
    /// An algorithm that this issuer may not use.
    #[error("the token's algorithm is not accepted from its issuer")]
    AlgorithmOfIssuer,
    /// It has extensions that must be understood.
    #[error("the token asks for extensions that are not known here")]
    Critical,
    /// Another kind of token.
    #[error("the token is of another kind")]
    Type,
    /// Another issuer's token.
    #[error("the token was issued by another issuer")]
    Issuer,
    /// There is no key to verify it with.
    #[error("there is no key to verify the token with")]
    Key(#[source] NoSuchKey),
    /// It is not signed by the key that it names.
    #[error("the token's signature is wrong")]
    Signature,
    /// It is not for this server.
    #[error("the token is not for this server")]
    Audience,
    /// It has expired.
    #[error("the token has expired")]
    Expired,
    /// It is not valid yet.
    #[error("the token is not valid yet")]
    NotYet,
    /// A claim is missing or has the wrong type.
    #[error("the token's claim `{0}` is missing or has the wrong type")]
    Claim(&'static str),
    /// The configured claim for tenant, principal or groups is missing or malformed.
    #[error("the token has no usable claim for the configured tenant, principal or groups")]
    ConfiguredClaim,
    /// A tenant that the issuer may not name.
    #[error("the token names a tenant that its issuer may not name")]
    Tenant,
    /// Malformed scopes, or too many.
    #[error("the token's scopes are malformed")]
    Scopes(#[source] InvalidScopeText),
    /// Too many actors.
    #[error("the token's chain of actors is too long")]
    Actors,
}

impl<'a> UnverifiedToken<'a> {
    /// Parses a token.
    pub fn read(text: &'a str) -> Result<Self, TokenError> {
        Self::read_of_kind(text, is_access_token)
    }

    /// Parses a token whose `typ` is of that kind.
    fn read_of_kind(text: &'a str, is_of_kind: fn(Option<&Value>) -> bool) -> Result<Self, TokenError> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::TooLong);
        }
        let (signed, signature) = text.rsplit_once('.').ok_or(TokenError::Malformed)?;
        let (header, claims) = signed.split_once('.').ok_or(TokenError::Malformed)?;
        let header = object(header)?;
        let claims = object(claims)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| TokenError::Malformed)?;
        let name = header.get("alg").and_then(Value::as_str).ok_or(TokenError::Malformed)?;
        let algorithm = Algorithm::named(name).ok_or(TokenError::Algorithm)?;
        if header.contains_key("crit") {
            return Err(TokenError::Critical);
        }
        if !is_of_kind(header.get("typ")) {
            return Err(TokenError::Type);
        }
        // Other header members (`jwk`, `jku`, `x5u`, `x5c`) would let a forger supply the key, so they are ignored.
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= KID_BYTES_MAX => Some(kid.clone()),
            Some(_) => return Err(TokenError::Malformed),
        };
        let issuer = claims.get("iss").and_then(Value::as_str).ok_or(TokenError::Claim("iss"))?.to_owned();
        Ok(Self { signed, signature, algorithm, kid, issuer, claims })
    }

    /// The issuer that it claims, for choosing an [`Issuer`]; not verified.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key that it claims, for looking it up; not verified.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Verifies the token.
    pub fn verify(&self, issuer: &Issuer, keys: &KeySet, now: Timestamp) -> Result<AuthenticatedCaller, TokenError> {
        self.verify_signature(issuer, keys)?;
        // From here on the claims are verified.
        let claims = claims::read(&self.claims, issuer, now)?;
        Ok(VerifiedCredential {
            tenant: claims.tenant,
            principal: claims.principal,
            groups: claims.groups,
            actors: claims.actors,
            lineage: vec![self.credential(claims.id.as_deref())],
            rights: claims.rights,
            method: CredentialMethod::AccessToken { issuer: self.issuer.clone() },
        }
        .into())
    }

    /// Verifies that the issuer signed it, with an algorithm that it may use.
    fn verify_signature(&self, issuer: &Issuer, keys: &KeySet) -> Result<(), TokenError> {
        if self.issuer != issuer.issuer {
            return Err(TokenError::Issuer);
        }
        if !issuer.algorithms.contains(&self.algorithm) {
            return Err(TokenError::AlgorithmOfIssuer);
        }
        let key = keys.find(self.kid(), self.algorithm).map_err(TokenError::Key)?;
        key.verify(self.algorithm, self.signed.as_bytes(), &self.signature).map_err(|_| TokenError::Signature)
    }

    /// The signature is not part of the id: with some algorithms two signatures are valid for the same token, and a
    /// revoked token must not come back with the other.
    fn credential(&self, id: Option<&str>) -> CredentialId {
        let signed = || CredentialId::new("token", &id_of("signed", &self.issuer, self.signed));
        id.map_or_else(signed, |id| credential_of_id(&self.issuer, id))
    }
}

/// The id by which a token with a `jti` is recorded and revoked.
pub fn credential_of_id(issuer: &str, jti: &str) -> CredentialId {
    CredentialId::new("token", &id_of("jti", issuer, jti))
}

impl TokenError {
    /// What the caller is told: enough to get a better token, and not which of the checks a forged one passed.
    pub const fn client_message(&self) -> &'static str {
        match self {
            Self::Expired => "the access token has expired",
            Self::NotYet => "the access token is not valid yet",
            Self::Audience => "the access token is not for this server",
            Self::Scopes(_) => "the access token's scopes cannot be read",
            _ => "the access token is not valid here",
        }
    }
}

fn id_of(kind: &str, issuer: &str, id: &str) -> String {
    let mut hash = Sha256::new().chain_update(DOMAIN);
    for part in [kind, issuer, id] {
        hash = hash.chain_update((part.len() as u64).to_be_bytes()).chain_update(part.as_bytes());
    }
    Digest::from(<[u8; 32]>::from(hash.finalize())).hex_prefix(32)
}

fn object(part: &str) -> Result<Map<String, Value>, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    match decode(&bytes, JsonLimits { bytes_max: TOKEN_BYTES_MAX, depth_max: DEPTH_MAX }) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(TokenError::Malformed),
    }
}

/// The same keys sign other kinds of tokens: for logout, for proof of possession, our own for a call.
fn is_access_token(kind: Option<&Value>) -> bool {
    let Some(kind) = kind else { return true };
    let Some(kind) = kind.as_str().map(str::to_ascii_lowercase) else { return false };
    matches!(kind.strip_prefix("application/").unwrap_or(&kind), "jwt" | "at+jwt")
}

impl std::fmt::Debug for UnverifiedToken<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("UnverifiedToken").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
