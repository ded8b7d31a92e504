//! Sets of an issuer's public keys (RFC 7517): parsed strictly, bounded, and reduced to keys that can verify a
//! signature.
//!
//! The shell fetches the set, and [`crate::key_cache`] decides when.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Map, Value};
use servanda_contract::json::{JsonLimits, StrictError, decode};

use crate::signature::{Algorithm, PublicKey};

/// Bytes a set may have.
pub const SET_BYTES_MAX: usize = 256 << 10;
/// Keys a set may have.
pub const KEYS_MAX: usize = 64;
/// Bytes of a key's id.
pub const KID_BYTES_MAX: usize = 256;
const DEPTH_MAX: usize = 8;

/// The keys of one issuer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet {
    keys: Vec<IssuerKey>,
    left_out: Vec<UnusedIssuerKey>,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuerKey {
    kid: Option<String>,
    /// The one algorithm that it is for, if the issuer says so.
    algorithm: Option<Algorithm>,
    key: PublicKey,
}

/// An ignored key of the set, for the operator's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusedIssuerKey {
    /// The key's index, from zero.
    pub index: usize,
    /// The reason.
    pub reason: UnusedIssuerKeyReason,
}

/// Why a key is ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnusedIssuerKeyReason {
    /// It is for encryption, or of a kind that we do not accept.
    #[error("not for signatures, or of a kind or algorithm that is not accepted here")]
    Kind,
    /// Its parts are missing, malformed or too weak.
    #[error("its parts are missing, malformed or too weak")]
    Malformed,
    /// The set also contains its private half: its signatures prove nothing.
    #[error("its private half is published too")]
    PrivateHalf,
}

/// Why a key set is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeySetError {
    /// It is not strict JSON.
    #[error("the key set is not strict JSON")]
    NotJson(#[source] StrictError),
    /// It is not an object with an array `keys` of objects.
    #[error("the key set is not an object with an array `keys` of objects")]
    Shape,
    /// It has too many keys.
    #[error("the key set has more than {KEYS_MAX} keys")]
    TooMany,
    /// None of its keys can be used.
    #[error("the key set has no key that can be used")]
    Empty,
}

/// Why a token's key is not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchKey {
    /// The set has no key with that id: it may be new, so the set is worth fetching again.
    #[error("the key set has no key with that id")]
    UnknownKid,
    /// More than one key could be meant.
    #[error("the token names no key, and more than one could be meant")]
    Ambiguous,
    /// The key with that id is for another algorithm; fetching the set again does not help.
    #[error("the key with that id is not for the token's algorithm")]
    OtherAlgorithm,
}

impl KeySet {
    /// Parses a set.
    pub fn read(text: &[u8]) -> Result<Self, KeySetError> {
        let limits = JsonLimits { bytes_max: SET_BYTES_MAX, depth_max: DEPTH_MAX };
        let document = decode(text, limits).map_err(KeySetError::NotJson)?;
        let listed = document.get("keys").and_then(Value::as_array).ok_or(KeySetError::Shape)?;
        if listed.len() > KEYS_MAX {
            return Err(KeySetError::TooMany);
        }
        let (mut keys, mut left_out) = (Vec::new(), Vec::new());
        for (index, listed) in listed.iter().enumerate() {
            match IssuerKey::read(listed.as_object().ok_or(KeySetError::Shape)?) {
                Ok(key) => keys.push(key),
                Err(reason) => left_out.push(UnusedIssuerKey { index, reason }),
            }
        }
        if keys.is_empty() { Err(KeySetError::Empty) } else { Ok(Self { keys, left_out }) }
    }

    /// The ignored keys, and why.
    pub fn left_out(&self) -> &[UnusedIssuerKey] {
        &self.left_out
    }

    /// Whether there is a key with that id. A token without an id may mean the only key of any set.
    pub fn knows(&self, kid: Option<&str>) -> bool {
        kid.is_none_or(|kid| self.keys.iter().any(|key| key.kid.as_deref() == Some(kid)))
    }

    /// The one key that a token means. If two could be meant, none is used: the code does not guess when an issuer
    /// gives two keys one id.
    pub fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Result<&PublicKey, NoSuchKey> {
        let named: Vec<&IssuerKey> =
            self.keys.iter().filter(|key| kid.is_none_or(|kid| key.kid.as_deref() == Some(kid))).collect();
        match named.as_slice() {
            [] => Err(NoSuchKey::UnknownKid),
            [only] if only.is_for(algorithm) => Ok(&only.key),
            [_] => Err(NoSuchKey::OtherAlgorithm),
            _ => Err(NoSuchKey::Ambiguous),
        }
    }
}

impl IssuerKey {
    fn read(members: &Map<String, Value>) -> Result<Self, UnusedIssuerKeyReason> {
        if ["d", "p", "q", "dp", "dq", "qi", "k"].iter().any(|name| members.contains_key(*name)) {
            return Err(UnusedIssuerKeyReason::PrivateHalf);
        }
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        let wrong_use = members.get("use").is_some_and(|purpose| purpose != "sig");
        let may_verify =
            |operations: &Value| operations.as_array().is_some_and(|all| all.iter().any(|one| one == "verify"));
        let wrong_operations = members.get("key_ops").is_some_and(|operations| !may_verify(operations));
        if wrong_use || wrong_operations {
            return Err(UnusedIssuerKeyReason::Kind);
        }
        let algorithm = match members.get("alg") {
            None => None,
            Some(name) => Some(name.as_str().and_then(Algorithm::named).ok_or(UnusedIssuerKeyReason::Kind)?),
        };
        let kid = match members.get("kid") {
            None => None,
            Some(Value::String(kid)) if kid.len() <= KID_BYTES_MAX => Some(kid.clone()),
            Some(_) => return Err(UnusedIssuerKeyReason::Malformed),
        };
        let part = |name: &str| {
            text(name).and_then(|part| URL_SAFE_NO_PAD.decode(part).ok()).ok_or(UnusedIssuerKeyReason::Malformed)
        };
        let key = match (text("kty"), text("crv")) {
            (Some("RSA"), None) => PublicKey::rsa(part("n")?, part("e")?),
            (Some("EC"), Some("P-256")) => PublicKey::p256(&part("x")?, &part("y")?),
            (Some("OKP"), Some("Ed25519")) => PublicKey::ed25519(part("x")?),
            _ => return Err(UnusedIssuerKeyReason::Kind),
        };
        let key = key.ok_or(UnusedIssuerKeyReason::Malformed)?;
        if algorithm.is_some_and(|algorithm| !key.fits(algorithm)) {
            return Err(UnusedIssuerKeyReason::Malformed);
        }
        Ok(Self { kid, algorithm, key })
    }

    fn is_for(&self, algorithm: Algorithm) -> bool {
        self.key.fits(algorithm) && self.algorithm.is_none_or(|own| own == algorithm)
    }
}

#[cfg(test)]
mod tests;
