//! The authenticator: checks a credential against the current settings and says whose it is. `challenges` decides what
//! the client is told about it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use servanda_authority::{
    AuthenticatedCaller, CredentialId,
    api_key::{KeyError, PresentedKey, StoredKey},
    bearer::{AuthenticationError, Bearer},
    capability::{CapabilityError, RootKeys},
    challenge::ResourceMetadata,
    jwks::{KeySet, NoSuchKey},
    key_cache::IssuerKeyLookup,
    rights::{CONSOLE_SCOPE, METRICS_SCOPE},
    token::{TokenError, UnverifiedToken},
};
use servanda_contract::{Timestamp, time::Clock};
use servanda_doors::http::Authenticator;
use servanda_effects::{JournalError, Notebook};
use sha2::{Digest as _, Sha256};

use crate::{
    cache::AuthnCache,
    fetch::Fetcher,
    issuers::{IssuerKeys, IssuerKeysError},
    keys,
    provider_client::{ClientSecretSource, NoClientSecrets, ProviderClient},
    revocation::{self, RevocationCheckError},
    root_keys::{RootKeyStore, SealingKeySource},
    settings::{AuthnSettings, IssuerSettings, ProviderSettings, RequiredAuthnSettings},
};

/// Tokens whose verification is cached.
const TOKENS_MAX: usize = 4_096;
/// Keys whose stored form is cached, and for how long. Revocation is read from the store on every request.
const KEYS_MAX: usize = 1_024;
const KEY_REMEMBERED_MS: u64 = 10_000;
/// How long root keys are cached. For so long a gateway may still make new credentials with a replaced key.
pub(crate) const ROOTS_REMEMBERED_MS: u64 = 60_000;
/// How old the cached root keys may be when a credential with an unknown key arrives; older ones are read again.
const ROOTS_AGAIN_MS: u64 = 1_000;

/// Authenticates callers by their credentials.
pub struct CredentialAuthenticator {
    pub(crate) notebook: Arc<dyn Notebook>,
    pub(crate) clock: Arc<dyn Clock>,
    fetcher: Fetcher,
    mode: RwLock<Arc<AuthnMode>>,
    root_store: RootKeyStore,
    roots: Mutex<Option<(Timestamp, Arc<RootKeys>)>>,
    keys: AuthnCache<String, Arc<StoredKey>>,
    pub(crate) client_secrets: Arc<dyn ClientSecretSource>,
}

/// The mode that the current settings result in.
#[derive(Debug)]
pub(crate) enum AuthnMode {
    Local,
    Required(Box<RequiredAuthn>),
}

/// The settings, and what is cached for as long as they apply.
#[derive(Debug)]
pub(crate) struct RequiredAuthn {
    pub(crate) settings: RequiredAuthnSettings,
    /// The address of our resource metadata.
    pub(crate) metadata: String,
    pub(crate) hostname: Option<Arc<str>>,
    /// The path of our resource on its host.
    pub(crate) path: String,
    issuers: Vec<Arc<IssuerKeys>>,
    /// Signs people in to the console; opens no door for agents.
    pub(crate) provider: Option<Arc<ProviderClient>>,
    tokens: AuthnCache<[u8; 32], VerifiedToken>,
}

/// A verified token, and the keys that verified it: if its issuer withdraws them, the token is verified again.
#[derive(Debug, Clone)]
struct VerifiedToken {
    issuer: Arc<IssuerKeys>,
    keys: Arc<KeySet>,
    kid: Option<String>,
    authenticated: Arc<AuthenticatedCaller>,
}

/// Why a caller is not accepted. The log shows this text; it contains nothing of a credential.
#[derive(Debug, thiserror::Error)]
pub enum AuthnError {
    /// The credential is not valid.
    #[error(transparent)]
    Credential(#[from] AuthenticationError),
    /// The credential was revoked, or revocation cannot be checked.
    #[error(transparent)]
    Revocation(#[from] RevocationCheckError),
    /// The store does not answer.
    #[error("the credential store does not answer: {0}")]
    Store(#[from] JournalError),
    /// An agent presents a credential that was made for people.
    #[error("the credential `{0}` is for people: it opens the console and no door for agents")]
    ForPeople(CredentialId),
    /// An agent presents a credential that was made for a monitor.
    #[error("the credential `{0}` is for monitors: it opens `/metrics` and no door for agents")]
    ForMonitors(CredentialId),
    /// A monitor presents a credential that was not made for it.
    #[error("the credential `{0}` is not for monitors: it does not name the scope `{METRICS_SCOPE}`, or is no API key")]
    NotForMonitors(CredentialId),
    /// A person presents a credential that was made for agents.
    #[error("the credential `{0}` is not for people: it does not name the scope `{CONSOLE_SCOPE}`, or is no API key")]
    NotForPeople(CredentialId),
}

impl CredentialAuthenticator {
    /// An authenticator with these settings. Fails if the HTTP client for issuers cannot be created.
    pub fn new(
        notebook: Arc<dyn Notebook>,
        clock: Arc<dyn Clock>,
        sealing: Arc<dyn SealingKeySource>,
        terms: AuthnSettings,
    ) -> Result<Self, reqwest::Error> {
        let book = RootKeyStore::new(Arc::clone(&notebook), sealing);
        let authenticator = Self {
            notebook,
            clock,
            fetcher: Fetcher::new()?,
            mode: RwLock::new(Arc::new(AuthnMode::Local)),
            root_store: book,
            roots: Mutex::default(),
            keys: AuthnCache::new(KEYS_MAX),
            client_secrets: Arc::new(NoClientSecrets),
        };
        authenticator.replace(terms);
        Ok(authenticator)
    }

    /// The same, with the place where the secret of the identity provider's client is looked up.
    #[must_use]
    pub fn with_client_secrets(self, client_secrets: Arc<dyn ClientSecretSource>) -> Self {
        Self { client_secrets, ..self }
    }

    /// Whether every caller is the one local principal.
    pub fn is_local(&self) -> bool {
        matches!(*self.mode(), AuthnMode::Local)
    }

    /// Uses other settings from now on. The keys of unchanged issuers stay cached; tokens are verified again.
    pub fn replace(&self, terms: AuthnSettings) {
        let before = self.mode();
        let next = match terms {
            AuthnSettings::Local => AuthnMode::Local,
            AuthnSettings::Required(terms) => AuthnMode::Required(Box::new(self.required_authn(*terms, &before))),
        };
        *self.mode.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    fn required_authn(&self, terms: RequiredAuthnSettings, before: &AuthnMode) -> RequiredAuthn {
        let (known, provider_before): (&[Arc<IssuerKeys>], _) = match before {
            AuthnMode::Local => (&[], None),
            AuthnMode::Required(mode) => (&mode.issuers, mode.provider.as_ref()),
        };
        let issuers = terms.issuers.iter().map(|issuer| self.issuer_keys(issuer, known));
        let provider = terms.provider.as_ref().map(|provider| self.provider_of(provider, provider_before));
        let url = reqwest::Url::parse(&terms.resource).ok();
        RequiredAuthn {
            issuers: issuers.collect(),
            provider,
            metadata: ResourceMetadata::address_of(&terms.resource).unwrap_or_default(),
            hostname: url.as_ref().and_then(reqwest::Url::host_str).map(Arc::from),
            path: url.as_ref().map(|url| url.path().to_owned()).unwrap_or_default(),
            settings: terms,
            tokens: AuthnCache::new(TOKENS_MAX),
        }
    }

    /// The keys of an issuer, with what is known of them.
    fn issuer_keys(&self, issuer: &IssuerSettings, known: &[Arc<IssuerKeys>]) -> Arc<IssuerKeys> {
        let same = known.iter().find(|known| known.settings.issuer.issuer == issuer.issuer.issuer);
        let fresh = || IssuerKeys::new(issuer.clone(), self.fetcher.clone(), Arc::clone(&self.clock));
        Arc::new(same.map_or_else(fresh, |same| same.with_settings(issuer.clone())))
    }

    fn provider_of(&self, settings: &ProviderSettings, before: Option<&Arc<ProviderClient>>) -> Arc<ProviderClient> {
        let known: Vec<Arc<IssuerKeys>> = before.map(|before| Arc::clone(before.keys())).into_iter().collect();
        let keys = self.issuer_keys(&settings.issuer, &known);
        Arc::new(ProviderClient::new(settings.clone(), keys, Arc::clone(&self.clock)))
    }

    pub(crate) fn mode(&self) -> Arc<AuthnMode> {
        Arc::clone(&self.mode.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The root keys, read at most `age_ms_max` ago.
    pub(crate) async fn root_keys(&self, age_ms_max: u64) -> Result<Arc<RootKeys>, JournalError> {
        let now = self.clock.now();
        let known = self.roots.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((read_at, keys)) = known
            && now.unix_ms().saturating_sub(read_at.unix_ms()) < age_ms_max
        {
            return Ok(keys);
        }
        let keys = Arc::new(self.root_store.read(now).await?);
        *self.roots.lock().unwrap_or_else(PoisonError::into_inner) = Some((now, Arc::clone(&keys)));
        Ok(keys)
    }

    /// Verifies an agent's credential. If its key is unknown, the root keys are read again, because the key may be new.
    async fn verify_agent_credential(&self, text: &str, now: Timestamp) -> Result<AuthenticatedCaller, AuthnError> {
        let verified = match self.root_keys(ROOTS_REMEMBERED_MS).await?.verify(text, now) {
            Err(CapabilityError::UnknownKey) => self.root_keys(ROOTS_AGAIN_MS).await?.verify(text, now),
            verified => verified,
        };
        Ok(verified.map_err(AuthenticationError::from)?)
    }

    /// The caller that an `Authorization` header authenticates at a door for agents, if its credential is valid and not revoked.
    pub(crate) async fn authenticate(
        &self,
        mode: &RequiredAuthn,
        header: &str,
    ) -> Result<Arc<AuthenticatedCaller>, AuthnError> {
        let authenticated = self.authenticate_anyone(mode, header).await?;
        // An agent that got hold of a person's key must not act with it, and must not delegate from it.
        if authenticated.rights().scopes.names(CONSOLE_SCOPE) {
            return Err(AuthnError::ForPeople(authenticated.credential().clone()));
        }
        if authenticated.rights().scopes.names(METRICS_SCOPE) {
            return Err(AuthnError::ForMonitors(authenticated.credential().clone()));
        }
        Ok(authenticated)
    }

    /// The same for credentials of agents and of people.
    pub(crate) async fn authenticate_anyone(
        &self,
        mode: &RequiredAuthn,
        header: &str,
    ) -> Result<Arc<AuthenticatedCaller>, AuthnError> {
        let authenticated = self.identify(mode, header).await?;
        mode.require_keys_accepted(&authenticated)?;
        let now = self.clock.now();
        revocation::require_not_revoked(self.notebook.as_ref(), &authenticated, now).await?;
        Ok(authenticated)
    }

    async fn identify(&self, mode: &RequiredAuthn, header: &str) -> Result<Arc<AuthenticatedCaller>, AuthnError> {
        let now = self.clock.now();
        let digest = Sha256::digest(header.as_bytes()).into();
        if let Some(authenticated) = mode.recall(&digest, now) {
            return Ok(authenticated);
        }
        match Bearer::read(header)? {
            Bearer::ApiKey(presented) => Ok(Arc::new(self.verify_api_key(&presented, now).await?)),
            Bearer::AgentCredential(text) => Ok(Arc::new(self.verify_agent_credential(text, now).await?)),
            Bearer::AccessToken(token) => {
                let verified = mode.verify(&token, self.clock.as_ref()).await?;
                let authenticated = Arc::clone(&verified.authenticated);
                mode.tokens.remember(digest, verified, authenticated.rights().expires_at, now);
                Ok(authenticated)
            }
        }
    }

    async fn verify_api_key(
        &self,
        presented: &PresentedKey,
        now: Timestamp,
    ) -> Result<AuthenticatedCaller, AuthnError> {
        let id = presented.id().to_owned();
        let stored = if let Some(stored) = self.keys.recall(&id, now) {
            stored
        } else {
            let found = keys::find(self.notebook.as_ref(), &id, now).await?;
            let stored = Arc::new(found.ok_or(AuthenticationError::ApiKey(KeyError::Unknown))?);
            let until = Timestamp::from_unix_ms(now.unix_ms().saturating_add(KEY_REMEMBERED_MS));
            self.keys.remember(id, Arc::clone(&stored), until, now);
            stored
        };
        Ok(stored.authenticate(presented, now).map_err(AuthenticationError::from)?)
    }
}

impl RequiredAuthn {
    /// If API keys are not accepted, neither is a credential that derives from one.
    pub(crate) fn require_keys_accepted(&self, authenticated: &AuthenticatedCaller) -> Result<(), AuthenticationError> {
        let is_of_key = authenticated.lineage().iter().any(CredentialId::is_key);
        if is_of_key && !self.settings.keys { Err(AuthenticationError::ApiKey(KeyError::Unknown)) } else { Ok(()) }
    }

    /// The caller that this token authenticated before, unless its issuer's keys have changed.
    fn recall(&self, digest: &[u8; 32], now: Timestamp) -> Option<Arc<AuthenticatedCaller>> {
        let verified = self.tokens.recall(digest, now)?;
        match verified.issuer.lookup(verified.kid.as_deref()) {
            IssuerKeyLookup::Use(keys) if Arc::ptr_eq(&keys, &verified.keys) => Some(verified.authenticated),
            _ => {
                self.tokens.forget(digest);
                None
            }
        }
    }

    async fn verify(
        &self,
        token: &UnverifiedToken<'_>,
        clock: &dyn Clock,
    ) -> Result<VerifiedToken, AuthenticationError> {
        let issuer = self.issuers.iter().find(|known| known.settings.issuer.issuer == token.issuer());
        let issuer = issuer.ok_or(AuthenticationError::UnknownIssuer)?;
        let keys = issuer.find(token.kid()).await.map_err(|why| match why {
            IssuerKeysError::UnknownKid => AuthenticationError::AccessToken(TokenError::Key(NoSuchKey::UnknownKid)),
            IssuerKeysError::Unavailable => AuthenticationError::KeysUnavailable,
        })?;
        // Time may have passed while the keys were fetched.
        let authenticated = Arc::new(token.verify(&issuer.settings.issuer, &keys, clock.now())?);
        Ok(VerifiedToken { issuer: Arc::clone(issuer), keys, kid: token.kid().map(str::to_owned), authenticated })
    }
}

impl fmt::Debug for CredentialAuthenticator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CredentialAuthenticator").field("house", &self.mode()).finish_non_exhaustive()
    }
}

// The doors use this type through the `Authenticator` trait.
const _: fn(&CredentialAuthenticator) -> &dyn Authenticator = |authenticator| authenticator;
