//! API keys in the notebook, stored by id. Operators create, list and revoke them; the door looks them up.

use servanda_authority::{
    CredentialId,
    api_key::{self, ApiKeyCreationError, ApiKeySpec, StoredKey},
};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

use crate::revocation::{self, Revocation};

/// Keys that are read from the store at once.
const PAGE: u32 = 500;
/// How long an expired key is still listed.
const SHOWN_AFTER_END_MS: u64 = 30 * 86_400_000;

/// Why a key was not created, found or revoked.
#[derive(Debug, thiserror::Error)]
pub enum ApiKeyStoreError {
    /// The specification is invalid.
    #[error(transparent)]
    NotMade(#[from] ApiKeyCreationError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] JournalError),
    /// No key has that id.
    #[error("there is no such API key")]
    NoSuchKey,
}

/// Creates a key and stores its verifier. The caller shows the key's text once.
pub async fn make(
    notebook: &dyn Notebook,
    terms: ApiKeySpec,
    now: Timestamp,
) -> Result<api_key::CreatedApiKey, ApiKeyStoreError> {
    let made = api_key::make(terms, now)?;
    write(notebook, &made.stored).await?;
    Ok(made)
}

/// The stored form of a key, if one has that id.
pub async fn find(notebook: &dyn Notebook, id: &str, now: Timestamp) -> Result<Option<StoredKey>, JournalError> {
    Ok(notebook.read(NoteKind::ApiKey, id, now).await?.and_then(|note| read(&note)))
}

/// All keys, in the order of their ids.
pub async fn list(notebook: &dyn Notebook, now: Timestamp) -> Result<Vec<StoredKey>, JournalError> {
    let (mut keys, mut after) = (Vec::new(), String::new());
    loop {
        let notes = notebook.list(NoteKind::ApiKey, &after, PAGE, now).await?;
        let Some(last) = notes.last() else { return Ok(keys) };
        after.clone_from(&last.key);
        keys.extend(notes.iter().filter_map(read));
    }
}

/// Revokes a key, and everything that was delegated from it.
pub async fn revoke(
    notebook: &dyn Notebook,
    id: &str,
    by: &str,
    now: Timestamp,
) -> Result<(StoredKey, Revocation), ApiKeyStoreError> {
    let mut key = find(notebook, id, now).await?.ok_or(ApiKeyStoreError::NoSuchKey)?;
    // The revocation is written first, because it is what counts.
    let revocation = mark_revoked(notebook, &key.credential(), by, now).await?;
    if key.revoked_at.is_none() {
        key.revoked_at = Some(revocation.at);
        write(notebook, &key).await?;
    }
    Ok((key, revocation))
}

async fn mark_revoked(
    notebook: &dyn Notebook,
    credential: &CredentialId,
    by: &str,
    now: Timestamp,
) -> Result<Revocation, JournalError> {
    revocation::revoke(notebook, credential, &Revocation { at: now, by: by.to_owned() }).await
}

async fn write(notebook: &dyn Notebook, key: &StoredKey) -> Result<(), JournalError> {
    let value = serde_json::to_string(key).map_err(|error| JournalError::new(error.to_string()))?;
    let kept_until = Timestamp::from_unix_ms(key.expires_at.unix_ms().saturating_add(SHOWN_AFTER_END_MS));
    let note = Note { kind: NoteKind::ApiKey, key: key.id.clone(), value, expires_at: Some(kept_until) };
    notebook.write(note).await
}

fn read(note: &Note) -> Option<StoredKey> {
    match serde_json::from_str(&note.value) {
        Ok(key) => Some(key),
        Err(error) => {
            // Fail closed: a key that cannot be read authenticates no caller.
            tracing::warn!(key = note.key, %error, "a stored API key cannot be read");
            None
        }
    }
}
