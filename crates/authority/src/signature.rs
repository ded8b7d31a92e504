//! The signatures that we accept on access tokens and by passkeys: four algorithms, each with one kind of key. There is no
//! symmetric algorithm and no `none`, so a token cannot ask for either. Tokens and passkeys write ECDSA signatures in different
//! forms, and neither form is accepted in place of the other.
//!
//! This uses aws-lc-rs directly. A token library would keep the last of duplicate claims and read the clock, both of
//! which must be our decision, and its choice of cryptography is a process-wide setting that panics if it was not made.

use std::fmt;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, ED25519, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::{Deserialize, Serialize};

/// Bytes of an RSA modulus: 2048 to 8192 bits.
const MODULUS_BYTES: std::ops::RangeInclusive<usize> = 256..=1024;
/// Bytes of an RSA exponent. 65537 has three; longer ones only cost time.
const EXPONENT_BYTES_MAX: usize = 4;
/// Bytes of a coordinate on P-256, and of an Ed25519 key.
const COORDINATE_BYTES: usize = 32;

/// An algorithm, by its name in RFC 7518 and RFC 8037.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// RSA, PKCS #1 v1.5, SHA-256.
    #[serde(rename = "RS256")]
    Rs256,
    /// RSA, PSS, SHA-256.
    #[serde(rename = "PS256")]
    Ps256,
    /// ECDSA on P-256, SHA-256.
    #[serde(rename = "ES256")]
    Es256,
    /// Ed25519.
    #[serde(rename = "EdDSA")]
    EdDsa,
}

/// A public key of one kind. The kind decides which algorithms it can be used with, never a token.
#[derive(Clone, PartialEq, Eq)]
pub enum PublicKey {
    /// RSA.
    Rsa {
        /// Big-endian, without leading zeros.
        modulus: Vec<u8>,
        /// Big-endian, without leading zeros.
        exponent: Vec<u8>,
    },
    /// A point on P-256, uncompressed.
    P256(Vec<u8>),
    /// Ed25519.
    Ed25519(Vec<u8>),
}

/// The signature is not by this key over these bytes, or not by an algorithm for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the signature is not by this key")]
pub struct BadSignature(());

impl BadSignature {
    pub(crate) const fn new() -> Self {
        Self(())
    }
}

impl Algorithm {
    /// By its registered name, which is compared exactly.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Rs256, Self::Ps256, Self::Es256, Self::EdDsa].into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// The registered name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::Es256 => "ES256",
            Self::EdDsa => "EdDSA",
        }
    }
}

impl PublicKey {
    /// An RSA key of 2048 to 8192 bits.
    pub(crate) fn rsa(modulus: Vec<u8>, exponent: Vec<u8>) -> Option<Self> {
        let minimal = |number: &[u8]| number.first().is_some_and(|byte| *byte != 0);
        let odd = |number: &[u8]| number.last().is_some_and(|byte| byte % 2 == 1);
        let good = minimal(&modulus)
            && minimal(&exponent)
            && MODULUS_BYTES.contains(&modulus.len())
            && exponent.len() <= EXPONENT_BYTES_MAX
            && odd(&exponent)
            && exponent != [1];
        good.then_some(Self::Rsa { modulus, exponent })
    }

    /// A point on P-256; each verification checks that it is on the curve.
    pub(crate) fn p256(x: &[u8], y: &[u8]) -> Option<Self> {
        let good = x.len() == COORDINATE_BYTES && y.len() == COORDINATE_BYTES;
        good.then(|| Self::P256([&[4], x, y].concat()))
    }

    /// An Ed25519 key.
    pub(crate) fn ed25519(key: Vec<u8>) -> Option<Self> {
        (key.len() == COORDINATE_BYTES).then_some(Self::Ed25519(key))
    }

    /// Whether the algorithm is one for this kind of key.
    pub const fn fits(&self, algorithm: Algorithm) -> bool {
        matches!(
            (self, algorithm),
            (Self::Rsa { .. }, Algorithm::Rs256 | Algorithm::Ps256)
                | (Self::P256(_), Algorithm::Es256)
                | (Self::Ed25519(_), Algorithm::EdDsa)
        )
    }

    /// Whether it is worth keeping: a point on its curve, or a modulus of 2048 bits or more.
    pub(crate) fn is_strong(&self) -> bool {
        match self {
            Self::Rsa { modulus, .. } => {
                let fills_its_bytes = modulus.first().is_some_and(|byte| byte.leading_zeros() == 0);
                modulus.len() > *MODULUS_BYTES.start() || fills_its_bytes
            }
            Self::P256(point) => ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).is_ok(),
            Self::Ed25519(key) => ParsedPublicKey::new(&ED25519, key).is_ok(),
        }
    }

    /// Checks that a passkey with this key made the signature. The kind of key decides the algorithm: `ES256`, `EdDSA` or `RS256`.
    /// `WebAuthn` writes an ECDSA signature in ASN.1, and JWS as two numbers.
    pub(crate) fn verify_passkey(&self, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        match self {
            Self::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point)
                .verify(message, signature)
                .map_err(|_| BadSignature(())),
            Self::Ed25519(_) => self.verify(Algorithm::EdDsa, message, signature),
            Self::Rsa { .. } => self.verify(Algorithm::Rs256, message, signature),
        }
    }

    /// Checks that the signature is by this key.
    pub fn verify(&self, algorithm: Algorithm, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        let verified = match (self, algorithm) {
            (Self::Rsa { modulus, exponent }, Algorithm::Rs256) => RsaPublicKeyComponents { n: modulus, e: exponent }
                .verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            (Self::Rsa { modulus, exponent }, Algorithm::Ps256) => {
                RsaPublicKeyComponents { n: modulus, e: exponent }.verify(&RSA_PSS_2048_8192_SHA256, message, signature)
            }
            (Self::P256(point), Algorithm::Es256) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            (Self::Ed25519(key), Algorithm::EdDsa) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
            _ => return Err(BadSignature(())),
        };
        verified.map_err(|_| BadSignature(()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Rsa { .. } => "PublicKey::Rsa",
            Self::P256(_) => "PublicKey::P256",
            Self::Ed25519(_) => "PublicKey::Ed25519",
        })
    }
}
