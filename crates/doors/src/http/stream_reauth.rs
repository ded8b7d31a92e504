//! Checks the credential of a stream's client again from time to time, because a stream outlives the request that opened it and
//! on which the credential was checked. A stream whose credential cannot be checked is closed.

use std::{fmt, sync::Arc, time::Duration};

use servanda_authority::Authenticated;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{Doorkeeper, HttpDoor};

/// The checks of one stream.
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

    /// Waits until the next check is due. Cancel safe.
    pub(super) async fn falls_due(&mut self) {
        self.rounds.tick().await;
        self.due = true;
    }

    /// Whether the stream may stay open: checks, if a check is due. No frame goes out meanwhile, so that a busy stream is checked as
    /// often as a quiet one. A check that takes too long counts as failed. Cancel safe: a check that did not finish is still due.
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
