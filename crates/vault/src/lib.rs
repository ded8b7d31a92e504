//! Where secrets are kept: environment variables, files, and an encrypted store of our own.
//!
//! A secret is named by a reference, `env:NAME`, `file:PATH` or `store:NAME`, which may appear in a configuration and on a screen. The
//! caller gets its value as an [`authority::Secret`](servanda_authority::Secret); no error contains it. This crate does not know what a
//! secret is for, or who may have it.

mod error;
mod local;
mod reference;
mod sealed;
mod sources;

pub use error::{SecretError, SecretStoreError};
pub use local::{LocalStore, STORE_FILE, StoredSecretInfo};
pub use reference::{InvalidSecretReference, SecretName, SecretReference, is_variable};
pub use sealed::{KEY_FILE, KEY_VARIABLE};
pub use sources::{EnvironmentStore, FileStore, SECRET_BYTES_MAX, SecretStore, Vault};
