//! How a person signed in, for sessions, records and screens.

use serde::{Deserialize, Serialize};

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
}

impl SignInMethod {
    /// The method for the record of decisions.
    pub(crate) fn recorded(&self) -> String {
        match self {
            Self::OneTimeLink => "one-time-link".to_owned(),
            Self::ApiKey { credential } => credential.clone(),
        }
    }
}
