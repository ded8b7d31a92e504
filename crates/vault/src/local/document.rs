//! The format of the store's file: JSON with names in the clear and secrets sealed. A golden file fixes its shape.

use std::{collections::BTreeMap, io::Read as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use servanda_contract::Timestamp;

use super::files::fault;
use crate::{
    SecretName, SecretStoreError,
    sealed::{SealedSecret, VERSION},
};

/// Most bytes of the store's file.
const STORE_BYTES_MAX: u64 = 32 << 20;

/// The content of the file.
#[derive(Debug, Clone, Default)]
pub(super) struct SecretDocument {
    /// The id of the key it is sealed with.
    pub(super) key: String,
    /// By name.
    pub(super) secrets: BTreeMap<SecretName, SecretEntry>,
}

/// One secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SecretEntry {
    pub(super) set_at: Timestamp,
    pub(super) sealed: SealedSecret,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretFile {
    version: u64,
    key: String,
    secrets: BTreeMap<String, SecretFileEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SecretFileEntry {
    set_at_ms: u64,
    nonce: String,
    sealed: String,
}

#[derive(Deserialize)]
struct SecretFileVersion {
    version: u64,
}

impl SecretDocument {
    /// Whether nothing was ever stored in it.
    pub(super) fn is_new(&self) -> bool {
        self.key.is_empty()
    }

    /// The document of a file; none if there is no file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, SecretStoreError> {
        let Some(file) = super::files::open(path)? else { return Ok(None) };
        let mut text = Vec::new();
        file.take(STORE_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|source| fault(path, "cannot be read", source))?;
        if text.len() as u64 > STORE_BYTES_MAX {
            return Err(SecretStoreError::TooLarge { path: path.to_owned(), bytes_max: STORE_BYTES_MAX });
        }
        let damaged = || SecretStoreError::Damaged { path: path.to_owned() };
        let SecretFileVersion { version } = serde_json::from_slice(&text).map_err(|_| damaged())?;
        if version > u64::from(VERSION) {
            return Err(SecretStoreError::Newer { path: path.to_owned(), version });
        }
        let written: SecretFile = serde_json::from_slice(&text).map_err(|_| damaged())?;
        written.into_document().map(Some).ok_or_else(damaged)
    }

    /// The bytes of its file.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let secrets = self.secrets.iter().map(|(name, entry)| {
            let written = SecretFileEntry {
                set_at_ms: entry.set_at.unix_ms(),
                nonce: STANDARD.encode(entry.sealed.nonce),
                sealed: STANDARD.encode(&entry.sealed.bytes),
            };
            (name.to_string(), written)
        });
        let written = SecretFile { version: u64::from(VERSION), key: self.key.clone(), secrets: secrets.collect() };
        let mut text = serde_json::to_vec_pretty(&written).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl SecretFile {
    fn into_document(self) -> Option<SecretDocument> {
        if self.version != u64::from(VERSION) || self.key.is_empty() {
            return None;
        }
        let secrets = self.secrets.into_iter().map(|(name, entry)| {
            let nonce = STANDARD.decode(entry.nonce).ok()?.try_into().ok()?;
            let bytes = STANDARD.decode(entry.sealed).ok()?;
            let set_at = Timestamp::from_unix_ms(entry.set_at_ms);
            Some((SecretName::stored(&name)?, SecretEntry { set_at, sealed: SealedSecret { nonce, bytes } }))
        });
        Some(SecretDocument { key: self.key, secrets: secrets.collect::<Option<_>>()? })
    }
}
