//! Revoked credentials: one note for each, by the credential's id, kept forever. Every gateway that shares the store
//! sees it at once; nothing here caches that a credential was valid.

use serde::{Deserialize, Serialize};
use servanda_authority::{AuthenticatedCaller, CredentialId, CredentialMethod};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

/// A record of a revocation: when, and by whom.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// When it was revoked.
    pub at: Timestamp,
    /// Who revoked it: the user name on that system.
    pub by: String,
}

/// Why a caller is no longer accepted.
#[derive(Debug, thiserror::Error)]
pub enum RevocationCheckError {
    /// The credential, or one that it derives from, was revoked.
    #[error("the credential `{0}` was revoked")]
    Revoked(CredentialId),
    /// The store does not answer.
    #[error("the revocation of the credential `{0}` cannot be checked: {1}")]
    Unknown(CredentialId, JournalError),
}

/// Revokes a credential, and with it all that derive from it. Returns the recorded revocation: an earlier one stays as
/// it is.
pub async fn revoke(
    notebook: &dyn Notebook,
    credential: &CredentialId,
    revocation: &Revocation,
) -> Result<Revocation, JournalError> {
    let value = serde_json::to_string(revocation).map_err(|error| JournalError::new(error.to_string()))?;
    let key = credential.as_str().to_owned();
    let kept = notebook.write_first(Note { kind: NoteKind::Revoked, key, value, expires_at: None }).await?;
    // A note that cannot be read still revokes the credential.
    Ok(serde_json::from_str(&kept.value).unwrap_or_else(|_| revocation.clone()))
}

/// The revocation of a credential, if it was revoked.
pub async fn find(
    notebook: &dyn Notebook,
    credential: &CredentialId,
    now: Timestamp,
) -> Result<Option<Note>, JournalError> {
    notebook.read(NoteKind::Revoked, credential.as_str(), now).await
}

/// Checks that neither the caller's credential nor any that it derives from was revoked.
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
