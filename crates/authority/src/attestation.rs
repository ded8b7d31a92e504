//! The gateway's own signature under what it attests: a person's decision, a warrant. Ed25519, so that the same statement has the same
//! signature on every gateway that shares the key, and that outsiders check it with the published half.
//!
//! A signature covers a domain and the bytes of a statement; a statement of one domain is worth nothing in another. Deliberately not here:
//! what the statements say, and where the seed is stored.

use std::fmt;

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use servanda_contract::{Digest, digest::DigestDomain};

use crate::{Secret, signature::BadSignature};

/// Bytes of the seed that makes a key.
pub const ATTESTATION_SEED_BYTES: usize = 32;
/// Hex digits of a key's id.
const KEY_ID_DIGITS: usize = 16;

/// The key that signs statements.
pub struct AttestationKey {
    pair: Ed25519KeyPair,
    public: AttestationPublicKey,
}

/// The published half of an attestation key.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AttestationPublicKey([u8; 32]);

/// The bytes are not a seed, or the text is not a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an attestation key is `ed25519:` followed by 43 characters of base64url")]
pub struct BadAttestationKey(());

/// The cryptographic library did not sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the statement could not be signed")]
pub struct UnsignedStatement(());

impl AttestationKey {
    /// The key of a seed.
    pub fn from_seed(seed: &Secret) -> Result<Self, BadAttestationKey> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed.expose()).map_err(|_| BadAttestationKey(()))?;
        let public = pair.public_key().as_ref().try_into().map_err(|_| BadAttestationKey(()))?;
        Ok(Self { pair, public: AttestationPublicKey(public) })
    }

    /// The published half.
    pub const fn public(&self) -> &AttestationPublicKey {
        &self.public
    }

    /// Signs a statement of a domain.
    pub fn sign(&self, domain: &str, statement: &[u8]) -> Result<String, UnsignedStatement> {
        let signature = self.pair.try_sign(&message(domain, statement)).map_err(|_| UnsignedStatement(()))?;
        Ok(URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

impl AttestationPublicKey {
    /// The id by which statements name the key.
    pub fn key_id(&self) -> String {
        Digest::compute(DigestDomain::AttestationKey, &[&self.0]).hex_prefix(KEY_ID_DIGITS)
    }

    /// Checks that this key signed the statement in that domain.
    pub fn verify(&self, domain: &str, statement: &[u8], signature: &str) -> Result<(), BadSignature> {
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| BadSignature::new())?;
        let key = UnparsedPublicKey::new(&ED25519, &self.0);
        key.verify(&message(domain, statement), &signature).map_err(|_| BadSignature::new())
    }
}

/// A zero byte ends the domain, which has none.
fn message(domain: &str, statement: &[u8]) -> Vec<u8> {
    [domain.as_bytes(), b"\0", statement].concat()
}

impl fmt::Debug for AttestationKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("AttestationKey").field(&self.public).finish()
    }
}

impl fmt::Display for AttestationPublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "ed25519:{}", URL_SAFE_NO_PAD.encode(self.0))
    }
}

impl From<AttestationPublicKey> for String {
    fn from(key: AttestationPublicKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for AttestationPublicKey {
    type Error = BadAttestationKey;

    fn try_from(text: String) -> Result<Self, BadAttestationKey> {
        let encoded = text.strip_prefix("ed25519:").ok_or(BadAttestationKey(()))?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| BadAttestationKey(()))?;
        bytes.try_into().map(Self).map_err(|_| BadAttestationKey(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_of_one_domain_is_worth_nothing_in_another() {
        let key = AttestationKey::from_seed(&Secret::new([7; ATTESTATION_SEED_BYTES])).unwrap();
        let signature = key.sign("decision", b"yes").unwrap();
        assert_eq!(signature, key.sign("decision", b"yes").unwrap(), "the same on every gateway");
        key.public().verify("decision", b"yes", &signature).unwrap();
        for (domain, statement) in [("warrant", &b"yes"[..]), ("decision", b"yes "), ("decisio", b"n\0yes")] {
            assert!(key.public().verify(domain, statement, &signature).is_err(), "{domain}");
        }
        let other = AttestationKey::from_seed(&Secret::new([8; ATTESTATION_SEED_BYTES])).unwrap();
        assert!(other.public().verify("decision", b"yes", &signature).is_err());
        assert_ne!(key.public().key_id(), other.public().key_id());
        let text = key.public().to_string();
        assert_eq!(AttestationPublicKey::try_from(text).as_ref(), Ok(key.public()));
        assert!(AttestationPublicKey::try_from("ed25519:AAAA".to_owned()).is_err());
        assert!(AttestationKey::from_seed(&Secret::new([7; 31])).is_err());
    }
}
