//! The authenticator: checks a credential on the present terms and says who it is. What the client is told about it is [`crate::challenges`]'s.

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
    revocation::{self, RevocationCheckError},
    root_keys::{RootKeyStore, SealingKeySource},
    settings::{AuthnSettings, RequiredAuthnSettings},
};

/// Tokens whose verification is remembered.
const TOKENS_MAX: usize = 4_096;
/// Keys whose stored form is remembered, and for how long. That one was revoked is asked every time.
const KEYS_MAX: usize = 1_024;
const KEY_REMEMBERED_MS: u64 = 10_000;
/// How long root keys are remembered. For so long a gateway may still make new credentials with a key that was replaced.
pub(crate) const ROOTS_REMEMBERED_MS: u64 = 60_000;
/// How old the remembered root keys may be when a credential of an unknown key comes; older ones are read again.
const ROOTS_AGAIN_MS: u64 = 1_000;

/// Knows who is let in.
pub struct CredentialAuthenticator {
    pub(crate) notebook: Arc<dyn Notebook>,
    pub(crate) clock: Arc<dyn Clock>,
    fetcher: Fetcher,
    mode: RwLock<Arc<AuthnMode>>,
    root_store: RootKeyStore,
    roots: Mutex<Option<(Timestamp, Arc<RootKeys>)>>,
    keys: AuthnCache<String, Arc<StoredKey>>,
}

/// What holds at present.
#[derive(Debug)]
pub(crate) enum AuthnMode {
    Local,
    Required(Box<RequiredAuthn>),
}

/// The terms, and what is kept as long as they hold.
#[derive(Debug)]
pub(crate) struct RequiredAuthn {
    pub(crate) settings: RequiredAuthnSettings,
    /// Where our metadata are.
    pub(crate) metadata: String,
    pub(crate) hostname: Option<Arc<str>>,
    /// Where our resource is on its host.
    pub(crate) path: String,
    issuers: Vec<Arc<IssuerKeys>>,
    tokens: AuthnCache<[u8; 32], VerifiedToken>,
}

/// A token that was verified, and with which keys: when its issuer takes those back, it is verified again.
#[derive(Debug, Clone)]
struct VerifiedToken {
    issuer: Arc<IssuerKeys>,
    keys: Arc<KeySet>,
    kid: Option<String>,
    authenticated: Arc<AuthenticatedCaller>,
}

/// Why somebody is not let in. Each says to the log what it is; nothing of a credential is in it.
#[derive(Debug, thiserror::Error)]
pub enum AuthnError {
    /// The credential is no good.
    #[error(transparent)]
    Credential(#[from] AuthenticationError),
    /// It was, and was revoked; or nobody can say.
    #[error(transparent)]
    Revocation(#[from] RevocationCheckError),
    /// The store that knows does not answer.
    #[error("the store of credentials does not answer: {0}")]
    Store(#[from] JournalError),
}

impl CredentialAuthenticator {
    /// An authenticator on those terms. The error is the system's: there is no way out to issuers.
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
        };
        authenticator.replace(terms);
        Ok(authenticator)
    }

    /// Whether everybody who comes is the one local principal.
    pub fn is_local(&self) -> bool {
        matches!(*self.mode(), AuthnMode::Local)
    }

    /// Works on other terms from now on. The keys of issuers that stay are kept; what was verified is verified again.
    pub fn replace(&self, terms: AuthnSettings) {
        let before = self.mode();
        let next = match terms {
            AuthnSettings::Local => AuthnMode::Local,
            AuthnSettings::Required(terms) => AuthnMode::Required(Box::new(self.required_authn(*terms, &before))),
        };
        *self.mode.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
    }

    fn required_authn(&self, terms: RequiredAuthnSettings, before: &AuthnMode) -> RequiredAuthn {
        let known: &[Arc<IssuerKeys>] = match before {
            AuthnMode::Local => &[],
            AuthnMode::Required(mode) => &mode.issuers,
        };
        let issuers = terms.issuers.iter().map(|issuer| {
            let same = known.iter().find(|known| known.settings.issuer.issuer == issuer.issuer.issuer);
            let fresh = || IssuerKeys::new(issuer.clone(), self.fetcher.clone(), Arc::clone(&self.clock));
            Arc::new(same.map_or_else(fresh, |same| same.with_settings(issuer.clone())))
        });
        let url = reqwest::Url::parse(&terms.resource).ok();
        RequiredAuthn {
            issuers: issuers.collect(),
            metadata: ResourceMetadata::address_of(&terms.resource).unwrap_or_default(),
            hostname: url.as_ref().and_then(reqwest::Url::host_str).map(Arc::from),
            path: url.as_ref().map(|url| url.path().to_owned()).unwrap_or_default(),
            settings: terms,
            tokens: AuthnCache::new(TOKENS_MAX),
        }
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

    /// Verifies an agent's credential. If its key is unknown, the keys are read again, because the key may have been made just now.
    async fn verify_agent_credential(&self, text: &str, now: Timestamp) -> Result<AuthenticatedCaller, AuthnError> {
        let verified = match self.root_keys(ROOTS_REMEMBERED_MS).await?.verify(text, now) {
            Err(CapabilityError::UnknownKey) => self.root_keys(ROOTS_AGAIN_MS).await?.verify(text, now),
            verified => verified,
        };
        Ok(verified.map_err(AuthenticationError::from)?)
    }

    /// Who it is that shows this `Authorization` header, if the credential in it is good and was not revoked.
    pub(crate) async fn authenticate(
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
    /// Where no keys are taken, neither is what comes from one.
    pub(crate) fn require_keys_accepted(&self, authenticated: &AuthenticatedCaller) -> Result<(), AuthenticationError> {
        let is_of_key = authenticated.lineage().iter().any(CredentialId::is_key);
        if is_of_key && !self.settings.keys { Err(AuthenticationError::ApiKey(KeyError::Unknown)) } else { Ok(()) }
    }

    /// Who it was that showed this before, unless the keys of its issuer are others by now.
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
        // The time may have passed on while the keys were fetched.
        let authenticated = Arc::new(token.verify(&issuer.settings.issuer, &keys, clock.now())?);
        Ok(VerifiedToken { issuer: Arc::clone(issuer), keys, kid: token.kid().map(str::to_owned), authenticated })
    }
}

impl fmt::Debug for CredentialAuthenticator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CredentialAuthenticator").field("mode", &self.mode()).finish_non_exhaustive()
    }
}

// An authenticator is what doors ask.
const _: fn(&CredentialAuthenticator) -> &dyn Authenticator = |authenticator| authenticator;
