//! Access tokens (RFC 9068 and what issuers make of it): verified against an issuer's keys, for our resource, at a time.
//!
//! Two steps, because keys have to be looked up in between: [`UnverifiedToken`] says only which issuer and key to look for,
//! and [`UnverifiedToken::verify`] decides. A token is never passed on: what leaves is minted for the call.

mod claims;

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

/// Bytes of a token.
pub const TOKEN_BYTES_MAX: usize = 16 << 10;
/// By how much two clocks may differ, at most.
pub const LEEWAY_MS_MAX: u64 = 120_000;
const DEPTH_MAX: usize = 16;
const DOMAIN: &[u8] = b"servanda/access-token/v1\0";

/// An authorization server whose tokens are taken.
#[derive(Debug, Clone)]
pub struct Issuer {
    /// `iss`, exactly.
    pub issuer: String,
    /// What `aud` must have: our resource identifier (RFC 8707).
    pub audience: String,
    /// Algorithms that are taken from it.
    pub algorithms: Vec<Algorithm>,
    /// Which tenant its users belong to.
    pub tenant: TenantSource,
    /// The claim that names the user; `sub` if none is given.
    pub principal_claim: Option<String>,
    /// What goes before that name. Two issuers of one tenant may both have an `ada`: this tells them apart.
    pub principal_prefix: String,
    /// The claim that lists the user's groups; none are known if it is not given.
    pub groups_claim: Option<String>,
    /// What its tokens allow at most. A token's scopes and end narrow it.
    pub rights: Rights,
    /// By how much its clock may differ from ours, within [`LEEWAY_MS_MAX`].
    pub leeway_ms: u64,
}

/// Where a tenant's name comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantSource {
    /// All are of this one.
    Fixed(String),
    /// A claim says.
    Claim {
        /// Which.
        claim: String,
        /// The tenants this issuer may name; any, if it is the only one or trusted with all of them.
        tenants: Option<BTreeSet<String>>,
    },
}

/// A token that was taken apart and not believed.
pub struct UnverifiedToken<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    kid: Option<String>,
    issuer: String,
    claims: Map<String, Value>,
}

/// Why a token is not taken. Nothing of the token is in it but names of claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Longer than any token.
    #[error("the token has more than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    /// Not three parts of base64url, or not strict JSON in them.
    #[error("not of the form of a signed token")]
    Malformed,
    /// An algorithm that nobody may use here: `none`, a symmetric one, an unknown one.
    #[error("the token's algorithm is not taken from anybody")]
    Algorithm,
    /// One that this issuer may not use.
    #[error("the token's algorithm is not taken from its issuer")]
    AlgorithmOfIssuer,
    /// Extensions that must be understood.
    #[error("the token asks for extensions that are not known here")]
    Critical,
    /// Some other kind of token.
    #[error("the token is not an access token")]
    Type,
    /// Not of the issuer it is checked for.
    #[error("the token is of another issuer")]
    Issuer,
    /// No key to check it with.
    #[error("no key for the token")]
    Key(#[source] NoSuchKey),
    /// Not signed by the key it names.
    #[error("the token's signature is wrong")]
    Signature,
    /// Not for us.
    #[error("the token is not for this server")]
    Audience,
    /// Over.
    #[error("the token has expired")]
    Expired,
    /// Not begun.
    #[error("the token is not yet good")]
    NotYet,
    /// A claim is missing or not of its type.
    #[error("the token's claim `{0}` is missing or not of its type")]
    Claim(&'static str),
    /// The configured claim for tenant, principal or groups.
    #[error("the token has no usable claim for the configured tenant, principal or groups")]
    ConfiguredClaim,
    /// A tenant that the issuer has no say in.
    #[error("the token names a tenant that its issuer may not name")]
    Tenant,
    /// Scopes that are none, or too many.
    #[error("the token's scopes are not scopes")]
    Scopes(#[source] InvalidScopeText),
    /// More actors than are followed.
    #[error("the token's chain of actors is too long")]
    Actors,
}

impl<'a> UnverifiedToken<'a> {
    /// Takes a token apart.
    pub fn read(text: &'a str) -> Result<Self, TokenError> {
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
        if !is_access_token(header.get("typ")) {
            return Err(TokenError::Type);
        }
        // Whatever else a header brings along (`jwk`, `jku`, `x5u`, `x5c`) is an offer of keys by whoever forged it.
        let kid = match header.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= KID_BYTES_MAX => Some(kid.clone()),
            Some(_) => return Err(TokenError::Malformed),
        };
        let issuer = claims.get("iss").and_then(Value::as_str).ok_or(TokenError::Claim("iss"))?.to_owned();
        Ok(Self { signed, signature, algorithm, kid, issuer, claims })
    }

    /// Who it says it is of, for choosing an [`Issuer`]; not to be believed.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The key it says it was signed with, for looking it up; not to be believed.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Decides.
    pub fn verify(&self, issuer: &Issuer, keys: &KeySet, now: Timestamp) -> Result<AuthenticatedCaller, TokenError> {
        if self.issuer != issuer.issuer {
            return Err(TokenError::Issuer);
        }
        if !issuer.algorithms.contains(&self.algorithm) {
            return Err(TokenError::AlgorithmOfIssuer);
        }
        let key = keys.find(self.kid(), self.algorithm).map_err(TokenError::Key)?;
        key.verify(self.algorithm, self.signed.as_bytes(), &self.signature).map_err(|_| TokenError::Signature)?;
        // From here on it is the issuer who speaks.
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

    /// The signature is not part of it: of some algorithms two signatures are good for the same token, and a revoked one
    /// must not come back with the other.
    fn credential(&self, id: Option<&str>) -> CredentialId {
        id.map_or_else(|| credential_of("signed", &self.issuer, self.signed), |id| credential_of_id(&self.issuer, id))
    }
}

/// What a token with a `jti` is recorded and revoked by.
pub fn credential_of_id(issuer: &str, jti: &str) -> CredentialId {
    credential_of("jti", issuer, jti)
}

impl TokenError {
    /// What the caller is told: enough to get a better token, and not which of the checks a forged one passed.
    pub const fn client_message(&self) -> &'static str {
        match self {
            Self::Expired => "the access token has expired",
            Self::NotYet => "the access token is not yet good",
            Self::Audience => "the access token is not for this server",
            Self::Scopes(_) => "the access token's scopes cannot be read",
            _ => "the access token is not valid here",
        }
    }
}

fn credential_of(kind: &str, issuer: &str, id: &str) -> CredentialId {
    let mut hash = Sha256::new().chain_update(DOMAIN);
    for part in [kind, issuer, id] {
        hash = hash.chain_update((part.len() as u64).to_be_bytes()).chain_update(part.as_bytes());
    }
    CredentialId::new("token", &Digest::from(<[u8; 32]>::from(hash.finalize())).hex_prefix(32))
}

fn object(part: &str) -> Result<Map<String, Value>, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| TokenError::Malformed)?;
    match decode(&bytes, JsonLimits { bytes_max: TOKEN_BYTES_MAX, depth_max: DEPTH_MAX }) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(TokenError::Malformed),
    }
}

/// Other kinds of tokens are signed by the same keys: of a logout, of a proof of possession, our own of a call.
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
