//! Where secrets are kept: variables of the environment, files, and an encrypted store of our own.
//!
//! A secret is named by a reference, `env:NAME`, `file:PATH` or `store:NAME`, which may stand in a configuration and on a
//! screen. Its value goes to whoever asked as an [`authority::Secret`](servanda_authority::Secret) and is in no error. What
//! it is for, and whether anybody may have it, is not known here.

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
