//! One-time links: how the one person of a gateway without authentication proves to be the one at its terminal.
//!
//! An agent on the same machine reaches the console as easily as the person does. It does not see the gateway's own terminal, where the link is
//! printed; so links are printed there and into no file.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use servanda_authority::{AuthenticatedCaller, Secret, secret::NoRandomness};
use servanda_contract::{Timestamp, time::Clock};
use sha2::{Digest as _, Sha256};

use super::{AuthenticatedPerson, SignInMethod};

const TOKEN_BYTES: usize = 32;
/// How long a link can be used.
const LINK_MS_MAX: u64 = 10 * 60_000;
/// Links that can be used at the same time; a further one takes the place of the oldest.
const LINKS_MAX: usize = 8;
/// The longest session that a link opens; the session's own limit is shorter.
const SESSION_MS_MAX: u64 = 24 * 3_600_000;

/// The links that can be used. Only this process knows them, by their hashes.
pub struct OneTimeLinks {
    clock: Arc<dyn Clock>,
    open: Mutex<BTreeMap<[u8; 32], Timestamp>>,
}

/// A link that opens the console once. Printing it shows nothing of it; [`OneTimeLink::path`] does.
pub struct OneTimeLink(Secret);

impl OneTimeLinks {
    /// No links.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, open: Mutex::default() }
    }

    /// Makes a link that can be used once within ten minutes.
    pub fn issue(&self) -> Result<OneTimeLink, NoRandomness> {
        let token = Secret::from(URL_SAFE_NO_PAD.encode(Secret::random(TOKEN_BYTES)?.expose()));
        let expires_at = Timestamp::from_unix_ms(self.clock.now().unix_ms().saturating_add(LINK_MS_MAX));
        let mut open = self.usable();
        if open.len() >= LINKS_MAX
            && let Some(oldest) = open.iter().min_by_key(|(_, expires_at)| **expires_at).map(|(hash, _)| *hash)
        {
            open.remove(&oldest);
        }
        open.insert(hash(token.expose()), expires_at);
        drop(open);
        Ok(OneTimeLink(token))
    }

    /// Whether a link can be used. Looking does not use it up.
    pub(crate) fn is_usable(&self, token: &str) -> bool {
        self.usable().contains_key(&hash(token.as_bytes()))
    }

    /// Uses a link up. Of several attempts at the same time, one succeeds.
    pub(crate) fn take(&self, token: &str) -> Option<AuthenticatedPerson> {
        self.usable().remove(&hash(token.as_bytes()))?;
        let caller = AuthenticatedCaller::local();
        Some(AuthenticatedPerson {
            tenant: caller.tenant().to_owned(),
            principal: caller.principal().to_owned(),
            groups: caller.groups().clone(),
            method: SignInMethod::OneTimeLink,
            proved_at: self.clock.now(),
            expires_at: Timestamp::from_unix_ms(self.clock.now().unix_ms().saturating_add(SESSION_MS_MAX)),
        })
    }

    /// The links that have not expired.
    fn usable(&self) -> MutexGuard<'_, BTreeMap<[u8; 32], Timestamp>> {
        let now = self.clock.now();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, expires_at| now < *expires_at);
        open
    }
}

impl OneTimeLink {
    /// The path of the link, to be printed once on the gateway's own terminal after the console's address. It is a secret until it is used.
    pub fn path(&self) -> String {
        format!("/sign-in/{}", self.0.as_text().unwrap_or_default())
    }
}

fn hash(token: &[u8]) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl fmt::Debug for OneTimeLinks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("OneTimeLinks").field("count", &self.usable().len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for OneTimeLink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OneTimeLink(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[derive(Debug)]
    struct SetClock(AtomicU64);

    impl Clock for SetClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
        }
    }

    fn token(link: &OneTimeLink) -> String {
        link.path().strip_prefix("/sign-in/").unwrap().to_owned()
    }

    #[test]
    fn a_link_is_used_once_and_within_its_time() {
        let clock = Arc::new(SetClock(AtomicU64::new(1_000)));
        let links = OneTimeLinks::new(clock.clone());
        let (first, second) = (links.issue().unwrap(), links.issue().unwrap());
        assert!(links.is_usable(&token(&first)) && links.is_usable(&token(&first)), "looking uses nothing up");
        assert!(links.take(&token(&first)).is_some());
        assert!(links.take(&token(&first)).is_none());
        assert!(links.take("").is_none());
        clock.0.fetch_add(LINK_MS_MAX, Ordering::SeqCst);
        assert!(links.take(&token(&second)).is_none(), "its time is over");
        assert!(!format!("{first:?} {links:?}").contains(&token(&first)));
    }

    #[test]
    fn the_number_of_links_is_bounded() {
        let clock = Arc::new(SetClock(AtomicU64::new(1_000)));
        let links = OneTimeLinks::new(clock.clone());
        let issued: Vec<OneTimeLink> = (0..=LINKS_MAX)
            .map(|_| {
                clock.0.fetch_add(1, Ordering::SeqCst);
                links.issue().unwrap()
            })
            .collect();
        assert!(!links.is_usable(&token(&issued[0])), "the oldest made room");
        assert!(links.is_usable(&token(&issued[1])) && links.is_usable(&token(&issued[LINKS_MAX])));
    }
}
