//! The keys of one issuer, kept and fetched as `servanda_authority::key_cache` says: one fetch at a time, whoever asks.

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

/// Looks at the keys while one waits: before a fetch, after it, and after one that somebody else had begun.
const LOOKS_MAX: usize = 3;

/// An issuer with what is known of its keys.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    pub(crate) settings: IssuerSettings,
    cache: Mutex<KeyCache>,
    /// Counts the fetches that ended.
    ended: watch::Sender<u64>,
    fetcher: Fetcher,
    clock: Arc<dyn Clock>,
}

/// There are no keys to check a token with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IssuerKeysError {
    /// The issuer has no such key.
    UnknownKid,
    /// They cannot be had at present.
    Unavailable,
}

impl IssuerKeys {
    pub(crate) fn new(terms: IssuerSettings, fetcher: Fetcher, clock: Arc<dyn Clock>) -> Self {
        Self { settings: terms, cache: Mutex::default(), ended: watch::Sender::new(0), fetcher, clock }
    }

    /// The same on other terms, with the keys that are known already; they are another's if the issuer or its address is another.
    pub(crate) fn with_settings(&self, terms: IssuerSettings) -> Self {
        let same = self.settings.issuer.issuer == terms.issuer.issuer && self.settings.jwks_uri == terms.jwks_uri;
        let cache = if same { self.cache().clone() } else { KeyCache::default() };
        // A fetch that is under way tells the former, not the next.
        let (cache, _) = step(cache, &terms.cache, KeyCacheEvent::FetchFailed, self.clock.now());
        let next = Self::new(terms, self.fetcher.clone(), Arc::clone(&self.clock));
        *next.cache() = cache;
        next
    }

    /// The set that has that key, fetched first if it has to be. Cancel safe: a fetch that was begun goes on.
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

    /// What is known at once; what is due is begun.
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
                    tracing::info!(issuer = issuer.issuer, index, %why, "a key of an issuer is not used");
                }
                KeyCacheEvent::Fetched(keys)
            }
            Err(error) => {
                tracing::warn!(issuer = issuer.issuer, %error, "the keys of an issuer could not be fetched");
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
