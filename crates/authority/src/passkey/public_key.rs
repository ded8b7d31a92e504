//! The public key of a passkey: a COSE key (RFC 9052) of one of three kinds, with exactly the members that its kind needs, in CTAP2's order.
//! So a key has one form, and two passkeys are the same if their bytes are.

use std::fmt;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};

use super::{
    PasskeyFault,
    cbor::{CborItem, only_item},
};
use crate::signature::{BadSignature, PublicKey};

/// Bytes of a COSE key: an RSA key of 8192 bits fits.
const COSE_BYTES_MAX: usize = 2048;
/// Names of members (RFC 9053 §7): the kind, the algorithm, and what the kind adds.
const KIND: i64 = 1;
const ALGORITHM: i64 = 3;
/// The order of members in CTAP2's canonical form. Keys of two kinds end before the last.
const ORDER: [i64; 5] = [KIND, ALGORITHM, -1, -2, -3];

/// A passkey's public key. The COSE bytes are kept, because that is the form in which others check signatures.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct PasskeyPublicKey {
    cose: Vec<u8>,
    key: PublicKey,
}

impl PasskeyPublicKey {
    /// Reads a COSE key.
    pub fn read(cose: &[u8]) -> Result<Self, PasskeyFault> {
        if cose.len() > COSE_BYTES_MAX {
            return Err(PasskeyFault::Key);
        }
        let item = only_item(cose).map_err(|_| PasskeyFault::Key)?;
        let members = item.members().ok_or(PasskeyFault::Key)?;
        let key = read_key(members).filter(PublicKey::is_strong).ok_or(PasskeyFault::Key)?;
        Ok(Self { cose: cose.to_vec(), key })
    }

    /// The COSE key.
    pub fn cose(&self) -> &[u8] {
        &self.cose
    }

    /// Checks that the passkey signed a message.
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), BadSignature> {
        self.key.verify_passkey(message, signature)
    }
}

fn read_key(members: &[(CborItem<'_>, CborItem<'_>)]) -> Option<PublicKey> {
    let member = |name: i64| members.iter().find(|(known, _)| known.is_integer(name)).map(|(_, value)| value);
    let is = |name: i64, wanted: i64| member(name).is_some_and(|value| value.is_integer(wanted));
    let bytes = |name: i64| member(name).and_then(CborItem::bytes);
    if !members.iter().zip(ORDER).all(|((name, _), wanted)| name.is_integer(wanted)) {
        return None;
    }
    match members.len() {
        // OKP, `EdDSA`, Ed25519.
        4 if is(KIND, 1) && is(ALGORITHM, -8) && is(-1, 6) => PublicKey::ed25519(bytes(-2)?.to_vec()),
        // EC2, ES256, P-256.
        5 if is(KIND, 2) && is(ALGORITHM, -7) && is(-1, 1) => PublicKey::p256(bytes(-2)?, bytes(-3)?),
        // RSA, RS256.
        4 if is(KIND, 3) && is(ALGORITHM, -257) => PublicKey::rsa(bytes(-1)?.to_vec(), bytes(-2)?.to_vec()),
        _ => None,
    }
}

impl From<PasskeyPublicKey> for String {
    fn from(key: PasskeyPublicKey) -> Self {
        URL_SAFE_NO_PAD.encode(key.cose)
    }
}

impl TryFrom<String> for PasskeyPublicKey {
    type Error = PasskeyFault;

    fn try_from(text: String) -> Result<Self, PasskeyFault> {
        Self::read(&super::decode(&text, COSE_BYTES_MAX, "the public key")?)
    }
}

impl fmt::Debug for PasskeyPublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("PasskeyPublicKey").field(&self.key).finish()
    }
}
