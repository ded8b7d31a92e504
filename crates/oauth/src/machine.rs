//! Shows an upstream tokens that need no user's consent: for the client itself, for a token that the operator keeps, or for a statement
//! that the gateway makes about the user of this call (RFC 8693).
//!
//! A caller's own credential is never exchanged and never shown: it is not available here. Tokens live in memory and are requested again
//! after a restart.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use servanda_authority::Secret;
use servanda_contract::{Caller, Timestamp, time::Clock};
use servanda_effects::PortFuture;
use servanda_upstream::{
    CredentialRejection, CredentialRequest, CredentialSource, MissingCredential, PresentedCredentials, Remedy,
};

use crate::{
    challenge::Demand,
    discovery::DiscoveryInput,
    flow::{FlowPlan, GrantSource, GrantedTokens, RelayServer, SubjectToken},
    grant::{self, GrantError, NoBrowser, UnattendedGrant, UpstreamAccess, UpstreamAccessSource},
    login::shown_until,
    login_store::LoginStore,
    personal::{FRESH_MS, PAUSE_MS, bearer},
    scope::OauthScopes,
};

/// How many users' tokens are kept.
const SLOTS_MAX: usize = 10_000;
/// The registered type of the gateway's statements.
pub const STATEMENT_KIND: &str = "urn:ietf:params:oauth:token-type:jwt";

/// Makes statements about users for an authorization server: who they are and who acts for them.
pub trait StatementIssuer: Send + Sync + fmt::Debug {
    /// A statement, valid for one exchange.
    fn issue(&self, about: &StatementSubject<'_>, now: Timestamp) -> Result<Secret, MissingCredential>;
}

/// The content of a statement.
#[derive(Debug, Clone, Copy)]
pub struct StatementSubject<'a> {
    /// The user, and who acts for them.
    pub caller: &'a Caller,
    /// The authorization server that the statement is for.
    pub audience: &'a str,
    /// The upstream that a token is wanted for.
    pub upstream: &'a str,
}

/// Shows such tokens.
#[derive(Debug)]
pub struct MachineSource {
    terms: Arc<dyn UpstreamAccessSource>,
    login_store: LoginStore,
    clock: Arc<dyn Clock>,
    /// Set if every user gets tokens of their own.
    statements: Option<Arc<dyn StatementIssuer>>,
    slots: Mutex<BTreeMap<Option<TokenSubject>, Arc<tokio::sync::Mutex<TokenSlot>>>>,
}

/// A user and who acts for them. One agent's token is not another's, nor that of an agent that only claims the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct TokenSubject {
    tenant: String,
    principal: String,
    /// The actors' names, and whether each name is proven.
    actors: Vec<(String, bool)>,
}

#[derive(Debug, Default)]
struct TokenSlot {
    held: Option<CachedToken>,
    /// Whether a token was ever issued.
    issued: bool,
    /// The scopes requested before, and what the upstream asks for.
    asked: Option<OauthScopes>,
    demand: Option<Demand>,
    /// Why there was no token the last time, and until when it is not requested again.
    refused: Option<(MissingCredential, Timestamp)>,
}

#[derive(Debug)]
struct CachedToken {
    token: Secret,
    issued_at: Timestamp,
    shown_until: Option<Timestamp>,
    /// Whether it replaced an earlier token.
    replaces: bool,
}

impl MachineSource {
    /// Creates a source with these settings. With statements, every user gets tokens of their own.
    pub fn new(
        terms: Arc<dyn UpstreamAccessSource>,
        login_store: LoginStore,
        clock: Arc<dyn Clock>,
        statements: Option<Arc<dyn StatementIssuer>>,
    ) -> Self {
        Self { terms, login_store, clock, statements, slots: Mutex::default() }
    }

    fn slot(&self, credential_request: &CredentialRequest) -> Arc<tokio::sync::Mutex<TokenSlot>> {
        let caller = credential_request.on_behalf_of.as_deref().filter(|_| self.statements.is_some());
        let party = caller.map(|caller| TokenSubject {
            tenant: caller.tenant.clone(),
            principal: caller.principal.clone(),
            actors: caller.actors.iter().map(|acting| (acting.name.clone(), acting.proven)).collect(),
        });
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= SLOTS_MAX && !slots.contains_key(&party) {
            slots.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        Arc::clone(slots.entry(party).or_default())
    }

    async fn token(&self, credential_request: &CredentialRequest) -> Result<PresentedCredentials, MissingCredential> {
        let slot = self.slot(credential_request);
        let mut slot = slot.lock().await;
        let now = self.clock.now();
        if let Some(held) = slot.held.as_ref().filter(|held| held.is_good(now)) {
            return Ok(bearer(&held.token));
        }
        if let Some((why, _)) = slot.refused.as_ref().filter(|(_, until)| now < *until) {
            return Err(why.clone());
        }
        match self.obtain(credential_request, &slot).await {
            Ok(granted) => {
                slot.asked = Some(granted.scopes.clone());
                slot.refused = None;
                let issued_at = self.clock.now();
                let shown_until = granted.tokens.expires_at.map(|at| shown_until(issued_at, at));
                let held = CachedToken { token: granted.tokens.access, issued_at, shown_until, replaces: slot.issued };
                let presented = bearer(&held.token);
                slot.held = Some(held);
                slot.issued = true;
                Ok(presented)
            }
            Err(why) => {
                let until = Timestamp::from_unix_ms(now.unix_ms().saturating_add(PAUSE_MS));
                slot.refused = Some((why.clone(), until));
                Err(why)
            }
        }
    }

    async fn obtain(
        &self,
        credential_request: &CredentialRequest,
        slot: &TokenSlot,
    ) -> Result<GrantedTokens, MissingCredential> {
        let access = self.terms.access().await?;
        let upstream = credential_request.upstream.as_str();
        let oauth_http = access.oauth_http().await.map_err(|error| refused(upstream, &error.into()))?;
        let now = self.clock.now();
        let bound = match (&access.issuer, &access.client.id) {
            (None, Some(client)) => self
                .login_store
                .issuer(upstream, client, now)
                .await
                .map_err(|error| MissingCredential::unavailable(error.to_string()))?,
            _ => None,
        };
        let known = DiscoveryInput {
            trust: oauth_http.trust().clone(),
            challenged: slot.demand.is_some(),
            resource_metadata: slot.demand.as_ref().and_then(|demand| demand.resource_metadata.clone()),
            issuer: access.issuer.clone().or(bound),
        };
        let means = self.means(credential_request, &access, &oauth_http)?;
        let plan = FlowPlan {
            client: access.client.clone(),
            scopes: access.scopes.clone(),
            before: slot.asked.clone().filter(|_| slot.demand.is_some()),
            challenged: slot.demand.as_ref().and_then(|demand| demand.scopes.clone()),
            means,
        };
        let granted = grant::obtain(&oauth_http, plan, known, &self.clock, &NoBrowser).await;
        let granted = granted.map_err(|error| refused(upstream, &error))?;
        if let (None, Some(client)) = (&access.issuer, &access.client.id) {
            let bound = self.login_store.bind_issuer(upstream, client, &granted.issuer).await;
            bound.map_err(|error| MissingCredential::unavailable(error.to_string()))?;
        }
        Ok(granted)
    }

    fn means(
        &self,
        credential_request: &CredentialRequest,
        access: &UpstreamAccess,
        oauth_http: &crate::fetch::OauthHttp,
    ) -> Result<GrantSource, MissingCredential> {
        let upstream = credential_request.upstream.as_str();
        Ok(match (&access.grant, &self.statements, &credential_request.on_behalf_of) {
            (UnattendedGrant::Statement, Some(statements), Some(caller)) => {
                let audience = access.issuer.as_deref().ok_or_else(|| {
                    MissingCredential::unavailable(format!(
                        "`{upstream}` has no `issuer` configured, which statements need"
                    ))
                })?;
                let about = StatementSubject { caller, audience, upstream };
                let token = statements.issue(&about, self.clock.now())?;
                GrantSource::Exchange(SubjectToken { token, kind: STATEMENT_KIND.to_owned() })
            }
            // When the gateway asks what the server offers, it acts on its own account, as the client that it is.
            (UnattendedGrant::Statement | UnattendedGrant::Client, ..) => GrantSource::ClientCredentials,
            (UnattendedGrant::Assertion(assertion), ..) => GrantSource::Assertion(assertion.clone()),
            (UnattendedGrant::Subject(subject), ..) => GrantSource::Exchange(subject.clone()),
            (UnattendedGrant::Relayed { subject, endpoint, client }, ..) => {
                let place = oauth_http.trust().follow_url(endpoint.clone()).map_err(|error| {
                    MissingCredential::unavailable(format!(
                        "the token exchange endpoint of `{upstream}` is not allowed: {error}"
                    ))
                })?;
                let issuer = endpoint.origin().ascii_serialization();
                let (subject, client) = (subject.clone(), client.clone());
                GrantSource::Relayed(Box::new(RelayServer { subject, endpoint: place, issuer, client }))
            }
        })
    }

    /// Whether there is another token to show.
    async fn renewable(&self, credential_request: &CredentialRequest, rejection: &CredentialRejection) -> bool {
        let slot = self.slot(credential_request);
        let mut slot = slot.lock().await;
        let demand = Demand::from_headers(rejection.www_authenticate.as_deref());
        let wants_more = |demand: &Demand, asked: Option<&OauthScopes>| {
            demand.insufficient_scope
                && demand.scopes.as_ref().is_some_and(|scopes| asked.is_none_or(|asked| !asked.contain(scopes)))
        };
        let fresh = slot.held.as_ref().is_some_and(|held| held.is_fresh(self.clock.now()));
        if rejection.status == 401 && rejection.rejected_before == 0 && fresh {
            return true;
        }
        let again = match rejection.status {
            401 => rejection.rejected_before == 0,
            _ => demand.as_ref().is_some_and(|demand| wants_more(demand, slot.asked.as_ref())),
        };
        if again {
            slot.held = None;
            slot.demand = demand.or_else(|| slot.demand.take());
        }
        again
    }
}

impl CredentialSource for MachineSource {
    fn present<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>> {
        Box::pin(self.token(credential_request))
    }

    fn rejected<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
        rejection: &'a CredentialRejection,
    ) -> PortFuture<'a, Remedy> {
        Box::pin(async move {
            if self.renewable(credential_request, rejection).await {
                return Remedy::TryAgain;
            }
            let told = format!("`{}` rejects the token that was issued for it", credential_request.upstream);
            Remedy::GiveUp(MissingCredential::not_permitted(told))
        })
    }

    fn is_personal(&self) -> bool {
        self.statements.is_some()
    }
}

impl CachedToken {
    fn is_good(&self, now: Timestamp) -> bool {
        self.shown_until.is_none_or(|at| at > now)
    }

    /// Whether it replaced another token so recently that the rejected request must have shown the old one.
    fn is_fresh(&self, now: Timestamp) -> bool {
        self.replaces && now.since_ms(self.issued_at) < FRESH_MS
    }
}

fn refused(upstream: &str, error: &GrantError) -> MissingCredential {
    tracing::warn!(upstream, %error, "no token was issued");
    let told = format!("no token could be obtained for `{upstream}`: {error}");
    if error.is_final() { MissingCredential::not_permitted(told) } else { MissingCredential::unavailable(told) }
}

#[cfg(test)]
mod tests;
