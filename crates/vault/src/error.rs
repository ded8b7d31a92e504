//! Why there is no secret, for the three who read it. No error has a value.

use std::path::PathBuf;

use crate::{InvalidSecretReference, SecretReference, sealed::KEY_VARIABLE};

/// Why a secret cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// It is not there.
    #[error("the secret `{0}` is not set")]
    Missing(SecretReference),
    /// It is there and empty.
    #[error("the secret `{0}` is empty")]
    Empty(SecretReference),
    /// It is too short to be told from ordinary words in what a server answers.
    #[error("the secret `{reference}` has fewer than {bytes_min} bytes, so it could not be kept out of answers")]
    TooShort {
        /// Which.
        reference: SecretReference,
        /// The least.
        bytes_min: usize,
    },
    /// It is longer than any secret.
    #[error("the secret `{reference}` is longer than {bytes_max} bytes")]
    TooLong {
        /// Which.
        reference: SecretReference,
        /// The limit.
        bytes_max: usize,
    },
    /// Others can read the file.
    #[error("`{}` can be read by others than its owner", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be read.
    #[error("`{}` cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// Nothing can be called that.
    #[error(transparent)]
    Name(#[from] InvalidSecretReference),
    /// There is no encrypted store here.
    #[error("the secret `{0}` is in the encrypted store, and there is none here")]
    NoStore(SecretReference),
    /// The encrypted store is not what it should be.
    #[error(transparent)]
    Store(#[from] SecretStoreError),
}

/// What is the matter with the encrypted store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretStoreError {
    /// A file cannot be read, written or locked.
    #[error("`{}` {what}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
    /// The store was cut off, or something else stands in its place.
    #[error("`{}` is no store of secrets: it is damaged or was written by something else", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
    },
    /// A newer servanda wrote it.
    #[error("`{}` was written by a newer servanda (version {version} of the format)", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Of the format.
        version: u64,
    },
    /// It is larger than any store.
    #[error("`{}` is larger than {bytes_max} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// There are as many as there may be.
    #[error("the store has {0} secrets, which is as many as it takes")]
    Full(usize),
    /// There is no key for it.
    #[error("the key of the store is missing: `{}` is not there", path.display())]
    NoKey {
        /// The key's file.
        path: PathBuf,
    },
    /// What should be the key is none.
    #[error("{place} is no key: it must be 32 bytes in base64")]
    BadKey {
        /// Where it stands.
        place: String,
    },
    /// Others can read the key.
    #[error("`{}` can be read by others than its owner", path.display())]
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
    /// The key is right, and the secret is not what was sealed.
    #[error("the secret `{0}` in the store was changed by something else than servanda")]
    Tampered(String),
    /// The operating system gives no randomness.
    #[error("the operating system gives no randomness")]
    NoRandomness,
}

impl SecretError {
    /// What somebody who runs the gateway does about it.
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
    /// What somebody who runs the gateway does about it.
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
