//! When an issuer's keys are fetched, and how long they are used: a pure machine. The shell fetches and tells.
//!
//! A token with a key id nobody knows costs at most one fetch per while, whoever sends how many of them; an issuer that is
//! away does not lock anybody out at once; and keys that an issuer took back are gone with the next set.

use std::sync::Arc;

use servanda_contract::Timestamp;

use crate::jwks::KeySet;

/// How long and how often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyCachePolicy {
    /// After this a set is fetched again when it is next asked for.
    pub fresh_ms_max: u64,
    /// After this a set is not used any more, however long the issuer is away.
    pub stale_ms_max: u64,
    /// Between two fetches, at least.
    pub fetch_interval_ms_min: u64,
    /// A fetch that was not heard of for this long is taken for lost.
    pub fetch_ms_max: u64,
}

/// What is known of one issuer's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyCache {
    held: Option<CachedKeySet>,
    /// When the last fetch was begun.
    begun_at: Option<Timestamp>,
    /// Whether it is under way, as far as is known.
    under_way: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct CachedKeySet {
    keys: Arc<KeySet>,
    fetched_at: Timestamp,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyCacheEvent {
    /// A token came that names this key, or none.
    Asked {
        /// The key's id.
        kid: Option<String>,
    },
    /// A fetch brought a set that could be read.
    Fetched(KeySet),
    /// A fetch brought nothing that could be used.
    FetchFailed,
}

/// What the shell is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCacheAction {
    /// Get the set and tell.
    Fetch,
}

/// What a token can be checked with at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuerKeyLookup {
    /// This set; it has the key.
    Use(Arc<KeySet>),
    /// A fetch is under way that may bring the key: look again when it has ended.
    Wait,
    /// The issuer has no such key, as of its last set.
    UnknownKid,
    /// There is no set that may still be used.
    Unavailable,
}

/// What follows.
pub fn step(
    mut cache: KeyCache,
    terms: &KeyCachePolicy,
    event: KeyCacheEvent,
    now: Timestamp,
) -> (KeyCache, Vec<KeyCacheAction>) {
    match event {
        KeyCacheEvent::Asked { kid } => {
            if cache.is_due(terms, kid.as_deref(), now) && cache.may_fetch(terms, now) {
                cache.begun_at = Some(now);
                cache.under_way = true;
                return (cache, vec![KeyCacheAction::Fetch]);
            }
        }
        KeyCacheEvent::Fetched(keys) => {
            cache.held = Some(CachedKeySet { keys: Arc::new(keys), fetched_at: now });
            cache.under_way = false;
        }
        KeyCacheEvent::FetchFailed => cache.under_way = false,
    }
    (cache, Vec::new())
}

impl KeyCache {
    /// What a token that names this key can be checked with. After `Asked`, so that what is due is under way.
    pub fn lookup(&self, terms: &KeyCachePolicy, kid: Option<&str>, now: Timestamp) -> IssuerKeyLookup {
        let usable = self.held.as_ref().filter(|held| now.since_ms(held.fetched_at) < terms.stale_ms_max);
        match usable {
            Some(held) if held.keys.knows(kid) => IssuerKeyLookup::Use(Arc::clone(&held.keys)),
            _ if self.is_fetching(terms, now) => IssuerKeyLookup::Wait,
            Some(_) => IssuerKeyLookup::UnknownKid,
            None => IssuerKeyLookup::Unavailable,
        }
    }

    fn is_due(&self, terms: &KeyCachePolicy, kid: Option<&str>, now: Timestamp) -> bool {
        self.held
            .as_ref()
            .is_none_or(|held| now.since_ms(held.fetched_at) >= terms.fresh_ms_max || !held.keys.knows(kid))
    }

    fn may_fetch(&self, terms: &KeyCachePolicy, now: Timestamp) -> bool {
        let rested = |begun_at| now.since_ms(begun_at) >= terms.fetch_interval_ms_min;
        !self.is_fetching(terms, now) && self.begun_at.is_none_or(rested)
    }

    fn is_fetching(&self, terms: &KeyCachePolicy, now: Timestamp) -> bool {
        self.under_way && self.begun_at.is_some_and(|begun_at| now.since_ms(begun_at) < terms.fetch_ms_max)
    }
}

#[cfg(test)]
mod tests;
