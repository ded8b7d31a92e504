//! Why there is no secret, and what the operator can do about it. No error contains a secret value.

use std::path::PathBuf;

use crate::{InvalidSecretReference, SecretReference, sealed::KEY_VARIABLE};

/// Why a secret is not available.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It is not set.
    #[error("the secret `{0}` is not set")]
    Missing(SecretReference),
    /// It is set and empty.
    #[error("the secret `{0}` is empty")]
    Empty(SecretReference),
    /// It is too short to be told from ordinary words in a server's answer.
    #[error("the secret `{reference}` has fewer than {bytes_min} bytes, so it could not be kept out of answers")]
    TooShort {
        /// Which secret.
        reference: SecretReference,
        /// The minimum length.
        bytes_min: usize,
    },
    /// It is longer than the limit.
    #[error("the secret `{reference}` is longer than {bytes_max} bytes")]
    TooLong {
        /// Which secret.
        reference: SecretReference,
        /// The limit.
        bytes_max: usize,
    },
    /// Other users can read the file.
    #[error("`{}` can be read by users other than its owner", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The name is not valid.
    #[error(transparent)]
    Name(#[from] InvalidSecretReference),
    /// There is no encrypted store here.
    #[error("the secret `{0}` is in the encrypted store, and this folder has no such store")]
    NoStore(SecretReference),
    /// Something is wrong with the encrypted store.
    #[error(transparent)]
    Store(#[from] SecretStoreError),
}

/// What is wrong with the encrypted store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretStoreError {
    /// A file cannot be read, written or locked.
    #[error("`{}` {what}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What failed.
        what: &'static str,
        /// The cause.
        source: std::io::Error,
    },
    /// The store was cut off, or the file is something else.
    #[error("`{}` is not a secret store: it is damaged or another program wrote it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A newer servanda wrote it.
    #[error("`{}` was written by a newer servanda (version {version} of the format)", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The version of the format.
        version: u64,
    },
    /// It is larger than the limit.
    #[error("`{}` is larger than {bytes_max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// It has as many secrets as it may have.
    #[error("the store is full: it has {0} secrets, which is the limit")]
    Full(usize),
    /// Its key is missing.
    #[error("the key of the store is missing: `{}` does not exist", path.display())]
    NoKey {
        /// The key's file.
        path: PathBuf,
    },
    /// The key is not valid.
    #[error("{place} is not a valid key: it must be 32 bytes in base64")]
    BadKey {
        /// Where the key comes from.
        place: String,
    },
    /// Other users can read the key.
    #[error("`{}` can be read by users other than its owner", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// It was sealed with another key.
    #[error("the store was sealed with another key than {place}")]
    WrongKey {
        /// Where the key comes from.
        place: String,
    },
    /// The key is right, but the secret is not what was sealed.
    #[error("the secret `{0}` in the store was changed by a program other than servanda")]
    Tampered(String),
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness")]
    NoRandomness,
}

impl SecretError {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing(reference)
            | Self::Empty(reference)
            | Self::TooShort { reference, .. }
            | Self::TooLong { reference, .. } => how_to_set(reference),
            Self::Exposed { path } => format!("chmod 600 {}", path.display()),
            Self::Unreadable { path, .. } => format!("ls -l {}", path.display()),
            Self::Name(_) => "servanda secret list".to_owned(),
            Self::NoStore(_) => "run servanda in the folder of its configuration".to_owned(),
            Self::Store(fault) => fault.hint(),
        }
    }
}

impl SecretStoreError {
    /// What the operator can do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Io { path, .. } => format!("ls -l {}", path.display()),
            Self::Damaged { path } | Self::TooLarge { path, .. } => {
                format!("restore {} from a backup, or remove it and set every secret again", path.display())
            }
            Self::Newer { .. } => "use the servanda that wrote it".to_owned(),
            Self::Full(_) => "servanda secret rm NAME".to_owned(),
            Self::NoKey { path } => format!(
                "set {KEY_VARIABLE} or restore {} from a backup; without the key the secrets have to be set again",
                path.display()
            ),
            Self::BadKey { .. } => format!("export {KEY_VARIABLE}=$(openssl rand -base64 32)"),
            Self::Exposed { path } => format!("chmod 600 {}", path.display()),
            Self::WrongKey { .. } => {
                format!("use the key the store was made with ({KEY_VARIABLE} or its key file)")
            }
            Self::Tampered(name) => format!("servanda secret set {name}"),
            Self::NoRandomness => "servanda doctor".to_owned(),
        }
    }
}

fn how_to_set(reference: &SecretReference) -> String {
    match reference {
        SecretReference::Environment(name) => format!("export {name}=... where servanda is started"),
        SecretReference::File(path) => format!("write it to {} and chmod 600", path.display()),
        SecretReference::Store(name) => format!("servanda secret set {name}"),
    }
}
