//! Seals values in a store that others may read: AES-256-GCM, with the purpose and the place in the store as associated
//! data, so that a value sealed for one place cannot be moved to another.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use zeroize::Zeroizing;

use crate::Secret;

/// Bytes of a key.
pub const KEY_BYTES: usize = 32;

/// A key for one purpose. Every process that shares the store has the same key.
pub struct SealingKey {
    key: RandomizedNonceKey,
    /// Separates this use of a key from any other.
    purpose: &'static str,
}

/// The bytes are not a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a sealing key must have {KEY_BYTES} bytes")]
pub struct BadSealingKey(());

/// The value was not sealed with this key for this place, or was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stored value cannot be opened with the key of this gateway")]
pub struct SealingError(());

impl SealingKey {
    /// A key for a purpose, such as `servanda/login/v1`.
    pub fn new(purpose: &'static str, bytes: &Secret) -> Result<Self, BadSealingKey> {
        let key = RandomizedNonceKey::new(&AES_256_GCM, bytes.expose()).map_err(|_| BadSealingKey(()))?;
        Ok(Self { key, purpose })
    }

    /// Seals a text for a place.
    pub fn seal(&self, place: &str, text: &[u8]) -> Result<String, SealingError> {
        // Sealed in place: the ciphertext overwrites the text, and no readable copy is left behind.
        let mut sealed = Zeroizing::new(text.to_vec());
        let nonce =
            self.key.seal_in_place_append_tag(self.associated(place), &mut *sealed).map_err(|_| SealingError(()))?;
        let whole = [nonce.as_ref().as_slice(), &sealed].concat();
        Ok(URL_SAFE_NO_PAD.encode(whole))
    }

    /// Opens a value that was sealed for that place.
    pub fn open(&self, place: &str, sealed: &str) -> Result<Secret, SealingError> {
        let bytes = URL_SAFE_NO_PAD.decode(sealed).map_err(|_| SealingError(()))?;
        let (nonce, rest) = bytes.split_at_checked(NONCE_LEN).ok_or(SealingError(()))?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).map_err(|_| SealingError(()))?;
        let mut rest = Zeroizing::new(rest.to_vec());
        let opened = self.key.open_in_place(nonce, self.associated(place), &mut rest).map_err(|_| SealingError(()))?;
        Ok(Secret::new(opened.to_vec()))
    }

    fn associated(&self, place: &str) -> Aad<Vec<u8>> {
        Aad::from([self.purpose, "\0", place].concat().into_bytes())
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SealingKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn t13_what_is_sealed_for_one_user_is_of_no_use_to_another() {
        let key = SealingKey::new("test", &Secret::new([7; KEY_BYTES])).unwrap();
        let sealed = key.seal("crm/acme/ada", b"s3cret").unwrap();
        assert_eq!(key.open("crm/acme/ada", &sealed).unwrap().expose(), b"s3cret");
        assert!(!sealed.contains("s3cret"));
        assert_ne!(sealed, key.seal("crm/acme/ada", b"s3cret").unwrap(), "a nonce is used once");
        assert_eq!(key.open("crm/acme/eve", &sealed).unwrap_err(), SealingError(()));
        let other = SealingKey::new("test", &Secret::new([8; KEY_BYTES])).unwrap();
        assert_eq!(other.open("crm/acme/ada", &sealed).unwrap_err(), SealingError(()));
        let purpose = SealingKey::new("other", &Secret::new([7; KEY_BYTES])).unwrap();
        assert_eq!(purpose.open("crm/acme/ada", &sealed).unwrap_err(), SealingError(()));
        let flipped: String = sealed.chars().rev().collect();
        for broken in ["", "AAAA", &flipped] {
            assert!(key.open("crm/acme/ada", broken).is_err());
        }
        assert!(SealingKey::new("test", &Secret::new([7; 16])).is_err());
    }
}
