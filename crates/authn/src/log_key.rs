//! The key that signs the checkpoints of the verifiable log. It is stored sealed in the notebook, so every gateway of a ledger signs as the
//! same log, and a copy of the ledger alone signs nothing.
//!
//! The log is named after its key, so that two ledgers never have logs of one name. Deliberately not here: when a checkpoint is signed.

use std::sync::Arc;

use servanda_audit::{NoteSigner, VerifierKey};
use servanda_authority::Secret;
use servanda_contract::{Digest, digest::DigestDomain, time::Clock};
use servanda_effects::{Note, Notebook};
use tokio::sync::OnceCell;

use crate::{
    root_keys::SealingKeySource,
    sealed_seed::{SealedSeedStore, published_half},
};

/// The place of the sealed seed in the notebook, which is bound to it.
pub const LOG_KEY_PLACE: &str = "audit-log/sealed/00000001";

/// Hex digits of the key's digest in the log's name.
const NAME_DIGITS: usize = 16;

/// The log's key in the notebook.
#[derive(Debug)]
pub struct LogKeyStore {
    seeds: SealedSeedStore,
    signer: OnceCell<Arc<NoteSigner>>,
}

/// The log's key cannot be had at present.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the key of the verifiable log cannot be read: {0}")]
pub struct LogKeyError(String);

impl LogKeyStore {
    /// The key in that notebook, sealed with that key.
    pub fn new(notebook: Arc<dyn Notebook>, sealing: Arc<dyn SealingKeySource>, clock: Arc<dyn Clock>) -> Self {
        Self { seeds: SealedSeedStore::new(notebook, sealing, clock, LOG_KEY_PLACE), signer: OnceCell::new() }
    }

    /// The signer. If there is no key yet, one is made.
    pub async fn signer(&self) -> Result<Arc<NoteSigner>, LogKeyError> {
        self.signer.get_or_try_init(|| self.load()).await.cloned()
    }

    async fn load(&self) -> Result<Arc<NoteSigner>, LogKeyError> {
        let public = |seed: &Secret| signer(seed).ok().map(|signer| signer.verifier().to_string());
        let seed = self.seeds.seed(public).await.map_err(LogKeyError)?;
        signer(&seed).map(Arc::new).map_err(LogKeyError)
    }
}

/// The key that verifies the log's checkpoints, from the note that has the sealed one.
pub fn published_log_key(note: &Note) -> Option<VerifierKey> {
    published_half(note)?.parse().ok()
}

fn signer(seed: &Secret) -> Result<NoteSigner, String> {
    let digest = Digest::compute(DigestDomain::LogName, &[public_half(seed)?.public_key()]);
    let name = format!("servanda/{}", digest.hex_prefix(NAME_DIGITS)).parse();
    let name = name.map_err(|_| "it has no name".to_owned())?;
    NoteSigner::from_seed(name, seed.expose()).map_err(|error| error.to_string())
}

/// The published half, under a name that is not used.
fn public_half(seed: &Secret) -> Result<VerifierKey, String> {
    let name = "servanda".parse().map_err(|_| "it has no name".to_owned())?;
    let signer = NoteSigner::from_seed(name, seed.expose()).map_err(|error| error.to_string())?;
    Ok(signer.verifier().clone())
}

#[cfg(test)]
mod tests {
    use servanda_effects::{InMemoryNotebook, NoteKind};

    use super::*;
    use crate::testing::{AuthnTestClock, FixedSeal, NOW_MS};

    #[tokio::test]
    async fn every_gateway_of_a_ledger_signs_as_one_log_and_another_ledger_is_another_log() {
        let notebook = Arc::new(InMemoryNotebook::default());
        let store = |notebook: &Arc<InMemoryNotebook>, seal| {
            LogKeyStore::new(notebook.clone(), Arc::new(FixedSeal(seal)), Arc::new(AuthnTestClock::at(NOW_MS)))
        };
        let one = store(&notebook, 7).signer().await.unwrap();
        let other = store(&notebook, 7).signer().await.unwrap();
        assert_eq!(one.verifier(), other.verifier());
        assert!(one.verifier().name().as_str().starts_with("servanda/"), "{}", one.verifier());
        let error = store(&notebook, 8).signer().await.unwrap_err().to_string();
        assert!(error.contains("sealed with another key"), "{error}");
        let now = servanda_contract::Timestamp::from_unix_ms(NOW_MS);
        let note = notebook.read(NoteKind::Secret, LOG_KEY_PLACE, now).await.unwrap().unwrap();
        assert_eq!(published_log_key(&note).as_ref(), Some(one.verifier()), "read without the sealing key");
        let foreign = store(&Arc::default(), 7).signer().await.unwrap();
        assert_ne!(foreign.verifier().name(), one.verifier().name());
    }
}
