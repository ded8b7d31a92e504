//! Looks from time to time whether whoever only listens may still do so: a stream outlives the request that opened it, and with it
//! the moment at which its credential was checked.

use std::{fmt, sync::Arc, time::Duration};

use servanda_authority::Authenticated;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{Doorkeeper, HttpDoor};

/// Over one listener.
pub(super) struct Vigil {
    doorkeeper: Arc<dyn Doorkeeper>,
    authority: Arc<Authenticated>,
    rounds: Interval,
    due: bool,
    over: bool,
}

impl Vigil {
    pub(super) fn over<G>(door: &HttpDoor<G>, authority: &Arc<Authenticated>) -> Self {
        Self::new(Arc::clone(&door.doorkeeper), Arc::clone(authority), door.standing_check)
    }

    fn new(doorkeeper: Arc<dyn Doorkeeper>, authority: Arc<Authenticated>, every: Duration) -> Self {
        let mut rounds = tokio::time::interval_at(Instant::now() + every, every);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { doorkeeper, authority, rounds, due: false, over: false }
    }

    /// Waits until it is time to look. Cancel safe.
    pub(super) async fn falls_due(&mut self) {
        self.rounds.tick().await;
        self.due = true;
    }

    /// Whether the listener may stay: looks, if it is time. Nothing goes out meanwhile, so that a stream on which much is said is
    /// looked at as often as any; who looks for too long has not seen that it is well. Cancel safe: what was not finished is still due.
    pub(super) async fn lets_stay(&mut self) -> bool {
        if self.due && !self.over {
            let asked = tokio::time::timeout(self.rounds.period(), self.doorkeeper.may_stay(&self.authority));
            self.over = !asked.await.unwrap_or(false);
            self.due = false;
            if self.over {
                let credential = self.authority.credential();
                tracing::info!(%credential, "a stream is ended: its credential has ended or was revoked");
            }
        }
        !self.over
    }
}

impl fmt::Debug for Vigil {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Vigil").field("credential", self.authority.credential()).finish_non_exhaustive()
    }
}
