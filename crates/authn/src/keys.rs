//! API keys in the notebook: what is kept of each is by its id. Making, listing and revoking are the operator's; looking one up is the
//! door's.

use servanda_authority::{
    CredentialId,
    api_key::{self, ApiKeyCreationError, ApiKeySpec, StoredKey},
};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

use crate::revocation::{self, Revocation};

/// Keys that are read from the store at once.
const PAGE: u32 = 500;
/// How long a key that has ended is still listed.
const SHOWN_AFTER_END_MS: u64 = 30 * 86_400_000;

/// Why a key was not made, found or revoked.
#[derive(Debug, thiserror::Error)]
pub enum ApiKeyStoreError {
    /// The terms.
    #[error(transparent)]
    NotMade(#[from] ApiKeyCreationError),
    /// The store.
    #[error(transparent)]
    Store(#[from] JournalError),
    /// There is none.
    #[error("there is no such API key")]
    NoSuchKey,
}

/// Makes a key and keeps what is to be kept of it. The text is shown once, by whoever asked.
pub async fn make(
    notebook: &dyn Notebook,
    terms: ApiKeySpec,
    now: Timestamp,
) -> Result<api_key::CreatedApiKey, ApiKeyStoreError> {
    let made = api_key::make(terms, now)?;
    write(notebook, &made.stored).await?;
    Ok(made)
}

/// What is kept of a key, if there is one of that id.
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
    // The note of the revocation first: it is what counts.
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
            // Fail closed: a key that cannot be read lets nobody in.
            tracing::warn!(key = note.key, %error, "what is kept of an API key cannot be read");
            None
        }
    }
}
