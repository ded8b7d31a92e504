//! The porter at the door: what clients are told, with which challenge, and what the metadata of our resource say (RFC 9728).

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use http::HeaderValue;
use servanda_authority::{
    Authenticated, Method,
    challenge::{Challenge, ResourceMetadata},
    rights::Scope,
};
use servanda_doors::http::{Doorkeeper, Exchanged, LocalDoorkeeper, NotAdmitted};
use servanda_effects::PortFuture;

use crate::{
    porter::{House, NotLetIn, Porter, RequiredHouse},
    revocation::{self, NotInGoodStanding},
};

const WHAT_IS_SHOWN: &str = "send `Authorization: Bearer` with an API key, an agent credential or an access token";

impl Doorkeeper for Porter {
    fn admit<'a>(
        &'a self,
        authorization: Option<&'a HeaderValue>,
    ) -> PortFuture<'a, Result<Arc<Authenticated>, NotAdmitted>> {
        let house = self.house();
        if matches!(*house, House::Local) {
            return LocalDoorkeeper.admit(authorization);
        }
        Box::pin(async move {
            let House::Required(house) = &*house else { return Err(not_now()) };
            let Some(header) = authorization else { return Err(house.missing()) };
            // Not text is not a credential; which of the two it lacks is nobody's to know.
            let header = header.to_str().unwrap_or_default();
            self.authenticate(house, header).await.map_err(|why| house.turned_away(&why))
        })
    }

    fn step_up(&self, authority: &Authenticated, scopes_needed: &[String]) -> Option<Challenge> {
        let house = self.house();
        let House::Required(house) = &*house else { return None };
        // Only an authorization server gives more scopes. Whoever has a key or an agent's credential has to ask a person.
        let Method::AccessToken { .. } = authority.method() else { return None };
        let scopes: BTreeSet<Scope> = scopes_needed.iter().filter_map(|scope| Scope::read(scope).ok()).collect();
        Some(Challenge::insufficient(&house.metadata, &scopes))
    }

    fn may_stay<'a>(&'a self, authority: &'a Authenticated) -> PortFuture<'a, bool> {
        Box::pin(async move {
            let now = self.clock.now();
            // Local mode has no end; and nobody stays on as the local principal where there is none any more.
            let is_open = match &*self.house() {
                House::Local => *authority.method() == Method::Local,
                House::Required(house) => *authority.method() != Method::Local && house.require_open(authority).is_ok(),
            };
            if !is_open || now >= authority.rights().expires_at {
                return false;
            }
            // Of whom nobody can say, does not stay: a client whose stream ends opens another.
            revocation::require_good(self.notebook.as_ref(), authority, now).await.is_ok()
        })
    }

    fn metadata(&self, path: &str) -> Option<Bytes> {
        let house = self.house();
        let House::Required(house) = &*house else { return None };
        let terms = &house.terms;
        let known = path.is_empty() || path == "/mcp" || path == house.path;
        let issuers = terms.issuers.iter().map(|issuer| issuer.issuer.issuer.clone()).collect();
        let metadata = ResourceMetadata::new(&terms.resource, issuers, terms.scopes_supported.clone());
        known.then(|| serde_json::to_vec(&metadata).ok()).flatten().map(Bytes::from)
    }

    fn exchange(&self, form: Bytes) -> PortFuture<'_, Option<Exchanged>> {
        let house = self.house();
        Box::pin(async move {
            let House::Required(house) = &*house else { return None };
            Some(self.exchanged(house, &form).await)
        })
    }

    fn hostname(&self) -> Option<Arc<str>> {
        match &*self.house() {
            House::Local => None,
            House::Required(house) => house.hostname.clone(),
        }
    }
}

impl RequiredHouse {
    fn missing(&self) -> NotAdmitted {
        let challenge = Challenge::missing(&self.metadata, &self.terms.scopes_first);
        NotAdmitted::Challenged { challenge, told: "a credential is needed".to_owned(), hint: self.hint(), wrong: None }
    }

    fn turned_away(&self, why: &NotLetIn) -> NotAdmitted {
        let told = match why {
            NotLetIn::Credential(why) if why.may_pass_later() => {
                tracing::info!(%why, "a credential cannot be checked at present");
                return NotAdmitted::Later { told: why.told().to_owned() };
            }
            NotLetIn::Credential(why) => why.told(),
            NotLetIn::Standing(NotInGoodStanding::Revoked(_)) => "the credential was revoked",
            NotLetIn::Standing(NotInGoodStanding::Unknown(..)) | NotLetIn::Store(_) => {
                tracing::info!(%why, "a credential cannot be checked at present");
                return not_now();
            }
        };
        let challenge = Challenge::invalid(&self.metadata, &self.terms.scopes_first, told);
        NotAdmitted::Challenged { challenge, told: told.to_owned(), hint: self.hint(), wrong: Some(why.to_string()) }
    }

    fn hint(&self) -> String {
        if self.terms.issuers.is_empty() {
            return format!("{WHAT_IS_SHOWN}; operators make one with `servanda keys create`");
        }
        format!("{WHAT_IS_SHOWN}; whose access tokens are taken is at {}", self.metadata)
    }
}

fn not_now() -> NotAdmitted {
    NotAdmitted::Later { told: "credentials cannot be checked at present; try again later".to_owned() }
}
