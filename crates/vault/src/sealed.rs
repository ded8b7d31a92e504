//! One sealed secret: AES-256-GCM under a random nonce, bound to its name and to the time it was set, so that it cannot be put in the place
//! of another.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    hmac,
};
use servanda_authority::Secret;
use servanda_contract::{Timestamp, digest::hex};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

/// The file with the store's key, next to the store.
pub const KEY_FILE: &str = "secrets.key";
/// The environment variable that may have the key instead.
pub const KEY_VARIABLE: &str = "SERVANDA_SECRET_KEY";

/// The version of the sealing, and the first byte of the bound data.
pub(crate) const VERSION: u8 = 1;
/// The length of a key in bytes.
pub(crate) const KEY_BYTES: usize = 32;

/// The key of a store.
pub(crate) struct StoreKey {
    key: LessSafeKey,
    id: String,
    /// The bytes from which other keys are derived.
    seed: Secret,
}

/// The nonce, and the ciphertext with its tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SealedSecret {
    pub(crate) nonce: [u8; NONCE_LEN],
    pub(crate) bytes: Vec<u8>,
}

impl StoreKey {
    /// A key from its bytes; none if their number is wrong.
    pub(crate) fn from_bytes(bytes: &Secret) -> Option<Self> {
        if bytes.expose().len() != KEY_BYTES {
            return None;
        }
        let key = LessSafeKey::new(UnboundKey::new(&AES_256_GCM, bytes.expose()).ok()?);
        let hash = Sha256::new().chain_update(b"servanda/store-key").chain_update(bytes.expose()).finalize();
        let seed = Sha256::new().chain_update(b"servanda/derivation").chain_update(bytes.expose()).finalize();
        Some(Self { key, id: hex(hash.get(..8).unwrap_or_default()), seed: Secret::new(seed.to_vec()) })
    }

    /// Identifies the key. It reveals nothing: the key is 32 random bytes.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Derives another key for a purpose. Neither this key nor a key for another purpose can be computed from it.
    pub(crate) fn derive(&self, purpose: &str) -> Secret {
        let tagged = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, self.seed.expose()), purpose.as_bytes());
        Secret::new(tagged.as_ref().to_vec())
    }

    /// Seals a secret under a nonce that is used for nothing else.
    pub(crate) fn seal(
        &self,
        name: &str,
        set_at: Timestamp,
        secret: &Secret,
        nonce: [u8; NONCE_LEN],
    ) -> Option<SealedSecret> {
        let mut bytes = Zeroizing::new(secret.expose().to_vec());
        let tag = self.key.seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(bound(name, set_at)),
            &mut bytes,
        );
        let sealed = [bytes.as_slice(), tag.ok()?.as_ref()].concat();
        Some(SealedSecret { nonce, bytes: sealed })
    }

    /// Opens a sealed secret; none if it was not sealed under this name at this time.
    pub(crate) fn open(&self, name: &str, set_at: Timestamp, sealed: &SealedSecret) -> Option<Secret> {
        let mut bytes = Zeroizing::new(sealed.bytes.clone());
        let nonce = Nonce::assume_unique_for_key(sealed.nonce);
        let opened = self.key.open_in_place(nonce, Aad::from(bound(name, set_at)), &mut bytes).ok()?;
        Some(Secret::new(&*opened))
    }
}

/// The data that a sealed secret is bound to.
fn bound(name: &str, set_at: Timestamp) -> Vec<u8> {
    let mut bound = vec![VERSION];
    bound.extend_from_slice(&set_at.unix_ms().to_be_bytes());
    bound.extend_from_slice(name.as_bytes());
    bound
}

impl std::fmt::Debug for StoreKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("StoreKey").field("id", &self.id).finish_non_exhaustive()
    }
}
