//! The lease under which bytes of an effect may leave. The store grants one to every dispatch; where a dispatch can be repeated, and
//! for what follows on its first bytes, every beat of the process extends it. A process that was stopped for longer finds out here,
//! in the moment before it writes, that another process may have taken the effect over meanwhile.
//!
//! Times are those of this process, taken before the store was asked. A machine that is suspended stops this clock too; that is
//! not noticed here.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// Until when the store takes this process for alive.
#[derive(Debug, Default)]
pub struct OwnerLease {
    until: Mutex<Option<Instant>>,
}

/// Until when bytes of one dispatch may leave.
#[derive(Debug, Clone)]
pub struct DispatchLease {
    own_until: Instant,
    owner: Arc<OwnerLease>,
    lasts_on: bool,
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

impl DispatchLease {
    /// The lease of a dispatch by itself: until `own_until`.
    pub fn new(own_until: Instant, owner: Arc<OwnerLease>) -> Self {
        Self { own_until, owner, lasts_on: false }
    }

    /// The same for as long as its process's own lasts.
    #[must_use]
    pub fn extended(self) -> Self {
        Self { lasts_on: true, ..self }
    }

    /// Whether bytes may leave now.
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
        assert!(lease.holds(), "a beat that was answered late takes nothing back");
        advance(Duration::from_secs(1)).await;
        assert!(!lease.holds());
    }
}
