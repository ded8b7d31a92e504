//! The seed of a signing key of the gateway, sealed in the notebook, beside the published half of the key. Of several processes that make one
//! at once, one wins, so that all gateways of a ledger have the same.
//!
//! Deliberately not here: what the key signs.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use servanda_authority::{Secret, sealing::SealingKey};
use servanda_contract::time::Clock;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};

use crate::root_keys::SealingKeySource;

/// Bytes of a seed.
const SEED_BYTES: usize = 32;

/// A seed in the notebook.
#[derive(Debug)]
pub(crate) struct SealedSeedStore {
    notebook: Arc<dyn Notebook>,
    sealing: Arc<dyn SealingKeySource>,
    clock: Arc<dyn Clock>,
    /// Where it is, to which the sealed seed is bound.
    place: &'static str,
}

/// A seed as it is stored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SealedSeed {
    sealed: String,
    /// The published half, so that it can be read without the sealing key.
    public: String,
}

impl SealedSeedStore {
    pub(crate) fn new(
        notebook: Arc<dyn Notebook>,
        sealing: Arc<dyn SealingKeySource>,
        clock: Arc<dyn Clock>,
        place: &'static str,
    ) -> Self {
        Self { notebook, sealing, clock, place }
    }

    /// The seed; made if there is none yet. `public` is the published half of the key that a seed makes.
    pub(crate) async fn seed(&self, public: impl Fn(&Secret) -> Option<String>) -> Result<Secret, String> {
        let failed = |error: JournalError| error.reason().to_owned();
        let sealing = self.sealing.attestation_key()?;
        let found = self.notebook.read(NoteKind::Secret, self.place, self.clock.now()).await.map_err(failed)?;
        let kept = if let Some(found) = found {
            found
        } else {
            let note = self.fresh(&sealing, &public)?;
            self.notebook.write_first(note).await.map_err(failed)?
        };
        let stored: SealedSeed = serde_json::from_str(&kept.value).map_err(|_| malformed())?;
        let opened = sealing.open(self.place, &stored.sealed).map_err(|_| {
            "it was sealed with another key: give every gateway of this ledger the same SERVANDA_SECRET_KEY".to_owned()
        })?;
        let seed = opened.as_text().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok()).map(Secret::new);
        let seed = seed.ok_or_else(malformed)?;
        if public(&seed) == Some(stored.public) { Ok(seed) } else { Err(malformed()) }
    }

    fn fresh(&self, sealing: &SealingKey, public: impl Fn(&Secret) -> Option<String>) -> Result<Note, String> {
        let seed = Secret::random(SEED_BYTES).map_err(|error| error.to_string())?;
        let public = public(&seed).ok_or_else(malformed)?;
        let text = Secret::from(URL_SAFE_NO_PAD.encode(seed.expose()));
        let sealed = sealing.seal(self.place, text.expose()).map_err(|error| error.to_string())?;
        let value = serde_json::to_string(&SealedSeed { sealed, public }).map_err(|error| error.to_string())?;
        Ok(Note { kind: NoteKind::Secret, key: self.place.to_owned(), value, expires_at: None })
    }
}

/// The published half of a stored seed, which is read without the sealing key.
pub(crate) fn published_half(note: &Note) -> Option<String> {
    serde_json::from_str::<SealedSeed>(&note.value).ok().map(|stored| stored.public)
}

fn malformed() -> String {
    "the stored key is malformed".to_owned()
}
