//! The gateway as the client of the operator's identity provider: where people are sent, what may come back, and whom the provider names.
//!
//! The provider's document and its answers are read by the crate `oauth`, as those of upstreams' servers are; its ID tokens are verified by
//! `servanda_authority` with keys that are fetched as those of every issuer are. Deliberately not here: the attempt and the session, which the
//! console keeps.

use std::{fmt, sync::Arc, time::Duration};

use reqwest::Url;
use servanda_authority::{
    Secret,
    token::{ExpectedIdToken, UnverifiedIdToken},
};
use servanda_console::{AuthenticatedPerson, ProviderAttempt, ProviderDescription, ProviderRefusal, SignInMethod};
use servanda_contract::{Timestamp, digest::hex, time::Clock};
use servanda_effects::PortFuture;
use servanda_oauth::{
    callback::{self, ExpectedCallback},
    client::{ClientAcquisition, OauthClient, OauthClientConfig},
    fetch::OauthHttp,
    flow::FlowEvent,
    metadata::AuthServerMetadata,
    openid::{self, AuthenticationRequest, ProviderLookupError},
    request::{Grant, TokenEndpoint, TokenPurpose, token_request},
    token_response::{self, IssuedTokens, RequestedTokenKind},
};
use sha2::{Digest as _, Sha256};

use crate::{
    fetch::check_issuer,
    issuers::{IssuerKeys, IssuerKeysError},
    provider_refusals as refusals,
    settings::ProviderSettings,
};

/// How long the provider's document is used before it is fetched again.
const DOCUMENT_FRESH_MS_MAX: u64 = 600_000;
/// How long it is used while it cannot be fetched.
const DOCUMENT_STALE_MS_MAX: u64 = 6 * 3_600_000;
/// The shortest time between two attempts to fetch it in vain.
const FETCH_INTERVAL_MS_MIN: u64 = 5_000;
/// How long a person waits for the provider's document, and for its tokens.
const PROVIDER_MS_MAX: u64 = 10_000;
const MARK_DOMAIN: &[u8] = b"servanda/identity-provider/v1\0";

/// Looks secrets up that the configuration refers to. The binary knows where they are kept.
pub trait ClientSecretSource: Send + Sync + fmt::Debug {
    /// The secret of a reference, or why there is none.
    fn secret<'a>(&'a self, reference: &'a str) -> PortFuture<'a, Result<Secret, String>>;
}

/// There is no place of secrets.
#[derive(Debug)]
pub(crate) struct NoClientSecrets;

/// The client of one provider.
#[derive(Debug)]
pub(crate) struct ProviderClient {
    pub(crate) settings: ProviderSettings,
    /// A digest of what says who a person is.
    pub(crate) mark: String,
    keys: Arc<IssuerKeys>,
    memory: tokio::sync::Mutex<ProviderMemory>,
    clock: Arc<dyn Clock>,
}

/// What was fetched of the provider, and when it could not be.
#[derive(Debug, Default)]
struct ProviderMemory {
    known: Option<Arc<KnownProvider>>,
    failed: Option<(Timestamp, ProviderLookupError)>,
}

/// The provider's document, and the HTTP client that keeps to the networks that it may name.
#[derive(Debug)]
struct KnownProvider {
    oauth_http: OauthHttp,
    server: AuthServerMetadata,
    fetched_at: Timestamp,
}

impl ProviderClient {
    pub(crate) fn new(settings: ProviderSettings, keys: Arc<IssuerKeys>, clock: Arc<dyn Clock>) -> Self {
        Self { mark: mark(&settings), settings, keys, memory: tokio::sync::Mutex::default(), clock }
    }

    /// The keys with which its ID tokens are verified.
    pub(crate) fn keys(&self) -> &Arc<IssuerKeys> {
        &self.keys
    }

    pub(crate) fn description(&self) -> ProviderDescription {
        ProviderDescription { name: self.settings.name.clone(), settings: self.mark.clone() }
    }

    /// The address to which a person is sent.
    pub(crate) async fn address(&self, attempt: &ProviderAttempt) -> Result<String, ProviderRefusal> {
        let known = self.known().await?;
        // Each client of such a provider gets another `sub`: the owner of an agent would not be known as its owner here.
        if self.settings.compares_subjects && openid::has_pairwise_subjects_only(&known.server) {
            return Err(refusals::pairwise());
        }
        let endpoint = known.server.authorization_endpoint.as_ref().ok_or_else(refusals::no_sign_in_page)?;
        let request = AuthenticationRequest {
            client: self.client_id(),
            redirect: &attempt.redirect,
            scopes: &self.settings.scopes,
            state: &attempt.state,
            nonce: &attempt.nonce,
            verifier: &attempt.verifier,
            asks_again: attempt.asked_again_at.is_some(),
        };
        Ok(request.address(endpoint).into())
    }

    /// The code in an answer.
    pub(crate) async fn code(&self, attempt: &ProviderAttempt, query: &str) -> Result<Secret, ProviderRefusal> {
        let known = self.known().await?;
        let expected = ExpectedCallback {
            state: attempt.state.clone(),
            issuer: known.server.issuer.clone(),
            names_itself: known.server.names_itself,
        };
        callback::read(query, &expected).map_err(refusals::of_answer)
    }

    /// The person for whom a code was issued.
    pub(crate) async fn person(
        &self,
        attempt: &ProviderAttempt,
        code: &Secret,
        secrets: &dyn ClientSecretSource,
    ) -> Result<AuthenticatedPerson, ProviderRefusal> {
        let known = self.known().await?;
        let client = self.client(&known.server, secrets).await?;
        let redeeming =
            tokio::time::timeout(Duration::from_millis(PROVIDER_MS_MAX), self.redeem(&known, &client, attempt, code));
        let tokens = redeeming.await.map_err(|_| refusals::unreachable("it did not answer in time"))??;
        let text = tokens.id_token.as_ref().and_then(Secret::as_text).ok_or_else(refusals::no_id_token)?;
        let token = UnverifiedIdToken::read(text).map_err(|error| refusals::of_id_token(error.into()))?;
        let keys = self.keys.find(token.kid()).await.map_err(|error| match error {
            IssuerKeysError::UnknownKid => refusals::unknown_key(),
            IssuerKeysError::Unavailable => refusals::keys_unavailable(),
        })?;
        let (nonce, access_token) = (&attempt.nonce, &tokens.access);
        let expected = ExpectedIdToken { nonce, access_token, asked_again_at: attempt.asked_again_at };
        // Time may have passed while tokens and keys were fetched.
        let now = self.clock.now();
        let verified = token.verify(&self.settings.issuer.issuer, &keys, &expected, now);
        let verified = verified.map_err(refusals::of_id_token)?;
        Ok(AuthenticatedPerson {
            tenant: verified.tenant().to_owned(),
            principal: verified.principal().to_owned(),
            groups: verified.groups().clone(),
            method: SignInMethod::Provider { sign_in: verified.credential().clone(), settings: self.mark.clone() },
            // A person who was not asked may not have been there: the provider's own session answered.
            proved_at: verified.asked_again_at().unwrap_or(Timestamp::from_unix_ms(0)),
            expires_at: Timestamp::from_unix_ms(now.unix_ms().saturating_add(self.settings.session_ms_max)),
        })
    }

    async fn redeem(
        &self,
        known: &KnownProvider,
        client: &OauthClient,
        attempt: &ProviderAttempt,
        code: &Secret,
    ) -> Result<IssuedTokens, ProviderRefusal> {
        let grant = Grant::Code { code, verifier: &attempt.verifier, redirect: &attempt.redirect };
        let endpoint = TokenEndpoint { address: &known.server.token_endpoint, issuer: &known.server.issuer };
        let purpose = TokenPurpose { resource: None, scopes: &self.settings.scopes };
        let request = token_request(&grant, client, endpoint, purpose, self.clock.now());
        let request = request.map_err(|error| refusals::client(&error.to_string()))?;
        let answered = known.oauth_http.request_token(&request).await;
        let Ok(FlowEvent::Answered { status, body }) = answered else {
            return Err(refusals::unreachable("its token endpoint did not answer"));
        };
        let read = token_response::read(status, body.expose(), RequestedTokenKind::Access, self.clock.now());
        read.map_err(|error| refusals::of_tokens(&error))
    }

    async fn client(
        &self,
        server: &AuthServerMetadata,
        secrets: &dyn ClientSecretSource,
    ) -> Result<OauthClient, ProviderRefusal> {
        let secret = match &self.settings.client_secret {
            Some(reference) => Some(secrets.secret(reference).await.map_err(|why| refusals::no_secret(&why))?),
            None => None,
        };
        let id = Some(self.client_id().to_owned());
        let config =
            OauthClientConfig { id, secret, method: self.settings.client_auth, ..OauthClientConfig::default() };
        match config.acquisition(server, None, &self.settings.scopes) {
            Ok(ClientAcquisition::Existing(client)) => Ok(client),
            Ok(ClientAcquisition::Register { .. }) => Err(refusals::client("it has no id")),
            Err(error) => Err(refusals::client(&error.to_string())),
        }
    }

    fn client_id(&self) -> &str {
        &self.settings.issuer.issuer.audience
    }

    /// The provider's document: as it was fetched lately, or fetched now. One person fetches it for all who wait.
    async fn known(&self) -> Result<Arc<KnownProvider>, ProviderRefusal> {
        let mut memory = self.memory.lock().await;
        let now = self.clock.now();
        let within = |since: Timestamp, ms_max: u64| now >= since && now.since_ms(since) < ms_max;
        if let Some(known) = memory.known.as_ref().filter(|known| within(known.fetched_at, DOCUMENT_FRESH_MS_MAX)) {
            return Ok(Arc::clone(known));
        }
        let failed_lately = memory.failed.clone().filter(|(at, _)| within(*at, FETCH_INTERVAL_MS_MIN));
        let fetched = match failed_lately {
            Some((_, error)) => Err(error),
            None => self.fetch(now).await.inspect_err(|error| memory.failed = Some((now, error.clone()))),
        };
        match fetched {
            Ok(known) => {
                *memory = ProviderMemory { known: Some(Arc::clone(&known)), failed: None };
                Ok(known)
            }
            // A document that is not believed is not replaced by an earlier one: the provider may have withdrawn it.
            Err(ProviderLookupError::Unreachable) if memory.holds(within) => {
                memory.known.clone().ok_or_else(|| refusals::of_lookup(&ProviderLookupError::Unreachable))
            }
            Err(error) => Err(refusals::of_lookup(&error)),
        }
    }

    async fn fetch(&self, now: Timestamp) -> Result<Arc<KnownProvider>, ProviderLookupError> {
        let issuer = &self.settings.issuer.issuer.issuer;
        let fetching = tokio::time::timeout(Duration::from_millis(PROVIDER_MS_MAX), look_up(issuer));
        let fetched = fetching.await.unwrap_or(Err(ProviderLookupError::Unreachable));
        let (oauth_http, server) =
            fetched.inspect_err(|error| tracing::warn!(issuer, %error, "the identity provider is not known"))?;
        Ok(Arc::new(KnownProvider { oauth_http, server, fetched_at: now }))
    }
}

impl ProviderMemory {
    /// Whether there is a document that may be used although it cannot be fetched.
    fn holds(&self, within: impl Fn(Timestamp, u64) -> bool) -> bool {
        self.known.as_ref().is_some_and(|known| within(known.fetched_at, DOCUMENT_STALE_MS_MAX))
    }
}

impl ClientSecretSource for NoClientSecrets {
    fn secret<'a>(&'a self, _reference: &'a str) -> PortFuture<'a, Result<Secret, String>> {
        Box::pin(std::future::ready(Err("this process has no place of secrets".to_owned())))
    }
}

/// Checks whether people could be sent to a provider and whether its keys can be fetched, for diagnosis.
pub async fn check_provider(settings: &ProviderSettings) -> Result<(), String> {
    let issuer = &settings.issuer.issuer.issuer;
    let (_, server) = look_up(issuer).await.map_err(|error| error.to_string())?;
    if server.authorization_endpoint.is_none() {
        return Err("its document names no address at which people sign in".to_owned());
    }
    if settings.compares_subjects && openid::has_pairwise_subjects_only(&server) {
        return Err(refusals::pairwise().message.to_owned());
    }
    check_issuer(issuer, settings.issuer.jwks_uri.as_deref()).await
}

async fn look_up(issuer: &str) -> Result<(OauthHttp, AuthServerMetadata), ProviderLookupError> {
    let url = Url::parse(issuer).map_err(|_| ProviderLookupError::Nothing)?;
    let oauth_http = OauthHttp::new(&url, &[]).await.map_err(|_| ProviderLookupError::Unreachable)?;
    let server = openid::look_up(&oauth_http, &url, issuer).await?;
    Ok((oauth_http, server))
}

/// A digest of everything that says who a person of this provider is.
fn mark(settings: &ProviderSettings) -> String {
    let of = &settings.issuer.issuer;
    let said = (&of.issuer, &of.audience, &of.tenant, &of.principal_claim, &of.principal_prefix, &of.groups_claim);
    hex(&Sha256::new().chain_update(MARK_DOMAIN).chain_update(format!("{said:?}")).finalize())
}
