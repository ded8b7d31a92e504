//! The answer to a successful exchange (RFC 8693 §2.2.1). Only the body; the door adds the headers.

use serde::Serialize;
use servanda_contract::Timestamp;

use super::ACCESS_TOKEN_TYPE;
use crate::{capability::AgentCredential, rights::Rights};

/// The answer that contains the credential. Only for the wire: its `Debug` leaves the credential out.
#[derive(Serialize)]
pub struct ExchangeAnswer<'a> {
    access_token: &'a str,
    issued_token_type: &'static str,
    token_type: &'static str,
    expires_in: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    scope: Option<String>,
    /// The granted rights, so that a client that asked for more sees the difference.
    servanda_rights: &'a Rights,
}

impl<'a> ExchangeAnswer<'a> {
    /// The answer for a new credential; `None` if its text were not UTF-8, which it always is.
    pub fn for_credential(made: &'a AgentCredential, now: Timestamp) -> Option<Self> {
        Some(Self {
            access_token: made.text.as_text()?,
            issued_token_type: ACCESS_TOKEN_TYPE,
            token_type: "Bearer",
            expires_in: made.rights.expires_at.since_ms(now) / 1000,
            scope: made.rights.scopes.line(),
            servanda_rights: &made.rights,
        })
    }
}

impl std::fmt::Debug for ExchangeAnswer<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ExchangeAnswer").field("expires_in", &self.expires_in).finish_non_exhaustive()
    }
}
