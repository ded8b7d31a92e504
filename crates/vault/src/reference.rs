//! The name of a secret: where it is kept, and its name there. Nothing in it is secret.

use std::{fmt, path::PathBuf, str::FromStr};

/// Most bytes of a name in the local store.
const NAME_BYTES_MAX: usize = 128;

/// Where one secret is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SecretReference {
    /// `env:NAME`, an environment variable of the gateway.
    Environment(String),
    /// `file:PATH`.
    File(PathBuf),
    /// `store:NAME`, in the encrypted store.
    Store(SecretName),
}

/// The name of a secret in the local store: letters, digits, `.`, `-` and `_`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SecretName(String);

/// Text that does not name a secret. The error does not repeat the text, because it may be the secret itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecretReference {
    /// It does not say where the secret is kept.
    #[error("a secret is named `env:NAME`, `file:PATH` or `store:NAME`")]
    NoPlace,
    /// It does not say which secret is meant.
    #[error("the name of a secret is 1 to {NAME_BYTES_MAX} letters, digits, `.`, `-` and `_`")]
    NoName,
}

impl SecretName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// A name that users cannot type, for a secret that the gateway keeps for itself.
    pub(crate) fn own(name: &str) -> Self {
        Self(format!("{OWN}{name}"))
    }

    /// Whether it is the gateway's own.
    pub fn is_own(&self) -> bool {
        self.0.starts_with(OWN)
    }

    /// A name as it is written in the store.
    pub(crate) fn stored(text: &str) -> Option<Self> {
        text.strip_prefix(OWN).unwrap_or(text).parse::<Self>().ok().map(|_| Self(text.to_owned()))
    }
}

const OWN: &str = "servanda/";

impl FromStr for SecretName {
    type Err = InvalidSecretReference;

    fn from_str(text: &str) -> Result<Self, InvalidSecretReference> {
        let good = (1..=NAME_BYTES_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if good { Ok(Self(text.to_owned())) } else { Err(InvalidSecretReference::NoName) }
    }
}

impl FromStr for SecretReference {
    type Err = InvalidSecretReference;

    fn from_str(text: &str) -> Result<Self, InvalidSecretReference> {
        let (place, name) = text.split_once(':').ok_or(InvalidSecretReference::NoPlace)?;
        match place {
            "env" if is_variable(name) => Ok(Self::Environment(name.to_owned())),
            "file" if !name.trim().is_empty() => Ok(Self::File(PathBuf::from(name))),
            "store" => name.parse().map(Self::Store),
            "env" | "file" => Err(InvalidSecretReference::NoName),
            _ => Err(InvalidSecretReference::NoPlace),
        }
    }
}

/// Whether it is a valid name of an environment variable.
pub fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl fmt::Display for SecretReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(formatter, "env:{name}"),
            Self::File(path) => write!(formatter, "file:{}", path.display()),
            Self::Store(name) => write!(formatter, "store:{name}"),
        }
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_name_a_place_and_nothing_else() {
        for good in ["env:CRM_TOKEN", "file:/run/secrets/crm", "file:crm.txt", "store:crm-token", "store:a.B_9"] {
            assert_eq!(good.parse::<SecretReference>().unwrap().to_string(), good);
        }
        let bad = [
            "",
            "crm",
            "sk_live_123",
            "env:",
            "env:9A",
            "env:A B",
            "file:",
            "store:",
            "store:a/b",
            "store:ä",
            "vault:x",
        ];
        for bad in bad.into_iter().chain(["store:servanda/statement-key"]) {
            let error = bad.parse::<SecretReference>().unwrap_err().to_string();
            assert!(bad.len() < 4 || !error.contains(bad), "{error}");
        }
    }
}
