//! People who sign in to the console through the operator's identity provider.
//!
//! The settings are those in force when a request comes. An attempt that began under others is refused, and a session of others ends.

use std::sync::Arc;

use servanda_authority::{CredentialId, Secret};
use servanda_console::{AuthenticatedPerson, PersonProvider, ProviderAttempt, ProviderDescription, ProviderRefusal};
use servanda_effects::PortFuture;

use crate::{
    authenticator::{AuthnError, AuthnMode, CredentialAuthenticator, RequiredAuthn},
    provider_client::ProviderClient,
    provider_refusals, revocation,
};

impl PersonProvider for CredentialAuthenticator {
    fn provider(&self) -> Option<ProviderDescription> {
        self.provider_client().map(|client| client.description())
    }

    fn provider_address<'a>(&'a self, attempt: &'a ProviderAttempt) -> PortFuture<'a, Result<String, ProviderRefusal>> {
        Box::pin(async move { self.client_of(attempt)?.address(attempt).await })
    }

    fn read_answer<'a>(
        &'a self,
        attempt: &'a ProviderAttempt,
        query: &'a str,
    ) -> PortFuture<'a, Result<Secret, ProviderRefusal>> {
        Box::pin(async move { self.client_of(attempt)?.code(attempt, query).await })
    }

    fn person_of_code<'a>(
        &'a self,
        attempt: &'a ProviderAttempt,
        code: &'a Secret,
    ) -> PortFuture<'a, Result<AuthenticatedPerson, ProviderRefusal>> {
        Box::pin(async move { self.client_of(attempt)?.person(attempt, code, self.client_secrets.as_ref()).await })
    }
}

impl CredentialAuthenticator {
    fn provider_client(&self) -> Option<Arc<ProviderClient>> {
        match &*self.mode() {
            AuthnMode::Required(mode) => mode.provider.clone(),
            AuthnMode::Local => None,
        }
    }

    /// The provider's client, if its settings are those under which the attempt began.
    fn client_of(&self, attempt: &ProviderAttempt) -> Result<Arc<ProviderClient>, ProviderRefusal> {
        let client = self.provider_client().filter(|client| client.mark == attempt.settings);
        client.ok_or_else(provider_refusals::other_settings)
    }

    /// Whether a session counts that the provider opened: under these settings still, and not revoked.
    pub(crate) async fn is_sign_in_valid(
        &self,
        mode: &RequiredAuthn,
        sign_in: &CredentialId,
        settings: &str,
    ) -> Result<bool, AuthnError> {
        if mode.provider.as_ref().is_none_or(|client| client.mark != settings) {
            return Ok(false);
        }
        Ok(revocation::find(self.notebook.as_ref(), sign_in, self.clock.now()).await?.is_none())
    }
}
