//! The encrypted store: one file of sealed secrets, and next to it the file with its key, unless the key comes from the environment.
//!
//! Every read reads the file and every write replaces it as a whole, under a lock that other writers wait for. So several processes may use
//! it at once, and a process that dies leaves the old file or the new one.

mod document;
mod files;

use std::{
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use servanda_authority::Secret;
use servanda_contract::Timestamp;

use self::{
    document::{SecretDocument, SecretEntry},
    files::StoreLock,
};
use crate::{
    SecretName, SecretStoreError,
    sealed::{KEY_BYTES, KEY_FILE, KEY_VARIABLE, StoreKey},
};

/// The store's file, in the gateway's state folder.
pub const STORE_FILE: &str = "secrets.json";

const LOCK_FILE: &str = "secrets.lock";
/// How many secrets a store may have.
const SECRETS_MAX: usize = 1_000;

/// The store of one folder.
#[derive(Debug)]
pub struct LocalStore {
    folder: PathBuf,
    /// The key in base64, if the environment has it.
    given: Option<Secret>,
    /// The document that was read last, and the stamp of its file.
    read: Mutex<Option<(files::FileStamp, SecretDocument)>>,
}

/// Everything that may be shown about a stored secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSecretInfo {
    /// Its name.
    pub name: SecretName,
    /// When it was set.
    pub set_at: Timestamp,
}

impl LocalStore {
    /// The store of a folder. Nothing is read or created before it is needed. `given` is the key in base64; without it the key file is
    /// used.
    pub fn new(folder: impl Into<PathBuf>, given: Option<Secret>) -> Self {
        Self { folder: folder.into(), given, read: Mutex::default() }
    }

    /// The store's file.
    pub fn file(&self) -> PathBuf {
        self.folder.join(STORE_FILE)
    }

    /// The stored secrets, by name. Needs no key.
    pub fn list(&self) -> Result<Vec<StoredSecretInfo>, SecretStoreError> {
        let document = SecretDocument::read(&self.file())?.unwrap_or_default();
        Ok(document.secrets.into_iter().map(|(name, entry)| StoredSecretInfo { name, set_at: entry.set_at }).collect())
    }

    /// The secret of that name, if there is one.
    pub fn read(&self, name: &SecretName) -> Result<Option<Secret>, SecretStoreError> {
        let Some((key, entry)) = self
            .with_document(|document| document.secrets.get(name).map(|entry| (document.key.clone(), entry.clone())))?
        else {
            return Ok(None);
        };
        let found = self.key()?;
        self.check_key(&found, &key)?;
        let opened = found.open(name.as_str(), entry.set_at, &entry.sealed);
        opened.map(Some).ok_or_else(|| SecretStoreError::Tampered(name.to_string()))
    }

    /// Sets a secret. Returns whether there was one before. Creates the store and its key if there are none.
    pub fn set(&self, name: &SecretName, secret: &Secret, now: Timestamp) -> Result<bool, SecretStoreError> {
        let _lock = self.lock()?;
        self.put(name, secret, now)
    }

    /// Removes a secret. Returns false if there was none.
    pub fn remove(&self, name: &SecretName) -> Result<bool, SecretStoreError> {
        let _lock = self.lock()?;
        let Some(mut document) = SecretDocument::read(&self.file())? else { return Ok(false) };
        let removed = document.secrets.remove(name).is_some();
        if removed {
            files::replace(&self.file(), &document.to_bytes())?;
        }
        Ok(removed)
    }

    /// A secret of the gateway's own with this many random bytes, created when first needed. Users cannot name it.
    pub fn own(&self, name: &str, bytes_count: usize, now: Timestamp) -> Result<Secret, SecretStoreError> {
        let name = SecretName::own(name);
        if let Some(known) = self.read(&name)? {
            return Ok(known);
        }
        let _lock = self.lock()?;
        // Another process may have been faster.
        if let Some(known) = self.read(&name)? {
            return Ok(known);
        }
        let made = Secret::random(bytes_count).map_err(|_| SecretStoreError::NoRandomness)?;
        self.put(&name, &made, now)?;
        Ok(made)
    }

    /// A key of the gateway's own for that purpose, derived from the store's key. Gateways with the same store key get the same key. If
    /// there is no store, it is created, with its key.
    pub fn derived(&self, purpose: &str, now: Timestamp) -> Result<Secret, SecretStoreError> {
        if SecretDocument::read(&self.file())?.is_none() {
            // Writes the store too, so that the key that is created now stays the store's key.
            self.own("first", KEY_BYTES, now)?;
        }
        let document = SecretDocument::read(&self.file())?.unwrap_or_default();
        let key = self.key()?;
        self.check_key(&key, &document.key)?;
        Ok(key.derive(purpose))
    }

    /// The caller holds the lock.
    fn put(&self, name: &SecretName, secret: &Secret, now: Timestamp) -> Result<bool, SecretStoreError> {
        let mut document = SecretDocument::read(&self.file())?.unwrap_or_default();
        let key = if document.is_new() { self.key_or_new()? } else { self.key()? };
        if document.is_new() {
            key.id().clone_into(&mut document.key);
        }
        self.check_key(&key, &document.key)?;
        let is_known = document.secrets.contains_key(name);
        if document.secrets.len() >= SECRETS_MAX && !is_known {
            return Err(SecretStoreError::Full(SECRETS_MAX));
        }
        let nonce = Secret::random(12).map_err(|_| SecretStoreError::NoRandomness)?;
        let nonce = nonce.expose().try_into().map_err(|_| SecretStoreError::NoRandomness)?;
        let sealed = key.seal(name.as_str(), now, secret, nonce).ok_or(SecretStoreError::NoRandomness)?;
        document.secrets.insert(name.clone(), SecretEntry { set_at: now, sealed });
        files::replace(&self.file(), &document.to_bytes())?;
        Ok(is_known)
    }

    /// Works with the present document. The file is read again only if it has changed.
    fn with_document<T>(&self, work: impl FnOnce(&SecretDocument) -> Option<T>) -> Result<Option<T>, SecretStoreError> {
        let stamp = files::stamp(&self.file());
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(stamp), Some((known, document))) = (&stamp, &*read)
            && stamp == known
        {
            return Ok(work(document));
        }
        let Some(document) = SecretDocument::read(&self.file())? else {
            *read = None;
            return Ok(None);
        };
        let found = work(&document);
        *read = stamp.map(|stamp| (stamp, document));
        Ok(found)
    }

    fn check_key(&self, key: &StoreKey, id: &str) -> Result<(), SecretStoreError> {
        if key.id() == id { Ok(()) } else { Err(SecretStoreError::WrongKey { place: self.key_place() }) }
    }

    fn key(&self) -> Result<StoreKey, SecretStoreError> {
        let path = self.folder.join(KEY_FILE);
        let text = match &self.given {
            Some(given) => given.clone(),
            None => files::read_private(&path)?.ok_or(SecretStoreError::NoKey { path })?,
        };
        let bytes = STANDARD.decode(text.expose().trim_ascii()).ok().map(Secret::new);
        bytes
            .and_then(|bytes| StoreKey::from_bytes(&bytes))
            .ok_or_else(|| SecretStoreError::BadKey { place: self.key_place() })
    }

    /// The key. It is created if there is none, for a store that is still empty.
    fn key_or_new(&self) -> Result<StoreKey, SecretStoreError> {
        match self.key() {
            Err(SecretStoreError::NoKey { path }) => {
                let made = Secret::random(KEY_BYTES).map_err(|_| SecretStoreError::NoRandomness)?;
                let text = Secret::from(format!("{}\n", STANDARD.encode(made.expose())));
                files::leave_out_of_git(&self.folder)?;
                files::replace(&path, text.expose())?;
                self.key()
            }
            other => other,
        }
    }

    fn key_place(&self) -> String {
        match self.given {
            Some(_) => KEY_VARIABLE.to_owned(),
            None => format!("`{}`", self.folder.join(KEY_FILE).display()),
        }
    }

    fn lock(&self) -> Result<StoreLock, SecretStoreError> {
        files::make_folder(&self.folder)?;
        StoreLock::take(&self.folder.join(LOCK_FILE))
    }
}

#[cfg(test)]
mod tests;
