//! Secrets of ours, each for one purpose. Every process that shares the notebook has the same.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit as _};
use servanda_effects::{JournalError, Note, NoteKind, Notebook};
use sha2::Sha256;

const SECRET_BYTES: usize = 32;
/// SHA-256's.
const BLOCK_BYTES: usize = 64;

/// A secret.
#[derive(Clone)]
pub(crate) struct NotebookSecret([u8; SECRET_BYTES]);

impl NotebookSecret {
    /// The secret of that purpose, made if there is none yet. Of two processes that make one at once, one wins.
    pub(crate) async fn load(notebook: &dyn Notebook, purpose: &str) -> Result<Self, JournalError> {
        let mut secret = [0; SECRET_BYTES];
        getrandom::fill(&mut secret).map_err(|error| JournalError::new(format!("no randomness: {error}")))?;
        let value = format!("\"{}\"", URL_SAFE_NO_PAD.encode(secret));
        let note = Note { kind: NoteKind::Secret, key: purpose.to_owned(), value, expires_at: None };
        let kept = notebook.write_first(note).await?;
        let written: String = serde_json::from_str(&kept.value).unwrap_or_default();
        let secret = URL_SAFE_NO_PAD.decode(written).ok().and_then(|bytes| bytes.try_into().ok());
        secret.map(Self).ok_or_else(|| JournalError::new("the kept key is not a key"))
    }

    #[cfg(test)]
    pub(crate) fn for_tests() -> Self {
        Self([7; SECRET_BYTES])
    }

    /// A code over what follows, under this secret.
    pub(crate) fn hmac(&self) -> Hmac<Sha256> {
        // A key shorter than the hash's block is padded with zeros: that is what HMAC does with one.
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
