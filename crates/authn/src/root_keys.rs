//! The root keys of agent credentials. They are stored sealed in the notebook, and every gateway that shares the
//! notebook and the sealing key has the same ones. The newest key signs new credentials. A replaced key is accepted
//! until every credential that it signed has expired.

use std::{collections::BTreeMap, fmt, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use servanda_authority::{
    Secret,
    capability::{AGENT_LIFETIME_MS_MAX, RootKeys},
    sealing::SealingKey,
};
use servanda_contract::Timestamp;
use servanda_effects::{JournalError, Note, NoteKind, Notebook};
use zeroize::Zeroizing;

/// The purpose of the sealing key of root keys.
pub const ROOTS_PURPOSE: &str = "servanda/agent-credential-roots/v1";

/// The prefix of root keys in the notebook; the number of the key follows.
const PLACE: &str = "agent-credential/sealed/";
/// Where earlier versions stored the only root key, unencrypted.
const CLEAR_PLACE: &str = "agent-credential/roots";
const KEY_BYTES: usize = 32;
/// How many root keys there may be. The notebook drops a key a day and a few minutes after it was replaced.
const ROOTS_MAX: u32 = 64;
/// A replaced key is kept so much longer than its last credential lives, because clocks differ.
const GRACE_MS: u64 = 600_000;

/// Provides the key that seals root keys. It is requested only when needed, because most gateways have no agents.
pub trait SealingKeySource: Send + Sync + fmt::Debug {
    /// The key, or the reason why there is none, in words for the operator.
    fn roots_key(&self) -> Result<SealingKey, String>;

    /// The key for the key that signs approvals, or the reason why there is none.
    fn attestation_key(&self) -> Result<SealingKey, String>;
}

/// The root keys in the notebook.
#[derive(Debug, Clone)]
pub struct RootKeyStore {
    notebook: Arc<dyn Notebook>,
    sealing: Arc<dyn SealingKeySource>,
}

/// A root key as it is stored.
#[derive(Debug, Serialize, Deserialize)]
struct SealedRootKey {
    sealed: String,
}

impl RootKeyStore {
    /// Root keys in that notebook, sealed with that key.
    pub fn new(notebook: Arc<dyn Notebook>, sealing: Arc<dyn SealingKeySource>) -> Self {
        Self { notebook, sealing }
    }

    /// The root keys. If there are none yet, one is created. If two processes create one at the same time, one of them
    /// wins.
    pub async fn read(&self, now: Timestamp) -> Result<RootKeys, JournalError> {
        let sealing = self.sealing.roots_key().map_err(JournalError::new)?;
        self.seal_clear_key(&sealing, now).await?;
        let mut notes = self.notes(now).await?;
        if notes.is_empty() {
            self.write_first(&sealing, 1, &fresh()?).await?;
            notes = self.notes(now).await?;
        }
        let mut keys = BTreeMap::new();
        let mut newest = 0;
        for (number, note) in notes {
            let kept: SealedRootKey = serde_json::from_str(&note.value).map_err(|_| not_a_key())?;
            let opened = sealing.open(&note.key, &kept.sealed).map_err(|_| sealed_with_another_key())?;
            keys.insert(number.to_string(), opened);
            newest = newest.max(number);
        }
        RootKeys::new(&newest.to_string(), keys).map_err(|_| not_a_key())
    }

    /// Creates another root key, which signs new credentials from now on, and returns its id. Credentials of the other
    /// keys stay valid until they expire.
    pub async fn rotate(&self, now: Timestamp) -> Result<String, JournalError> {
        self.read(now).await?;
        let sealing = self.sealing.roots_key().map_err(JournalError::new)?;
        let notes = self.notes(now).await?;
        if notes.len() >= ROOTS_MAX as usize {
            return Err(JournalError::new(format!(
                "{ROOTS_MAX} root keys may still have valid credentials: rotate again when the oldest has expired, within a day"
            )));
        }
        let newest = notes.last().map_or(0, |(number, _)| *number);
        let made = self.write_first(&sealing, newest + 1, &fresh()?).await?;
        if !made {
            return Err(JournalError::new(
                "another process rotated the root keys at the same time; a new key already exists",
            ));
        }
        let ends_at = Timestamp::from_unix_ms(now.unix_ms() + AGENT_LIFETIME_MS_MAX + GRACE_MS);
        for (_, note) in notes.into_iter().filter(|(_, note)| note.expires_at.is_none()) {
            self.notebook.write(Note { expires_at: Some(ends_at), ..note }).await?;
        }
        Ok((newest + 1).to_string())
    }

    /// Seals the root key that an earlier version stored unencrypted. Users who could read the ledger until now may
    /// have it.
    async fn seal_clear_key(&self, sealing: &SealingKey, now: Timestamp) -> Result<(), JournalError> {
        let Some(clear) = self.notebook.read(NoteKind::Secret, CLEAR_PLACE, now).await? else { return Ok(()) };
        let value = Zeroizing::new(clear.value);
        let written = Zeroizing::new(serde_json::from_str::<String>(&value).unwrap_or_default());
        let key = URL_SAFE_NO_PAD.decode(&*written).map(Secret::new).map_err(|_| not_a_key())?;
        self.write_first(sealing, 1, &key).await?;
        self.notebook.erase(NoteKind::Secret, CLEAR_PLACE).await?;
        tracing::warn!(
            "the root key of agent credentials was stored unencrypted and is sealed now; users who could read the ledger may have it: \
             `servanda keys rotate` makes another"
        );
        Ok(())
    }

    async fn notes(&self, now: Timestamp) -> Result<Vec<(u64, Note)>, JournalError> {
        let found = self.notebook.list(NoteKind::Secret, PLACE, ROOTS_MAX, now).await?;
        let numbered = found.into_iter().filter_map(|note| {
            let number = note.key.strip_prefix(PLACE)?.parse().ok()?;
            Some((number, note))
        });
        Ok(numbered.collect())
    }

    /// Writes a root key unless its number is taken. True if this key is the stored one.
    async fn write_first(&self, sealing: &SealingKey, number: u64, key: &Secret) -> Result<bool, JournalError> {
        // With leading zeros, so that the names sort like the numbers.
        let place = format!("{PLACE}{number:08}");
        let sealed = sealing.seal(&place, key.expose()).map_err(|_| not_a_key())?;
        let value =
            serde_json::to_string(&SealedRootKey { sealed }).map_err(|error| JournalError::new(error.to_string()))?;
        let note = Note { kind: NoteKind::Secret, key: place, value: value.clone(), expires_at: None };
        Ok(self.notebook.write_first(note).await?.value == value)
    }
}

fn fresh() -> Result<Secret, JournalError> {
    Secret::random(KEY_BYTES).map_err(|error| JournalError::new(error.to_string()))
}

fn not_a_key() -> JournalError {
    JournalError::new("the stored root key is malformed")
}

fn sealed_with_another_key() -> JournalError {
    JournalError::new(
        "the root keys of agent credentials were sealed with another key: give every gateway of this ledger the same SERVANDA_SECRET_KEY",
    )
}
