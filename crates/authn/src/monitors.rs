//! Monitors that read the figures at `/metrics`. Where callers need credentials, so do monitors: an API key that names the scope
//! `servanda:metrics`. It opens no door for agents, and no other key opens the figures, because they name tools and callers of every tenant.

use http::HeaderValue;
use servanda_authority::{CredentialMethod, rights::METRICS_SCOPE};
use servanda_doors::http::AuthRejection;

use crate::authenticator::{AuthnError, AuthnMode, CredentialAuthenticator, RequiredAuthn};

impl CredentialAuthenticator {
    /// Whether a request for the figures may have them.
    pub async fn admit_monitor(&self, authorization: Option<&HeaderValue>) -> Result<(), AuthRejection> {
        let mode = self.mode();
        let AuthnMode::Required(mode) = &*mode else { return Ok(()) };
        let Some(header) = authorization else { return Err(mode.missing()) };
        let header = header.to_str().unwrap_or_default();
        self.require_monitor(mode, header).await.map_err(|why| mode.rejection(&why))
    }

    async fn require_monitor(&self, mode: &RequiredAuthn, header: &str) -> Result<(), AuthnError> {
        let caller = self.authenticate_anyone(mode, header).await?;
        let is_for_monitors = *caller.method() == CredentialMethod::ApiKey
            && caller.actors().is_empty()
            && caller.rights().scopes.names(METRICS_SCOPE);
        if is_for_monitors { Ok(()) } else { Err(AuthnError::NotForMonitors(caller.credential().clone())) }
    }
}
