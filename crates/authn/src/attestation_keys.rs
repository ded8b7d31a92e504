//! The key that signs what people decide. It is stored sealed in the notebook, so every gateway that shares the notebook and the sealing key
//! has the same one, and a copy of the ledger alone signs nothing.

use std::sync::Arc;

use servanda_authority::{
    Secret,
    attestation::{AttestationKey, AttestationPublicKey},
};
use servanda_contract::time::Clock;
use servanda_effects::{Notebook, PortFuture};
use servanda_engine::approvals::{AttestationKeys, AttestationKeysError};
use tokio::sync::OnceCell;

use crate::{root_keys::SealingKeySource, sealed_seed::SealedSeedStore};

/// The purpose of the sealing key of attestation keys.
pub const ATTESTATION_PURPOSE: &str = "servanda/approval-attestation/v1";

/// The place of the sealed seed in the notebook, which is bound to it.
const PLACE: &str = "approval-attestation/sealed/00000001";

/// The attestation key in the notebook.
#[derive(Debug)]
pub struct AttestationKeyStore {
    seeds: SealedSeedStore,
    key: OnceCell<Arc<AttestationKey>>,
}

impl AttestationKeyStore {
    /// The key in that notebook, sealed with that key.
    pub fn new(notebook: Arc<dyn Notebook>, sealing: Arc<dyn SealingKeySource>, clock: Arc<dyn Clock>) -> Self {
        Self { seeds: SealedSeedStore::new(notebook, sealing, clock, PLACE), key: OnceCell::new() }
    }

    /// The key. If there is none yet, one is made; of two processes that make one at once, one wins.
    async fn key(&self) -> Result<Arc<AttestationKey>, AttestationKeysError> {
        self.key.get_or_try_init(|| self.load()).await.cloned()
    }

    async fn load(&self) -> Result<Arc<AttestationKey>, AttestationKeysError> {
        let public = |seed: &Secret| AttestationKey::from_seed(seed).ok().map(|key| key.public().to_string());
        let seed = self.seeds.seed(public).await.map_err(AttestationKeysError)?;
        let key = AttestationKey::from_seed(&seed).map_err(|error| AttestationKeysError(error.to_string()))?;
        Ok(Arc::new(key))
    }
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
    use servanda_effects::{InMemoryNotebook, NoteKind};

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
