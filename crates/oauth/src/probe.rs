//! Contacts an upstream without credentials, to learn what it asks for.

use std::sync::{Mutex, PoisonError};

use servanda_effects::PortFuture;
use servanda_upstream::{
    CredentialRejection, CredentialRequest, CredentialSource, MissingCredential, PresentedCredentials, Remedy,
};

use crate::challenge::Demand;

/// Shows no credentials and remembers the last demand.
#[derive(Debug, Default)]
pub struct ChallengeProbe {
    demand: Mutex<Option<Demand>>,
}

impl ChallengeProbe {
    /// The upstream's demand; none if it accepted every request.
    pub fn demand(&self) -> Option<Demand> {
        self.demand.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl CredentialSource for ChallengeProbe {
    fn present<'a>(
        &'a self,
        _credential_request: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>> {
        Box::pin(std::future::ready(Ok(PresentedCredentials::default())))
    }

    fn rejected<'a>(
        &'a self,
        _credential_request: &'a CredentialRequest,
        rejection: &'a CredentialRejection,
    ) -> PortFuture<'a, Remedy> {
        // A server that does not say what it wants still wants a token.
        let demand = Demand::from_headers(rejection.www_authenticate.as_deref()).unwrap_or_default();
        *self.demand.lock().unwrap_or_else(PoisonError::into_inner) = Some(demand);
        Box::pin(std::future::ready(Remedy::GiveUp(MissingCredential::not_permitted("the upstream asks for a login"))))
    }

    fn is_personal(&self) -> bool {
        false
    }
}
