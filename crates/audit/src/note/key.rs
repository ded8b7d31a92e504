//! Keys that verify: their text form, and what a signature of each kind covers.
//!
//! Ed25519 is verified by aws-lc, by RFC 8032 without the cofactor: neither the key nor R may be in a second encoding. `tests.rs` holds it to CCTV's vectors.

use std::{fmt, str::FromStr};

use aws_lc_rs::signature::{ED25519, ML_DSA_44, UnparsedPublicKey};
use base64::{Engine as _, engine::general_purpose::STANDARD};

use super::name::{KeyId, KeyName};
use crate::checkpoint::Checkpoint;

/// The domain of a cosignature by ML-DSA-44, with its zero byte.
const SUBTREE_LABEL: &[u8; 12] = b"subtree/v1\n\0";

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SignatureKind {
    /// A note's text, by Ed25519.
    Ed25519,
    /// A checkpoint as it was seen at a time, by Ed25519.
    Ed25519Cosignature,
    /// A checkpoint as it was seen at a time, by ML-DSA-44.
    MlDsa44Cosignature,
}

/// A key that verifies the signatures under one name.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifierKey {
    // INVARIANT: the id is that of the name, kind and key; the key has the length of its kind.
    name: KeyName,
    id: KeyId,
    kind: SignatureKind,
    public_key: Vec<u8>,
}

/// A signature that was verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endorsement {
    /// The key that signed.
    pub key: VerifierKey,
    /// When, in seconds since 1970; cosignatures alone have a time.
    pub time_s: Option<u64>,
}

/// Text that is not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum VerifierKeyFault {
    /// Not the three parts.
    #[error("a key is `<name>+<8 hex digits>+<base64>`")]
    Form,
    /// A kind that is not verified here.
    #[error("keys of kind {0:#04x} are not supported: it is 0x01, 0x04 or 0x06")]
    Kind(u8),
    /// Too few or too many bytes.
    #[error("a key of kind {kind:#04x} has {expected} bytes and not {bytes}")]
    Length {
        /// The kind.
        kind: u8,
        /// The bytes that such a key has.
        expected: usize,
        /// The bytes that there are.
        bytes: usize,
    },
    /// The id is another key's.
    #[error("the id should be {0}: the name, the id or the key was changed")]
    OtherId(KeyId),
}

impl SignatureKind {
    const ALL: [Self; 3] = [Self::Ed25519, Self::Ed25519Cosignature, Self::MlDsa44Cosignature];

    /// The byte that stands for the kind.
    pub const fn byte(self) -> u8 {
        match self {
            Self::Ed25519 => 0x01,
            Self::Ed25519Cosignature => 0x04,
            Self::MlDsa44Cosignature => 0x06,
        }
    }

    /// Whether a signature has a time and says that its signer saw the log only grow.
    pub const fn is_cosignature(self) -> bool {
        !matches!(self, Self::Ed25519)
    }

    const fn key_bytes(self) -> usize {
        match self {
            Self::Ed25519 | Self::Ed25519Cosignature => 32,
            Self::MlDsa44Cosignature => 1312,
        }
    }

    const fn signature_bytes(self) -> usize {
        match self {
            Self::Ed25519 | Self::Ed25519Cosignature => 64,
            Self::MlDsa44Cosignature => 2420,
        }
    }
}

impl VerifierKey {
    /// A key under a name.
    pub fn new(name: KeyName, kind: SignatureKind, public_key: Vec<u8>) -> Result<Self, VerifierKeyFault> {
        let (expected, bytes) = (kind.key_bytes(), public_key.len());
        if bytes != expected {
            return Err(VerifierKeyFault::Length { kind: kind.byte(), expected, bytes });
        }
        let id = KeyId::compute(&name, kind.byte(), &public_key);
        Ok(Self { name, id, kind, public_key })
    }

    /// The name under which it signs.
    pub const fn name(&self) -> &KeyName {
        &self.name
    }

    /// Its id.
    pub const fn id(&self) -> KeyId {
        self.id
    }

    /// What it signs.
    pub const fn kind(&self) -> SignatureKind {
        self.kind
    }

    /// The key itself, without name and kind.
    pub fn public_key(&self) -> &[u8] {
        &self.public_key
    }

    /// Verifies a signature under a note's text. `None` if it is not this key's.
    pub(super) fn verify(&self, text: &str, signature: &[u8]) -> Option<Endorsement> {
        if !self.kind.is_cosignature() {
            return self.check(text.as_bytes(), signature).then(|| Endorsement { key: self.clone(), time_s: None });
        }
        let (time, signature) = signature.split_first_chunk()?;
        let time = u64::from_be_bytes(*time);
        // The specification: it must not exceed 2^63 - 1.
        i64::try_from(time).ok()?;
        // A cosignature is a statement about a tree; text that is not a checkpoint has none.
        let checkpoint: Checkpoint = text.parse().ok()?;
        let message = if self.kind == SignatureKind::MlDsa44Cosignature {
            subtree_message(&self.name, time, &checkpoint)?
        } else {
            format!("cosignature/v1\ntime {time}\n{text}").into_bytes()
        };
        self.check(&message, signature).then(|| Endorsement { key: self.clone(), time_s: Some(time) })
    }

    pub(super) fn check(&self, message: &[u8], signature: &[u8]) -> bool {
        if signature.len() != self.kind.signature_bytes() {
            return false;
        }
        let verified = if self.kind == SignatureKind::MlDsa44Cosignature {
            UnparsedPublicKey::new(&ML_DSA_44, &self.public_key).verify(message, signature)
        } else {
            UnparsedPublicKey::new(&ED25519, &self.public_key).verify(message, signature)
        };
        verified.is_ok()
    }
}

/// What a cosignature by ML-DSA-44 covers: the structure `cosigned_message`. `None` if a name is too long for it.
fn subtree_message(name: &KeyName, time: u64, checkpoint: &Checkpoint) -> Option<Vec<u8>> {
    let origin = checkpoint.origin();
    let mut message = SUBTREE_LABEL.to_vec();
    message.push(u8::try_from(name.as_str().len()).ok()?);
    message.extend(name.as_str().bytes());
    message.extend(time.to_be_bytes());
    message.push(u8::try_from(origin.len()).ok()?);
    message.extend(origin.bytes());
    message.extend(0_u64.to_be_bytes());
    message.extend(checkpoint.size().to_be_bytes());
    message.extend(checkpoint.root().as_bytes());
    Some(message)
}

impl FromStr for VerifierKey {
    type Err = VerifierKeyFault;

    fn from_str(text: &str) -> Result<Self, VerifierKeyFault> {
        // The base64 may contain `+`, the name may not.
        let mut parts = text.splitn(3, '+');
        let mut part = || parts.next().ok_or(VerifierKeyFault::Form);
        let (name, id, encoded) = (part()?, part()?, part()?);
        let name = name.parse().map_err(|_| VerifierKeyFault::Form)?;
        let bytes = STANDARD.decode(encoded).map_err(|_| VerifierKeyFault::Form)?;
        let (&byte, public_key) = bytes.split_first().ok_or(VerifierKeyFault::Form)?;
        let known = SignatureKind::ALL.into_iter().find(|kind| kind.byte() == byte);
        let key = Self::new(name, known.ok_or(VerifierKeyFault::Kind(byte))?, public_key.to_vec())?;
        if key.id.to_string() == id { Ok(key) } else { Err(VerifierKeyFault::OtherId(key.id)) }
    }
}

impl fmt::Display for VerifierKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [&[self.kind.byte()], self.public_key.as_slice()].concat();
        write!(formatter, "{}+{}+{}", self.name, self.id, STANDARD.encode(bytes))
    }
}

impl fmt::Debug for VerifierKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}+{} ({:?})", self.name, self.id, self.kind)
    }
}
