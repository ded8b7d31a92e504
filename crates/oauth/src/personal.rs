//! Shows an upstream the token of the user a call is made for. If the user has not consented, the caller is told what to do, and nothing is
//! sent.
//!
//! Tokens are read from the login store for every request, so that a logout takes effect at once and everywhere. One process at a time
//! renews a token, because a refresh token is valid once.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_authority::Secret;
use servanda_contract::{Caller, Timestamp, time::Clock};
use servanda_effects::PortFuture;
use servanda_upstream::{
    CredentialRejection, CredentialRequest, CredentialSource, MissingCredential, PresentedCredentials, Remedy,
};
use tokio::time::Instant;
use zeroize::Zeroizing;

use crate::{
    challenge::Demand,
    flow::FlowError,
    grant::{self, GrantError, UpstreamAccessSource},
    login::Login,
    login_store::{LoginKey, LoginStore, LoginStoreError, RefreshClaim},
    pkce::random_text,
};

/// A token that was issued this recently is not replaced: the rejected request must have shown the one before.
pub(crate) const FRESH_MS: u64 = 5_000;
/// How long the gateway waits after a refusal before it asks again.
pub(crate) const PAUSE_MS: u64 = 5_000;
/// How often the gateway checks whether another process has renewed the token.
const LOOK_MS: u64 = 200;
/// How many users' tokens may be renewed at the same time in this process.
const TURNS_MAX: usize = 10_000;

/// Shows users' tokens.
#[derive(Debug, Clone)]
pub struct PersonalSource(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    terms: Arc<dyn UpstreamAccessSource>,
    login_store: LoginStore,
    clock: Arc<dyn Clock>,
    /// For each login, the lock of the renewal.
    refresh_locks: Mutex<BTreeMap<LoginKey, Arc<tokio::sync::Mutex<()>>>>,
    /// Logins whose renewal was refused for a reason that an operator has to fix, and until when it is not tried again.
    refused: Mutex<BTreeMap<LoginKey, (MissingCredential, Timestamp)>>,
}

/// Why a renewal failed.
struct RenewalFailure {
    why: MissingCredential,
    /// Whether it can never succeed, because the refresh token is used up.
    used_up: bool,
}

impl PersonalSource {
    /// A source for the logins in the store.
    pub fn new(terms: Arc<dyn UpstreamAccessSource>, login_store: LoginStore, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner { terms, login_store, clock, refresh_locks: Mutex::default(), refused: Mutex::default() }))
    }
}

impl CredentialSource for PersonalSource {
    fn present<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
    ) -> PortFuture<'a, Result<PresentedCredentials, MissingCredential>> {
        Box::pin(async move {
            let whose = login_key(credential_request);
            let login = self.0.login(&whose).await?;
            if let Some(token) = login.token(self.0.clock.now()) {
                return Ok(bearer(token));
            }
            let login = self.0.next(&whose, login).await?;
            let token = login.token(self.0.clock.now()).ok_or_else(|| ended(&whose))?;
            Ok(bearer(token))
        })
    }

    fn rejected<'a>(
        &'a self,
        credential_request: &'a CredentialRequest,
        rejection: &'a CredentialRejection,
    ) -> PortFuture<'a, Remedy> {
        Box::pin(async move {
            let remedy = self.0.remedy(&login_key(credential_request), rejection).await;
            remedy.map_or_else(Remedy::GiveUp, |()| Remedy::TryAgain)
        })
    }

    fn is_personal(&self) -> bool {
        true
    }
}

impl Inner {
    async fn login(&self, whose: &LoginKey) -> Result<Login, MissingCredential> {
        let login = self.login_store.login(whose, self.clock.now()).await.map_err(|error| unread(&error))?;
        let login = login.ok_or_else(|| {
            let told = format!("{} has not agreed to the use of `{}`", name(whose), whose.upstream);
            MissingCredential::not_permitted(told).with_hint(login_hint(whose))
        })?;
        if !login.is_for(self.terms.url()) {
            let told = format!("the login of {} is for another address than `{}` has now", name(whose), whose.upstream);
            return Err(MissingCredential::not_permitted(told).with_hint(login_hint(whose)));
        }
        Ok(login)
    }

    /// Makes another token available, or says why there is none.
    async fn remedy(
        self: &Arc<Self>,
        whose: &LoginKey,
        rejection: &CredentialRejection,
    ) -> Result<(), MissingCredential> {
        let login = self.login(whose).await?;
        let demand = Demand::from_headers(rejection.www_authenticate.as_deref());
        if rejection.status == 403 {
            return Err(self.more_needed(whose, &login, demand.as_ref()).await);
        }
        let fresh = self.clock.now().since_ms(login.issued_at) < FRESH_MS;
        if rejection.rejected_before == 0 && fresh && login.generation > 0 {
            return Ok(());
        }
        if rejection.rejected_before == 0 && login.refresh_token().is_some() {
            return self.next(whose, login).await.map(|_| ());
        }
        self.remember(whose, demand.as_ref()).await;
        Err(ended(whose))
    }

    async fn more_needed(&self, whose: &LoginKey, login: &Login, demand: Option<&Demand>) -> MissingCredential {
        let Some(demand) = demand.filter(|demand| demand.insufficient_scope) else {
            return MissingCredential::not_permitted(format!(
                "`{}` does not let {} do this",
                whose.upstream,
                name(whose)
            ));
        };
        let scopes = demand.scopes.clone().unwrap_or_default();
        let line = scopes.line().unwrap_or_else(|| "more scopes".to_owned());
        self.remember(whose, Some(demand)).await;
        if login.asked.contain(&scopes) {
            let told =
                format!("`{}` asks {} for {line}, but requesting that did not help", whose.upstream, name(whose));
            return MissingCredential::not_permitted(told);
        }
        let told = format!("`{}` also asks {} for {line}", whose.upstream, name(whose));
        MissingCredential::not_permitted(told).with_hint(login_hint(whose))
    }

    async fn remember(&self, whose: &LoginKey, demand: Option<&Demand>) {
        let Some(demand) = demand else { return };
        if let Err(error) = self.login_store.save_demand(whose, demand, self.clock.now()).await {
            tracing::warn!(upstream = %whose.upstream, %error, "the scopes that the upstream asks for could not be saved");
        }
    }

    /// Renews a login's tokens. The renewal continues when the caller stops waiting: a token that was issued and not stored is lost, and
    /// the login with it.
    async fn next(self: &Arc<Self>, whose: &LoginKey, before: Login) -> Result<Login, MissingCredential> {
        let (inner, whose) = (Arc::clone(self), whose.clone());
        let asking = tokio::spawn(async move {
            let turn = inner.refresh_lock(&whose);
            let next = {
                let _turn = turn.lock().await;
                inner.next_in_turn(&whose, &before).await
            };
            drop(turn);
            inner.tidy(&whose);
            next
        });
        asking.await.unwrap_or_else(|_| Err(MissingCredential::unavailable("the token could not be renewed")))
    }

    async fn next_in_turn(&self, whose: &LoginKey, before: &Login) -> Result<Login, MissingCredential> {
        let mut login = self.login(whose).await?;
        let mark = random_text().map_err(|_| MissingCredential::unavailable("there is no randomness"))?;
        let mark = mark.as_text().unwrap_or_default();
        let mut looks_left = crate::login_store::REFRESH_MS_MAX / LOOK_MS + 1;
        while login.generation == before.generation && login.issued_at == before.issued_at {
            if login.refresh_token().is_none() {
                return Err(ended(whose));
            }
            self.pause(whose)?;
            let claim = self.login_store.claim(whose, &login, mark, self.clock.now()).await;
            if let Some(claim) = claim.map_err(|error| unread(&error))? {
                return self.renew_claimed(whose, &login, claim).await;
            }
            // Another process is renewing it.
            looks_left = looks_left.checked_sub(1).ok_or_else(|| not_now(&whose.upstream))?;
            tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
            login = self.login(whose).await?;
        }
        Ok(login)
    }

    async fn renew_claimed(
        &self,
        whose: &LoginKey,
        seen: &Login,
        claim: RefreshClaim,
    ) -> Result<Login, MissingCredential> {
        let until = Instant::now() + Duration::from_millis(crate::login_store::REFRESH_MS_MAX);
        // It may have been renewed or withdrawn while the claim was made.
        let login = self.login(whose).await;
        let renewed = match &login {
            Ok(login) if login.is_same(seen) => self.renew(whose, login).await,
            Ok(other) => return Ok(other.clone()),
            Err(lack) => Err(RenewalFailure { why: lack.clone(), used_up: false }),
        };
        match renewed {
            Ok(next) => self.put_in_place(whose, seen, next, until).await,
            Err(RenewalFailure { why, used_up: true }) => {
                self.put_in_place(whose, seen, seen.without_refresh_token(), until).await?;
                Err(why)
            }
            Err(RenewalFailure { why, used_up: false }) => {
                // Nothing came of it, so the next caller tries again.
                if let Err(error) = self.login_store.release(claim).await {
                    tracing::warn!(upstream = %whose.upstream, %error, "the claim was not released; others wait until it expires");
                }
                Err(why)
            }
        }
    }

    async fn renew(&self, whose: &LoginKey, login: &Login) -> Result<Login, RenewalFailure> {
        let access = self.terms.access().await.map_err(|why| RenewalFailure { why, used_up: false })?;
        let asked = match access.oauth_http().await {
            Ok(oauth_http) => grant::renew(&oauth_http, login, &access.client, &self.clock).await,
            Err(error) => Err(error.into()),
        };
        match asked {
            Ok(Some(next)) => Ok(next),
            Ok(None) => Err(RenewalFailure { why: ended(whose), used_up: false }),
            Err(error) => {
                tracing::warn!(upstream = %whose.upstream, tenant = %whose.tenant, %error, "the token could not be renewed");
                let used_up =
                    matches!(&error, GrantError::NotGranted(FlowError::NoTokens(why)) if why.exhausts_grant());
                let why = match () {
                    () if used_up => ended(whose),
                    () if error.is_final() => self.refuse(whose, no_token(&whose.upstream, &error)),
                    () => not_now(&whose.upstream),
                };
                Err(RenewalFailure { why, used_up })
            }
        }
    }

    /// Stores the renewed login, if the former one is still stored: a user who logged out meanwhile stays logged out. If the store is
    /// unreachable, it is tried again for as long as the claim lasts, because a token that is not stored is lost, and the login with it.
    async fn put_in_place(
        &self,
        whose: &LoginKey,
        before: &Login,
        next: Login,
        until: Instant,
    ) -> Result<Login, MissingCredential> {
        let mut pause = Duration::from_millis(LOOK_MS);
        loop {
            let error = match self.login_store.login(whose, self.clock.now()).await {
                Ok(Some(present)) if present.is_same(before) => match self.login_store.save(whose, &next).await {
                    Ok(()) => return Ok(next),
                    Err(error) => error,
                },
                // A write that was reported as failed succeeded, or another process wrote.
                Ok(Some(present)) => return Ok(present),
                Ok(None) => return self.login(whose).await,
                Err(error) => error,
            };
            if !matches!(error, LoginStoreError::Store(_)) || Instant::now() + pause > until {
                tracing::error!(upstream = %whose.upstream, %error, "a renewed token could not be saved, so the login may be lost");
                return Err(unread(&error));
            }
            tokio::time::sleep(pause).await;
            pause *= 2;
        }
    }

    /// Pauses after a refusal: a server that is shown a wrong secret with every call would lock the gateway out.
    fn pause(&self, whose: &LoginKey) -> Result<(), MissingCredential> {
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let until = refused.get(whose).filter(|(_, until)| self.clock.now() < *until);
        until.map_or(Ok(()), |(why, _)| Err(why.clone()))
    }

    fn refuse(&self, whose: &LoginKey, why: MissingCredential) -> MissingCredential {
        let now = self.clock.now();
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|_, (_, until)| now < *until);
        if refused.len() < TURNS_MAX {
            let until = Timestamp::from_unix_ms(now.unix_ms().saturating_add(PAUSE_MS));
            refused.insert(whose.clone(), (why.clone(), until));
        }
        why
    }

    fn refresh_lock(&self, whose: &LoginKey) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.refresh_locks.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.len() >= TURNS_MAX {
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
        }
        Arc::clone(turns.entry(whose.clone()).or_default())
    }

    fn tidy(&self, whose: &LoginKey) {
        let mut turns = self.refresh_locks.lock().unwrap_or_else(PoisonError::into_inner);
        if turns.get(whose).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            turns.remove(whose);
        }
    }
}

/// The header that an upstream is shown.
pub(crate) fn bearer(token: &Secret) -> PresentedCredentials {
    let text = Zeroizing::new([b"Bearer ".as_slice(), token.expose()].concat());
    PresentedCredentials::header("authorization", Secret::new(text.to_vec()))
}

/// The command with which a user gives consent.
pub fn login_hint(whose: &LoginKey) -> String {
    let local = Caller::local();
    if (whose.tenant.as_str(), whose.principal.as_str()) == (&local.tenant, &local.principal) {
        format!("servanda login {}", whose.upstream)
    } else {
        format!("servanda login {} --user {}/{}", whose.upstream, whose.tenant, whose.principal)
    }
}

/// The gateway itself uses the local user's login: without one, it cannot ask the server what it offers.
fn login_key(credential_request: &CredentialRequest) -> LoginKey {
    let local = Caller::local();
    LoginKey::for_caller(
        credential_request.upstream.as_str(),
        credential_request.on_behalf_of.as_deref().unwrap_or(&local),
    )
}

fn name(whose: &LoginKey) -> String {
    format!("{}/{}", whose.tenant, whose.principal)
}

fn ended(whose: &LoginKey) -> MissingCredential {
    let told = format!("the login of {} at `{}` has ended", name(whose), whose.upstream);
    MissingCredential::not_permitted(told).with_hint(login_hint(whose))
}

fn not_now(upstream: &str) -> MissingCredential {
    MissingCredential::unavailable(format!("the authorization server of `{upstream}` does not answer at present"))
}

/// An operator has to fix something first; the login stays valid.
fn no_token(upstream: &str, error: &GrantError) -> MissingCredential {
    MissingCredential::unavailable(format!("no token could be obtained for `{upstream}`: {error}"))
}

fn unread(error: &LoginStoreError) -> MissingCredential {
    MissingCredential::unavailable(error.to_string())
}

#[cfg(test)]
mod tests;
