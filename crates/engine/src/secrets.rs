//! The gateway's secrets, each for one purpose. All processes that share the notebook have the same secrets.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _};
use servanda_effects::{JournalError, Note, NoteKind, Notebook};
use sha2::Sha256;

const SECRET_BYTES: usize = 32;
/// The block size of SHA-256.
const BLOCK_BYTES: usize = 64;

/// A secret.
#[derive(Clone)]
pub(crate) struct NotebookSecret([u8; SECRET_BYTES]);

impl NotebookSecret {
    /// The secret for that purpose, made if there is none yet. If two processes make one at once, one of them wins.
    pub(crate) async fn load(notebook: &dyn Notebook, purpose: &str) -> Result<Self, JournalError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| JournalError::new(format!("no randomness: {error}")))?;
        let value = format!("\"{}\"", URL_SAFE_NO_PAD.encode(secret));
        let note = Note { kind: NoteKind::Secret, key: purpose.to_owned(), value, expires_at: None };
        let kept = notebook.write_first(note).await?;
        let written: String = serde_json::from_str(&kept.value).unwrap_or_default();
        let secret = URL_SAFE_NO_PAD.decode(written).ok().and_then(|bytes| bytes.try_into().ok());
        secret.map(Self).ok_or_else(|| JournalError::new("the stored key is not a key"))
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self([7; SECRET_BYTES])
    }

    /// An HMAC under this secret, to be fed with data.
    pub(crate) fn hmac(&self) -> Hmac<Sha256> {
        // HMAC pads a key that is shorter than the hash's block with zeros.
        let mut block = [0; BLOCK_BYTES];
        block.iter_mut().zip(self.0).for_each(|(place, byte)| *place = byte);
        Hmac::<Sha256>::new(&block.into())
    }
}

impl std::fmt::Debug for NotebookSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Secret")
    }
}
