//! The authenticator's answers at the door: what clients are told, with which challenge, and the metadata of our
//! resource (RFC 9728).

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use http::HeaderValue;
use servanda_authority::{
    AuthenticatedCaller, CredentialMethod,
    challenge::{Challenge, ResourceMetadata},
    rights::Scope,
};
use servanda_doors::http::{AuthRejection, Authenticator, LocalAuthenticator, TokenExchangeResponse};
use servanda_effects::PortFuture;

use crate::{
    authenticator::{AuthnError, AuthnMode, CredentialAuthenticator, RequiredAuthn},
    revocation::{self, RevocationCheckError},
};

const WHAT_IS_SHOWN: &str = "send `Authorization: Bearer` with an API key, an agent credential or an access token";

impl Authenticator for CredentialAuthenticator {
    fn admit<'a>(
        &'a self,
        authorization: Option<&'a HeaderValue>,
    ) -> PortFuture<'a, Result<Arc<AuthenticatedCaller>, AuthRejection>> {
        let mode = self.mode();
        if matches!(*mode, AuthnMode::Local) {
            return LocalAuthenticator.admit(authorization);
        }
        Box::pin(async move {
            let AuthnMode::Required(mode) = &*mode else { return Err(not_now()) };
            let Some(header) = authorization else { return Err(mode.missing()) };
            // A header that is not text is treated like a malformed credential; the client need not learn the
            // difference.
            let header = header.to_str().unwrap_or_default();
            self.authenticate(mode, header).await.map_err(|why| mode.rejection(&why))
        })
    }

    fn step_up(&self, authority: &AuthenticatedCaller, scopes_needed: &[String]) -> Option<Challenge> {
        let mode = self.mode();
        let AuthnMode::Required(mode) = &*mode else { return None };
        // Only an authorization server grants more scopes. A caller with an API key or an agent credential has to ask a
        // person.
        let CredentialMethod::AccessToken { .. } = authority.method() else { return None };
        let scopes: BTreeSet<Scope> = scopes_needed.iter().filter_map(|scope| Scope::read(scope).ok()).collect();
        Some(Challenge::insufficient(&mode.metadata, &scopes))
    }

    fn is_still_valid<'a>(&'a self, authority: &'a AuthenticatedCaller) -> PortFuture<'a, bool> {
        Box::pin(async move {
            let now = self.clock.now();
            // A local caller is valid only in local mode; other callers only outside of it.
            let is_open = match &*self.mode() {
                AuthnMode::Local => *authority.method() == CredentialMethod::Local,
                AuthnMode::Required(mode) => {
                    *authority.method() != CredentialMethod::Local && mode.require_keys_accepted(authority).is_ok()
                }
            };
            if !is_open || now >= authority.rights().expires_at {
                return false;
            }
            // A stream whose credential cannot be checked is closed; its client opens another.
            revocation::require_not_revoked(self.notebook.as_ref(), authority, now).await.is_ok()
        })
    }

    fn metadata(&self, path: &str) -> Option<Bytes> {
        let mode = self.mode();
        let AuthnMode::Required(mode) = &*mode else { return None };
        let terms = &mode.settings;
        let known = path.is_empty() || path == "/mcp" || path == mode.path;
        let issuers = terms.issuers.iter().map(|issuer| issuer.issuer.issuer.clone()).collect();
        let metadata = ResourceMetadata::new(&terms.resource, issuers, terms.scopes_supported.clone());
        known.then(|| serde_json::to_vec(&metadata).ok()).flatten().map(Bytes::from)
    }

    fn exchange(&self, form: Bytes) -> PortFuture<'_, Option<TokenExchangeResponse>> {
        let mode = self.mode();
        Box::pin(async move {
            let AuthnMode::Required(mode) = &*mode else { return None };
            Some(self.answer_exchange(mode, &form).await)
        })
    }

    fn hostname(&self) -> Option<Arc<str>> {
        match &*self.mode() {
            AuthnMode::Local => None,
            AuthnMode::Required(mode) => mode.hostname.clone(),
        }
    }
}

impl RequiredAuthn {
    pub(crate) fn missing(&self) -> AuthRejection {
        let challenge = Challenge::missing(&self.metadata, &self.settings.scopes_first);
        AuthRejection::Challenged {
            challenge,
            message: "the request needs a credential".to_owned(),
            hint: self.hint(),
            wrong: None,
        }
    }

    pub(crate) fn rejection(&self, why: &AuthnError) -> AuthRejection {
        let told = match why {
            AuthnError::Credential(why) if why.is_temporary() => {
                tracing::info!(%why, "a credential cannot be checked at present");
                return AuthRejection::Unavailable { message: why.client_message().to_owned() };
            }
            AuthnError::Credential(why) => why.client_message(),
            AuthnError::Revocation(RevocationCheckError::Revoked(_)) => "the credential was revoked",
            AuthnError::ForPeople(_) => {
                "this credential is for people who sign in to the console; agents need one of their own"
            }
            AuthnError::ForMonitors(_) => {
                "this credential is for monitors, who read `/metrics`; agents need one of their own"
            }
            AuthnError::NotForMonitors(_) => {
                "this credential does not open `/metrics`; an operator makes one with `servanda keys create --scope servanda:metrics`"
            }
            AuthnError::NotForPeople(_) => "the credential is not valid here",
            AuthnError::Revocation(RevocationCheckError::Unknown(..)) | AuthnError::Store(_) => {
                tracing::info!(%why, "a credential cannot be checked at present");
                return not_now();
            }
        };
        let challenge = Challenge::invalid(&self.metadata, &self.settings.scopes_first, told);
        AuthRejection::Challenged {
            challenge,
            message: told.to_owned(),
            hint: self.hint(),
            wrong: Some(why.to_string()),
        }
    }

    fn hint(&self) -> String {
        if self.settings.issuers.is_empty() {
            return format!("{WHAT_IS_SHOWN}; operators create an API key with `servanda keys create`");
        }
        format!("{WHAT_IS_SHOWN}; the accepted token issuers are listed at {}", self.metadata)
    }
}

fn not_now() -> AuthRejection {
    AuthRejection::Unavailable { message: "credentials cannot be checked at present; try again later".to_owned() }
}
