//! ID tokens (`OpenID` Connect Core 1.0): who signed in at an identity provider, for which client and in which sign-in.
//!
//! Their form, keys, signature, times and claims are read as those of access tokens are, so that one issuer's tokens of both kinds name the
//! same user. What is checked here is what an ID token has more: that it is for our client alone, belongs to this sign-in, and how long ago the
//! person showed who they are. An ID token opens no door for agents, and an access token signs nobody in.

use std::collections::BTreeSet;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;
use servanda_contract::Timestamp;
use sha2::{Digest as _, Sha256, Sha512};

use super::{
    Issuer, LEEWAY_MS_MAX, TokenError, UnverifiedToken,
    claims::{self, ClaimedUser},
    id_of,
};
use crate::{CredentialId, Secret, jwks::KeySet, signature::Algorithm};

/// Bytes of a subject (`OpenID` Connect Core §2).
const SUBJECT_BYTES_MAX: usize = 255;
/// The claim of an address, which counts only if the provider has verified it.
const EMAIL: &str = "email";

/// A parsed ID token whose signature is not verified yet.
pub struct UnverifiedIdToken<'a>(UnverifiedToken<'a>);

/// What an ID token is checked against, beside its issuer. The issuer's `audience` is our client id.
#[derive(Debug, Clone, Copy)]
pub struct ExpectedIdToken<'a> {
    /// What was sent when this sign-in began.
    pub nonce: &'a Secret,
    /// The access token that came with it.
    pub access_token: &'a Secret,
    /// If the provider was told to ask the person again: when. The person must have shown who they are after that.
    pub asked_again_at: Option<Timestamp>,
}

/// A verified ID token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedIdToken {
    tenant: String,
    principal: String,
    groups: BTreeSet<String>,
    credential: CredentialId,
    asked_again_at: Option<Timestamp>,
}

/// Why an ID token signs nobody in. The error contains nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdTokenError {
    /// It is wrong as a token of any kind would be.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// It was made for another sign-in.
    #[error("the ID token belongs to another sign-in: its nonce is missing or another one")]
    Nonce,
    /// It was issued to another client, or to several.
    #[error("the ID token was issued to another client: its `azp` is missing or another one")]
    AuthorizedParty,
    /// It came with another access token than it says.
    #[error("the ID token belongs to another access token: its `at_hash` is another one")]
    AccessTokenHash,
    /// The person did not show again who they are, although that was asked.
    #[error("the ID token does not say that the person was asked again: its `auth_time` is missing or too old")]
    NotAskedAgain,
    /// The address that names the person was not verified.
    #[error("the ID token names the person by an address that the provider has not verified")]
    UnverifiedEmail,
}

impl<'a> UnverifiedIdToken<'a> {
    /// Parses an ID token.
    pub fn read(text: &'a str) -> Result<Self, TokenError> {
        UnverifiedToken::read_of_kind(text, is_id_token).map(Self)
    }

    /// The key that it claims, for looking it up; not verified.
    pub fn kid(&self) -> Option<&str> {
        self.0.kid()
    }

    /// Verifies the ID token.
    pub fn verify(
        &self,
        issuer: &Issuer,
        keys: &KeySet,
        expected: &ExpectedIdToken<'_>,
        now: Timestamp,
    ) -> Result<VerifiedIdToken, IdTokenError> {
        self.0.verify_signature(issuer, keys)?;
        // From here on the claims are verified.
        self.require_our_client(&issuer.audience)?;
        claims::times(&self.0.claims, issuer, now)?;
        if claims::moment_ms(&self.0.claims, "iat")?.is_none() {
            return Err(TokenError::Claim("iat").into());
        }
        let nonce = self.text("nonce").unwrap_or_default();
        if nonce.is_empty() || verify_slices_are_equal(nonce.as_bytes(), expected.nonce.expose()).is_err() {
            return Err(IdTokenError::Nonce);
        }
        self.require_access_token(expected.access_token)?;
        let asked_again_at = match expected.asked_again_at {
            Some(asked_at) => Some(self.asked_again_at(asked_at, issuer, now)?),
            None => None,
        };
        let is_subject = |subject: &&str| (1..=SUBJECT_BYTES_MAX).contains(&subject.len());
        self.text("sub").filter(is_subject).ok_or(TokenError::Claim("sub"))?;
        let is_verified = self.0.claims.get("email_verified") == Some(&Value::Bool(true));
        if issuer.principal_claim.as_deref() == Some(EMAIL) && !is_verified {
            return Err(IdTokenError::UnverifiedEmail);
        }
        let ClaimedUser { tenant, principal, groups } = claims::user(&self.0.claims, issuer)?;
        let credential = CredentialId::new("oidc", &id_of("id-token", &self.0.issuer, self.0.signed));
        Ok(VerifiedIdToken { tenant, principal, groups, credential, asked_again_at })
    }

    fn text(&self, claim: &str) -> Option<&str> {
        self.0.claims.get(claim)?.as_str()
    }

    /// `aud` names our client, exactly as it is written. If it names others as well, or if there is an `azp`, that one says which client asked.
    fn require_our_client(&self, client: &str) -> Result<(), IdTokenError> {
        let audiences = claims::audiences(&self.0.claims)?;
        if !audiences.contains(&client) {
            return Err(TokenError::Audience.into());
        }
        match self.0.claims.get("azp") {
            None if audiences.len() == 1 => Ok(()),
            Some(Value::String(party)) if party == client => Ok(()),
            _ => Err(IdTokenError::AuthorizedParty),
        }
    }

    /// `at_hash`, if it is there: the left half of the access token's hash, by the hash of the ID token's algorithm.
    fn require_access_token(&self, access_token: &Secret) -> Result<(), IdTokenError> {
        let Some(written) = self.0.claims.get("at_hash") else { return Ok(()) };
        let half = |hash: &[u8]| hash.get(..hash.len() / 2).map(|half| URL_SAFE_NO_PAD.encode(half));
        let computed = match self.0.algorithm {
            Algorithm::Rs256 | Algorithm::Ps256 | Algorithm::Es256 => half(&Sha256::digest(access_token.expose())),
            // Ed25519 hashes with SHA-512.
            Algorithm::EdDsa => half(&Sha512::digest(access_token.expose())),
        };
        if computed.is_some() && written.as_str() == computed.as_deref() {
            Ok(())
        } else {
            Err(IdTokenError::AccessTokenHash)
        }
    }

    /// When the person showed who they are, which must be after they were asked; never later than now.
    fn asked_again_at(&self, asked_at: Timestamp, issuer: &Issuer, now: Timestamp) -> Result<Timestamp, IdTokenError> {
        let leeway_ms = issuer.leeway_ms.min(LEEWAY_MS_MAX);
        let shown_ms = claims::moment_ms(&self.0.claims, "auth_time")?.ok_or(IdTokenError::NotAskedAgain)?;
        // The claim has whole seconds, and the provider's clock may be behind ours.
        let is_after = shown_ms.saturating_add(leeway_ms).saturating_add(1_000) > asked_at.unix_ms();
        let is_past = shown_ms <= now.unix_ms().saturating_add(leeway_ms);
        if !is_after || !is_past {
            return Err(IdTokenError::NotAskedAgain);
        }
        Ok(Timestamp::from_unix_ms(shown_ms).min(now))
    }
}

impl VerifiedIdToken {
    /// The tenant that the person belongs to.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The person, by the name that an access token of the same issuer gives them.
    pub fn principal(&self) -> &str {
        &self.principal
    }

    /// The person's groups.
    pub fn groups(&self) -> &BTreeSet<String> {
        &self.groups
    }

    /// The id by which this sign-in is recorded and revoked.
    pub fn credential(&self) -> &CredentialId {
        &self.credential
    }

    /// When the person showed who they are, if the provider was told to ask them.
    pub fn asked_again_at(&self) -> Option<Timestamp> {
        self.asked_again_at
    }
}

/// Providers write `JWT` or nothing. Whatever names another kind is of another kind: access tokens, logout tokens, proofs.
fn is_id_token(kind: Option<&Value>) -> bool {
    let Some(kind) = kind else { return true };
    let Some(kind) = kind.as_str().map(str::to_ascii_lowercase) else { return false };
    kind.strip_prefix("application/").unwrap_or(&kind) == "jwt"
}

impl std::fmt::Debug for UnverifiedIdToken<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("UnverifiedIdToken").field(&self.0).finish()
    }
}

#[cfg(test)]
mod tests;
