//! How a caller was authenticated: with which kind of credential, or without one.
//!
//! Only a label. The checks themselves are next to each kind of credential.

use serde::{Deserialize, Serialize};

/// How a caller was authenticated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum CredentialMethod {
    /// A client that reached the loopback door of a gateway for one user.
    Local,
    /// An API key.
    ApiKey,
    /// The operator acts for the holder of an API key that was not shown.
    Operator,
    /// An access token of an authorization server.
    AccessToken {
        /// Its issuer.
        issuer: String,
    },
    /// A credential that we issued to an agent.
    AgentCredential,
}
