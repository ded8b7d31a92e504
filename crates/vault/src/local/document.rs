//! The store's file as it is written: JSON with names in the clear and secrets sealed. Its shape is golden.

use std::{collections::BTreeMap, io::Read as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use servanda_contract::Timestamp;

use super::files::fault;
use crate::{
    SecretName, StoreFault,
    sealed::{Sealed, VERSION},
};

/// Bytes of the store, at most.
const STORE_BYTES_MAX: u64 = 32 << 20;

/// What the file says.
#[derive(Debug, Clone, Default)]
pub(super) struct Document {
    /// Which key it is sealed with.
    pub(super) key: String,
    /// By name.
    pub(super) secrets: BTreeMap<SecretName, Entry>,
}

/// One secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) set_at: Timestamp,
    pub(super) sealed: Sealed,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: u64,
    key: String,
    secrets: BTreeMap<String, WrittenEntry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenEntry {
    set_at_ms: u64,
    nonce: String,
    sealed: String,
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
}

impl Document {
    /// Whether nothing was ever kept in it.
    pub(super) fn is_new(&self) -> bool {
        self.key.is_empty()
    }

    /// The document of a file; none if there is no file.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, StoreFault> {
        let Some(file) = super::files::open(path)? else { return Ok(None) };
        let mut text = Vec::new();
        file.take(STORE_BYTES_MAX + 1)
            .read_to_end(&mut text)
            .map_err(|source| fault(path, "cannot be read", source))?;
        if text.len() as u64 > STORE_BYTES_MAX {
            return Err(StoreFault::TooLarge { path: path.to_owned(), bytes_max: STORE_BYTES_MAX });
        }
        let damaged = || StoreFault::Damaged { path: path.to_owned() };
        let Versioned { version } = serde_json::from_slice(&text).map_err(|_| damaged())?;
        if version > u64::from(VERSION) {
            return Err(StoreFault::Newer { path: path.to_owned(), version });
        }
        let written: Written = serde_json::from_slice(&text).map_err(|_| damaged())?;
        written.understood().map(Some).ok_or_else(damaged)
    }

    /// The bytes of its file.
    pub(super) fn written(&self) -> Vec<u8> {
        let secrets = self.secrets.iter().map(|(name, entry)| {
            let written = WrittenEntry {
                set_at_ms: entry.set_at.unix_ms(),
                nonce: STANDARD.encode(entry.sealed.nonce),
                sealed: STANDARD.encode(&entry.sealed.bytes),
            };
            (name.to_string(), written)
        });
        let written = Written { version: u64::from(VERSION), key: self.key.clone(), secrets: secrets.collect() };
        let mut text = serde_json::to_vec_pretty(&written).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl Written {
    fn understood(self) -> Option<Document> {
        if self.version != u64::from(VERSION) || self.key.is_empty() {
            return None;
        }
        let secrets = self.secrets.into_iter().map(|(name, entry)| {
            let nonce = STANDARD.decode(entry.nonce).ok()?.try_into().ok()?;
            let bytes = STANDARD.decode(entry.sealed).ok()?;
            let set_at = Timestamp::from_unix_ms(entry.set_at_ms);
            Some((SecretName::stored(&name)?, Entry { set_at, sealed: Sealed { nonce, bytes } }))
        });
        Some(Document { key: self.key, secrets: secrets.collect::<Option<_>>()? })
    }
}
