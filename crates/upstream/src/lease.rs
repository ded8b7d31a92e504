//! The lease under which the bytes of an effect may be sent. The store grants one to every dispatch. If the dispatch can be repeated, and
//! for the messages that follow its first bytes, every heartbeat of the process extends the lease. A process that was stopped for longer
//! finds out here, just before it writes, that another process may have taken the effect over.
//!
//! Times are by this process's clock, taken before the store was asked. A suspended machine stops this clock too; this module does not
//! notice that.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Until when the store considers this process alive.
#[derive(Debug, Default)]
pub struct OwnerLease {
    until: Mutex<Option<Instant>>,
}

/// Until when the bytes of one dispatch may be sent.
#[derive(Debug, Clone)]
pub struct DispatchLease {
    own_until: Instant,
    owner: Arc<OwnerLease>,
    lasts_on: bool,
}

impl OwnerLease {
    /// Records that the store confirmed this process alive until then.
    pub fn extend(&self, until: Instant) {
        let mut kept = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(kept.map_or(until, |kept| kept.max(until)));
    }

    fn holds_at(&self, now: Instant) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }
}

impl DispatchLease {
    /// The lease of a single dispatch, until `own_until`.
    pub fn new(own_until: Instant, owner: Arc<OwnerLease>) -> Self {
        Self { own_until, owner, lasts_on: false }
    }

    /// Makes the lease last as long as the lease of its process, too.
    #[must_use]
    pub fn extended(self) -> Self {
        Self { lasts_on: true, ..self }
    }

    /// Whether bytes may be sent now.
    pub(crate) fn holds(&self) -> bool {
        let now = Instant::now();
        now < self.own_until || (self.lasts_on && self.owner.holds_at(now))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::{Instant, advance};

    use super::{DispatchLease, OwnerLease};

    #[tokio::test(start_paused = true)]
    async fn a_dispatch_goes_by_its_own_lease_and_by_the_process_s() {
        let (owner, start) = (Arc::new(OwnerLease::default()), Instant::now());
        let own = DispatchLease::new(start + Duration::from_secs(15), Arc::clone(&owner));
        let lease = own.clone().extended();
        assert!(lease.holds() && own.holds());
        advance(Duration::from_secs(15)).await;
        assert!(!lease.holds() && !own.holds());
        owner.extend(start + Duration::from_secs(20));
        assert!(lease.holds() && !own.holds());
        owner.extend(start + Duration::from_secs(18));
        advance(Duration::from_secs(4)).await;
        assert!(lease.holds(), "a heartbeat that was answered late does not shorten the lease");
        advance(Duration::from_secs(1)).await;
        assert!(!lease.holds());
    }
}
