//! The key with which a log signs its checkpoints: Ed25519, kind `0x01`.
//!
//! Deliberately not here: where the seed is kept, and whether a checkpoint may be signed; a log must never sign two that contradict
//! each other.

use std::fmt;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};

use super::{
    key::{SignatureKind, VerifierKey},
    name::KeyName,
    signed::{NoteSignature, SignedNote},
};

/// Bytes of the seed that makes a key.
pub const SEED_BYTES: usize = 32;

/// Signs notes under one name.
pub struct NoteSigner {
    pair: Ed25519KeyPair,
    verifier: VerifierKey,
}

/// Why nothing was signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoteSigningFault {
    /// Not a seed.
    #[error("a signing key is made from {SEED_BYTES} bytes")]
    Seed,
    /// Not a note.
    #[error("only text that ends in a newline and has no other control characters can be signed")]
    Text,
    /// The cryptographic library did not sign.
    #[error("the note could not be signed")]
    Library,
}

impl NoteSigner {
    /// The key of a seed, under a name.
    pub fn from_seed(name: KeyName, seed: &[u8]) -> Result<Self, NoteSigningFault> {
        let pair = Ed25519KeyPair::from_seed_unchecked(seed).map_err(|_| NoteSigningFault::Seed)?;
        let public_key = pair.public_key().as_ref().to_vec();
        let verifier =
            VerifierKey::new(name, SignatureKind::Ed25519, public_key).map_err(|_| NoteSigningFault::Seed)?;
        Ok(Self { pair, verifier })
    }

    /// The key that verifies what this one signs.
    pub const fn verifier(&self) -> &VerifierKey {
        &self.verifier
    }

    /// Signs a text, such as a checkpoint's.
    pub fn sign(&self, text: String) -> Result<SignedNote, NoteSigningFault> {
        let mut note = SignedNote::new(text).ok_or(NoteSigningFault::Text)?;
        let signature = self.pair.try_sign(note.text().as_bytes()).map_err(|_| NoteSigningFault::Library)?;
        let (name, id) = (self.verifier.name().clone(), self.verifier.id());
        note.add(NoteSignature { name, id, bytes: signature.as_ref().to_vec() });
        Ok(note)
    }
}

impl fmt::Debug for NoteSigner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("NoteSigner").field(&self.verifier).finish()
    }
}
