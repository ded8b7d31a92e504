//! The keys of one issuer, cached and fetched as `servanda_authority::key_cache` decides: one fetch at a time for all
//! callers.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use servanda_authority::{
    jwks::KeySet,
    key_cache::{IssuerKeyLookup, KeyCache, KeyCacheEvent, step},
};
use servanda_contract::time::Clock;
use tokio::sync::watch;

use crate::{
    fetch::{FetchError, Fetcher},
    settings::IssuerSettings,
};

/// How often a waiting caller looks the keys up: before a fetch, after it, and after one that another caller had begun.
const LOOKS_MAX: usize = 3;

/// An issuer and its cached keys.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    pub(crate) settings: IssuerSettings,
    cache: Mutex<KeyCache>,
    /// Counts the finished fetches.
    ended: watch::Sender<u64>,
    fetcher: Fetcher,
    clock: Arc<dyn Clock>,
}

/// Why there are no keys to verify a token with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IssuerKeysError {
    /// The issuer has no such key.
    UnknownKid,
    /// The keys cannot be fetched at present.
    Unavailable,
}

impl IssuerKeys {
    pub(crate) fn new(terms: IssuerSettings, fetcher: Fetcher, clock: Arc<dyn Clock>) -> Self {
        Self { settings: terms, cache: Mutex::default(), ended: watch::Sender::new(0), fetcher, clock }
    }

    /// The same issuer with other settings. The known keys are kept only if the issuer and its key address are
    /// unchanged.
    pub(crate) fn with_settings(&self, terms: IssuerSettings) -> Self {
        let same = self.settings.issuer.issuer == terms.issuer.issuer && self.settings.jwks_uri == terms.jwks_uri;
        let cache = if same { self.cache().clone() } else { KeyCache::default() };
        // A fetch in progress reports to the old value, not to this one.
        let (cache, _) = step(cache, &terms.cache, KeyCacheEvent::FetchFailed, self.clock.now());
        let next = Self::new(terms, self.fetcher.clone(), Arc::clone(&self.clock));
        *next.cache() = cache;
        next
    }

    /// The key set that contains this key, fetched first if necessary. Cancel safe: a fetch that was begun goes on.
    pub(crate) async fn find(self: &Arc<Self>, kid: Option<&str>) -> Result<Arc<KeySet>, IssuerKeysError> {
        let mut ended = self.ended.subscribe();
        for _ in 0..LOOKS_MAX {
            match self.lookup(kid) {
                IssuerKeyLookup::Use(keys) => return Ok(keys),
                IssuerKeyLookup::UnknownKid => return Err(IssuerKeysError::UnknownKid),
                IssuerKeyLookup::Unavailable => return Err(IssuerKeysError::Unavailable),
                IssuerKeyLookup::Wait => {
                    let patience = Duration::from_millis(self.settings.cache.fetch_ms_max);
                    if tokio::time::timeout(patience, ended.changed()).await.is_err() {
                        break;
                    }
                }
            }
        }
        Err(IssuerKeysError::Unavailable)
    }

    /// What is known at once; a fetch that is due is started.
    pub(crate) fn lookup(self: &Arc<Self>, kid: Option<&str>) -> IssuerKeyLookup {
        let now = self.clock.now();
        let terms = &self.settings.cache;
        let mut cache = self.cache();
        let asked = KeyCacheEvent::Asked { kid: kid.map(str::to_owned) };
        let (next, actions) = step(std::mem::take(&mut *cache), terms, asked, now);
        *cache = next;
        let lookup = cache.lookup(terms, kid, now);
        drop(cache);
        if !actions.is_empty() {
            tokio::spawn(Arc::clone(self).fetch());
        }
        lookup
    }

    async fn fetch(self: Arc<Self>) {
        let IssuerSettings { issuer, jwks_uri, cache: terms } = &self.settings;
        let fetching = self.fetcher.key_set(&issuer.issuer, jwks_uri.as_deref());
        let fetched = tokio::time::timeout(Duration::from_millis(terms.fetch_ms_max), fetching).await;
        let event = match fetched.unwrap_or(Err(FetchError::TooSlow)) {
            Ok(keys) => {
                for left_out in keys.left_out() {
                    let (index, why) = (left_out.index, left_out.reason);
                    tracing::info!(issuer = issuer.issuer, index, %why, "an issuer's key is ignored");
                }
                KeyCacheEvent::Fetched(keys)
            }
            Err(error) => {
                tracing::warn!(issuer = issuer.issuer, %error, "an issuer's keys could not be fetched");
                KeyCacheEvent::FetchFailed
            }
        };
        let now = self.clock.now();
        let mut cache = self.cache();
        let (next, _) = step(std::mem::take(&mut *cache), terms, event, now);
        *cache = next;
        drop(cache);
        self.ended.send_modify(|ended| *ended = ended.wrapping_add(1));
    }

    fn cache(&self) -> std::sync::MutexGuard<'_, KeyCache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
