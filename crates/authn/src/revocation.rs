//! What was revoked: a note for each credential that was, by the id it is known by, kept for good. Whoever shares the store sees it at
//! once; nothing here remembers that a credential was good.

use serde::{Deserialize, Serialize};
use servanda_authority::{AuthenticatedCaller, CredentialId, CredentialMethod};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

/// That a credential was revoked, when, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// When.
    pub at: Timestamp,
    /// Who, as the system knows them.
    pub by: String,
}

/// Why somebody may not stay.
#[derive(Debug, thiserror::Error)]
pub enum RevocationCheckError {
    /// The credential, or one it comes from.
    #[error("the credential `{0}` was revoked")]
    Revoked(CredentialId),
    /// The store does not say.
    #[error("whether the credential `{0}` was revoked cannot be found out: {1}")]
    Unknown(CredentialId, JournalError),
}

/// Revokes a credential, and with it all that come from it. Returns what is on record afterwards: an earlier revocation stays as it is.
pub async fn revoke(
    notebook: &dyn Notebook,
    credential: &CredentialId,
    revocation: &Revocation,
) -> Result<Revocation, JournalError> {
    let value = serde_json::to_string(revocation).map_err(|error| JournalError::new(error.to_string()))?;
    let key = credential.as_str().to_owned();
    let kept = notebook.write_first(Note { kind: NoteKind::Revoked, key, value, expires_at: None }).await?;
    // Whatever stands there, that it stands there revokes.
    Ok(serde_json::from_str(&kept.value).unwrap_or_else(|_| revocation.clone()))
}

/// Whether a credential was revoked.
pub async fn find(
    notebook: &dyn Notebook,
    credential: &CredentialId,
    now: Timestamp,
) -> Result<Option<Note>, JournalError> {
    notebook.read(NoteKind::Revoked, credential.as_str(), now).await
}

/// Whether none of the credentials that somebody came with was revoked.
pub async fn require_not_revoked(
    notebook: &dyn Notebook,
    authenticated: &AuthenticatedCaller,
    now: Timestamp,
) -> Result<(), RevocationCheckError> {
    if *authenticated.method() == CredentialMethod::Local {
        return Ok(());
    }
    for credential in authenticated.lineage() {
        match find(notebook, credential, now).await {
            Ok(None) => {}
            Ok(Some(_)) => return Err(RevocationCheckError::Revoked(credential.clone())),
            Err(error) => return Err(RevocationCheckError::Unknown(credential.clone(), error)),
        }
    }
    Ok(())
}
