//! The key that signs what people decide. It is stored sealed in the notebook, so every gateway that shares the notebook and the sealing key
//! has the same one, and a copy of the ledger alone signs nothing.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use servanda_authority::{
    Secret,
    attestation::{ATTESTATION_SEED_BYTES, AttestationKey, AttestationPublicKey},
};
use servanda_contract::time::Clock;
use servanda_effects::{JournalError, Note, NoteKind, Notebook, PortFuture};
use servanda_engine::approvals::{AttestationKeys, AttestationKeysError};
use tokio::sync::OnceCell;

use crate::root_keys::SealingKeySource;

/// The purpose of the sealing key of attestation keys.
pub const ATTESTATION_PURPOSE: &str = "servanda/approval-attestation/v1";

/// The place of the sealed seed in the notebook, which is bound to it.
const PLACE: &str = "approval-attestation/sealed/00000001";

/// The attestation key in the notebook.
#[derive(Debug)]
pub struct AttestationKeyStore {
    notebook: Arc<dyn Notebook>,
    sealing: Arc<dyn SealingKeySource>,
    clock: Arc<dyn Clock>,
    key: OnceCell<Arc<AttestationKey>>,
}

/// A seed as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedSeed {
    sealed: String,
    /// The published half, so that it can be read without the sealing key.
    public: String,
}

impl AttestationKeyStore {
    /// The key in that notebook, sealed with that key.
    pub fn new(notebook: Arc<dyn Notebook>, sealing: Arc<dyn SealingKeySource>, clock: Arc<dyn Clock>) -> Self {
        Self { notebook, sealing, clock, key: OnceCell::new() }
    }

    /// The key. If there is none yet, one is made; of two processes that make one at once, one wins.
    async fn key(&self) -> Result<Arc<AttestationKey>, AttestationKeysError> {
        self.key.get_or_try_init(|| self.load()).await.cloned()
    }

    async fn load(&self) -> Result<Arc<AttestationKey>, AttestationKeysError> {
        let failed = |error: &JournalError| AttestationKeysError(error.reason().to_owned());
        let sealing = self.sealing.attestation_key().map_err(AttestationKeysError)?;
        let now = self.clock.now();
        let found = self.notebook.read(NoteKind::Secret, PLACE, now).await.map_err(|error| failed(&error))?;
        let kept = if let Some(found) = found {
            found
        } else {
            let note = fresh(&sealing).map_err(AttestationKeysError)?;
            self.notebook.write_first(note).await.map_err(|error| failed(&error))?
        };
        let stored: SealedSeed = serde_json::from_str(&kept.value).map_err(|_| malformed())?;
        let opened = sealing.open(PLACE, &stored.sealed).map_err(|_| {
            AttestationKeysError(
                "it was sealed with another key: give every gateway of this ledger the same SERVANDA_SECRET_KEY"
                    .to_owned(),
            )
        })?;
        let seed = opened.as_text().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).map(Secret::new);
        let key = seed.and_then(|seed| AttestationKey::from_seed(&seed).ok()).ok_or_else(malformed)?;
        if key.public().to_string() == stored.public { Ok(Arc::new(key)) } else { Err(malformed()) }
    }
}

fn fresh(sealing: &servanda_authority::sealing::SealingKey) -> Result<Note, String> {
    let seed = Secret::random(ATTESTATION_SEED_BYTES).map_err(|error| error.to_string())?;
    let key = AttestationKey::from_seed(&seed).map_err(|error| error.to_string())?;
    let text = Secret::from(URL_SAFE_NO_PAD.encode(seed.expose()));
    let sealed = sealing.seal(PLACE, text.expose()).map_err(|error| error.to_string())?;
    let stored = SealedSeed { sealed, public: key.public().to_string() };
    let value = serde_json::to_string(&stored).map_err(|error| error.to_string())?;
    Ok(Note { kind: NoteKind::Secret, key: PLACE.to_owned(), value, expires_at: None })
}

fn malformed() -> AttestationKeysError {
    AttestationKeysError("the stored attestation key is malformed".to_owned())
}

impl AttestationKeys for AttestationKeyStore {
    fn signing_key(&self) -> PortFuture<'_, Result<Arc<AttestationKey>, AttestationKeysError>> {
        Box::pin(self.key())
    }

    fn public_keys(&self) -> PortFuture<'_, Result<Vec<AttestationPublicKey>, AttestationKeysError>> {
        Box::pin(async move { Ok(vec![self.key().await?.public().clone()]) })
    }
}

#[cfg(test)]
mod tests {
    use servanda_effects::InMemoryNotebook;

    use super::*;
    use crate::testing::{AuthnTestClock, FixedSeal, NOW_MS};

    fn store(notebook: &Arc<InMemoryNotebook>, seal: u8) -> AttestationKeyStore {
        let notebook: Arc<dyn Notebook> = Arc::clone(notebook) as Arc<dyn Notebook>;
        AttestationKeyStore::new(notebook, Arc::new(FixedSeal(seal)), Arc::new(AuthnTestClock::at(NOW_MS)))
    }

    #[tokio::test]
    async fn every_gateway_of_a_ledger_signs_with_the_same_key_and_a_copy_of_the_ledger_with_none() {
        let notebook = Arc::new(InMemoryNotebook::default());
        let (one, other) = (store(&notebook, 7), store(&notebook, 7));
        let signature = one.signing_key().await.unwrap().sign("test", b"yes").unwrap();
        assert_eq!(other.signing_key().await.unwrap().sign("test", b"yes").unwrap(), signature);
        assert_eq!(one.public_keys().await.unwrap(), other.public_keys().await.unwrap());
        let thief = store(&notebook, 8);
        assert!(thief.signing_key().await.unwrap_err().to_string().contains("sealed with another key"));
        let note = notebook
            .read(NoteKind::Secret, PLACE, servanda_contract::Timestamp::from_unix_ms(NOW_MS))
            .await
            .unwrap()
            .unwrap();
        assert!(note.value.contains(&one.public_keys().await.unwrap()[0].to_string()));
    }
}
