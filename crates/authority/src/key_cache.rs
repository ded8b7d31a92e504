//! Decides when an issuer's keys are fetched, and how long they are used: a pure state machine. The shell fetches and
//! reports.
//!
//! Tokens with unknown key ids cost at most one fetch per interval, however many arrive. An unreachable issuer does not
//! lock its users out at once. Keys that an issuer withdrew are gone with the next set.

use std::sync::Arc;

use servanda_contract::Timestamp;

use crate::jwks::KeySet;

/// How long keys are used, and how often they are fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyCachePolicy {
    /// After this, a set is fetched again when it is next used.
    pub fresh_ms_max: u64,
    /// After this, a set is not used any more, however long the issuer is unreachable.
    pub stale_ms_max: u64,
    /// The shortest time between two fetches.
    pub fetch_interval_ms_min: u64,
    /// A fetch without a report for this long counts as lost.
    pub fetch_ms_max: u64,
}

/// What is known of one issuer's keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyCache {
    held: Option<CachedKeySet>,
    /// When the last fetch began.
    begun_at: Option<Timestamp>,
    /// Whether it is still running, as far as is known.
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
    /// A token arrived that names this key, or none.
    Asked {
        /// The key's id.
        kid: Option<String>,
    },
    /// A fetch returned a readable set.
    Fetched(KeySet),
    /// A fetch returned nothing usable.
    FetchFailed,
}

/// What the shell must do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyCacheAction {
    /// Fetch the set and report.
    Fetch,
}

/// What a token can be verified with at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IssuerKeyLookup {
    /// This set; it has the key.
    Use(Arc<KeySet>),
    /// A fetch is running that may bring the key: look again when it has finished.
    Wait,
    /// The issuer has no such key, as of its last set.
    UnknownKid,
    /// No set may be used any more.
    Unavailable,
}

/// The next state, and what the shell must do.
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
    /// What a token with this key can be verified with. Called after `Asked`, so that a due fetch is already running.
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
