//! `/oauth/token`: exchanges a user's credential for an agent's (RFC 8693). `servanda_authority::exchange` decides what
//! is granted; this module checks the two presented credentials like any others, and creates the third.

use bytes::Bytes;
use servanda_authority::{
    AuthenticatedCaller, Secret,
    capability::AGENT_LIFETIME_MS_MAX,
    exchange::{self, ExchangeAnswer, ExchangeError, ExchangeRequest, ExchangeRules},
};
use servanda_doors::http::TokenExchangeResponse;
use std::sync::Arc;

use crate::{
    authenticator::{AuthnError, CredentialAuthenticator, RequiredAuthn},
    revocation::RevocationCheckError,
};

/// The default lifetime of an agent's credential: an hour.
pub(crate) const LIFETIME_MS_DEFAULT: u64 = 3_600_000;

impl CredentialAuthenticator {
    /// Answers a token request.
    pub(crate) async fn answer_exchange(&self, mode: &RequiredAuthn, form: &[u8]) -> TokenExchangeResponse {
        match self.exchange_form(mode, form).await {
            Ok(body) => TokenExchangeResponse { status: 200, body, wrong_credential: None },
            Err(error) => {
                tracing::info!(why = %error, "a token was not exchanged");
                let body = serde_json::to_vec(&error.answer()).unwrap_or_default();
                let of_credential = matches!(error, ExchangeError::SubjectToken | ExchangeError::ActorToken);
                let wrong_credential = of_credential.then(|| error.to_string());
                TokenExchangeResponse { status: error.status(), body: body.into(), wrong_credential }
            }
        }
    }

    async fn exchange_form(&self, mode: &RequiredAuthn, form: &[u8]) -> Result<Bytes, ExchangeError> {
        let request = ExchangeRequest::read(form)?;
        let subject = self.authenticate_token(mode, &request.subject_token, ExchangeError::SubjectToken).await?;
        let actor = match &request.actor_token {
            Some(token) => Some(self.authenticate_token(mode, token, ExchangeError::ActorToken).await?),
            None => None,
        };
        let rules = ExchangeRules {
            targets: vec![mode.settings.resource.clone()],
            lifetime_ms_default: LIFETIME_MS_DEFAULT,
            lifetime_ms_max: AGENT_LIFETIME_MS_MAX,
        };
        let now = self.clock.now();
        let delegation = exchange::decide(&request, &subject, actor.as_deref(), &rules, now)?;
        let roots =
            self.root_keys(crate::authenticator::ROOTS_REMEMBERED_MS).await.map_err(|_| ExchangeError::Later)?;
        let delegated = roots.delegate(&subject, delegation, now)?;
        let (credential, user, tenant) = (&delegated.credential, subject.principal(), subject.tenant());
        tracing::info!(%credential, tenant, user, "a credential was delegated to an agent");
        let answer = ExchangeAnswer::for_credential(&delegated, now).ok_or(ExchangeError::Later)?;
        serde_json::to_vec(&answer).map(Bytes::from).map_err(|_| ExchangeError::Later)
    }

    /// Authenticates a token with the same checks as at the door, revocation included.
    async fn authenticate_token(
        &self,
        mode: &RequiredAuthn,
        token: &Secret,
        otherwise: ExchangeError,
    ) -> Result<Arc<AuthenticatedCaller>, ExchangeError> {
        let Some(text) = token.as_text() else { return Err(otherwise) };
        let header = zeroize::Zeroizing::new(format!("Bearer {text}"));
        self.authenticate(mode, &header).await.map_err(|why| {
            tracing::info!(%why, "a token in an exchange was not accepted");
            match why {
                AuthnError::Credential(why) if !why.is_temporary() => otherwise,
                AuthnError::Revocation(RevocationCheckError::Revoked(_))
                | AuthnError::ForPeople(_)
                | AuthnError::NotForPeople(_)
                | AuthnError::ForMonitors(_)
                | AuthnError::NotForMonitors(_) => otherwise,
                AuthnError::Credential(_) | AuthnError::Revocation(_) | AuthnError::Store(_) => ExchangeError::Later,
            }
        })
    }
}
