//! How it was found out who is calling: by which kind of credential, or without one.
//!
//! It is only a name for the way. The checks themselves stand beside each kind of credential.

use serde::{Deserialize, Serialize};

/// How it was found out who is calling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum CredentialMethod {
    /// A client that reached the loopback door of a gateway for one user.
    Local,
    /// An API key.
    ApiKey,
    /// The operator's word: they act for the holder of an API key that was not shown.
    Operator,
    /// An access token of an authorization server.
    AccessToken {
        /// Whose.
        issuer: String,
    },
    /// A credential of ours for an agent.
    AgentCredential,
}
