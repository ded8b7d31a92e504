//! The lease under which bytes of an effect may leave. The store grants one to every dispatch, and extends it with every beat of
//! the process; a process that was stopped for longer finds out here, in the moment before it writes, that another process may
//! have taken the effect over meanwhile.
//!
//! Times are those of this process, taken before the store was asked, so that they end before the store's do.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Until when the store takes this process for alive.
#[derive(Debug, Default)]
pub struct OwnerLease {
    until: Mutex<Option<Instant>>,
}

/// Until when bytes of one dispatch may leave.
#[derive(Debug, Clone)]
pub struct Lease {
    own_until: Instant,
    owner: Option<Arc<OwnerLease>>,
}

impl OwnerLease {
    /// The store heard of this process: the lease lasts until then.
    pub fn extend(&self, until: Instant) {
        let mut kept = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some(kept.map_or(until, |kept| kept.max(until)));
    }

    fn holds_at(&self, now: Instant) -> bool {
        self.until.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|until| now < until)
    }
}

impl Lease {
    /// The lease of a dispatch that cannot be repeated: until `own_until`.
    pub fn new(own_until: Instant) -> Self {
        Self { own_until, owner: None }
    }

    /// The same of one that can: it lasts on for as long as its process's own.
    #[must_use]
    pub fn extended_by(self, owner: Arc<OwnerLease>) -> Self {
        Self { owner: Some(owner), ..self }
    }

    /// Whether bytes may leave now.
    pub(crate) fn holds(&self) -> bool {
        let now = Instant::now();
        now < self.own_until || self.owner.as_ref().is_some_and(|owner| owner.holds_at(now))
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use tokio::time::{Instant, advance};

    use super::{Lease, OwnerLease};

    #[tokio::test(start_paused = true)]
    async fn a_dispatch_goes_by_its_own_lease_and_by_the_process_s() {
        let (owner, start) = (Arc::new(OwnerLease::default()), Instant::now());
        let own = Lease::new(start + Duration::from_secs(15));
        let lease = own.clone().extended_by(Arc::clone(&owner));
        assert!(lease.holds() && own.holds());
        advance(Duration::from_secs(15)).await;
        assert!(!lease.holds() && !own.holds());
        owner.extend(start + Duration::from_secs(20));
        assert!(lease.holds() && !own.holds());
        owner.extend(start + Duration::from_secs(18));
        advance(Duration::from_secs(4)).await;
        assert!(lease.holds(), "a beat that was answered late takes nothing back");
        advance(Duration::from_secs(1)).await;
        assert!(!lease.holds());
    }
}
