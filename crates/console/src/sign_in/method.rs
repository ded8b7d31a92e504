//! How a person signed in, for sessions, records and screens.

use serde::{Deserialize, Serialize};
use servanda_authority::CredentialId;

/// How a person signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum SignInMethod {
    /// With a link that the gateway printed on its own terminal. Only where the gateway asks for no credentials.
    OneTimeLink,
    /// With an API key for people.
    ApiKey {
        /// The id by which the key is recorded and revoked: never the key.
        credential: String,
    },
    /// With a passkey.
    Passkey {
        /// The id by which the passkey is recorded and revoked.
        passkey: CredentialId,
        /// The key under which it was registered; none where the gateway asks for no credentials.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<CredentialId>,
    },
    /// Through the identity provider.
    Provider {
        /// The id by which this sign-in is recorded and revoked.
        sign_in: CredentialId,
        /// A digest of the provider's settings. Under other settings the session does not count any more.
        settings: String,
    },
}

/// The session has no key to which a new passkey could be bound: a passkey alone opened it, or the identity provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SessionWithoutKey;

impl SignInMethod {
    /// The key that a passkey is bound to that is registered in a session of this method: none where the gateway asks for no credentials. `Err`
    /// where no passkey is registered: in a session without any key.
    pub(crate) fn key_of_new_passkey(&self) -> Result<Option<CredentialId>, SessionWithoutKey> {
        match self {
            Self::OneTimeLink => Ok(None),
            Self::ApiKey { credential } => CredentialId::read(credential).map(Some).ok_or(SessionWithoutKey),
            Self::Passkey { key: Some(key), .. } => Ok(Some(key.clone())),
            Self::Passkey { key: None, .. } | Self::Provider { .. } => Err(SessionWithoutKey),
        }
    }

    /// The method for the record of decisions.
    pub(crate) fn recorded(&self) -> String {
        match self {
            Self::OneTimeLink => "one-time-link".to_owned(),
            Self::ApiKey { credential } => credential.clone(),
            Self::Passkey { passkey, .. } => passkey.to_string(),
            Self::Provider { sign_in, .. } => sign_in.to_string(),
        }
    }
}
