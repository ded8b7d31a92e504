//! Checks the credential of a stream's client again from time to time, because a stream outlives the request that opened it and
//! on which the credential was checked. A stream whose credential cannot be checked is closed.

use std::{fmt, sync::Arc, time::Duration};

use servanda_authority::AuthenticatedCaller;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::{Authenticator, HttpDoor};

/// The checks of one stream.
pub(super) struct StreamReauth {
    authenticator: Arc<dyn Authenticator>,
    authority: Arc<AuthenticatedCaller>,
    ticks: Interval,
    due: bool,
    ended: bool,
}

impl StreamReauth {
    pub(super) fn for_stream<G>(door: &HttpDoor<G>, authority: &Arc<AuthenticatedCaller>) -> Self {
        Self::new(Arc::clone(&door.authenticator), Arc::clone(authority), door.reauth_interval)
    }

    fn new(authenticator: Arc<dyn Authenticator>, authority: Arc<AuthenticatedCaller>, every: Duration) -> Self {
        let mut rounds = tokio::time::interval_at(Instant::now() + every, every);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { authenticator, authority, ticks: rounds, due: false, ended: false }
    }

    /// Waits until the next check is due. Cancel safe.
    pub(super) async fn wait_until_due(&mut self) {
        self.ticks.tick().await;
        self.due = true;
    }

    /// Whether the stream may stay open: checks, if a check is due. No frame goes out meanwhile, so that a busy stream is checked as
    /// often as a quiet one. A check that takes too long counts as failed. Cancel safe: a check that did not finish is still due.
    pub(super) async fn check_if_due(&mut self) -> bool {
        if self.due && !self.ended {
            let asked = tokio::time::timeout(self.ticks.period(), self.authenticator.is_still_valid(&self.authority));
            self.ended = !asked.await.unwrap_or(false);
            self.due = false;
            if self.ended {
                let credential = self.authority.credential();
                tracing::info!(%credential, "a stream is ended: its credential has ended or was revoked");
            }
        }
        !self.ended
    }
}

impl fmt::Debug for StreamReauth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("StreamReauth").field("credential", self.authority.credential()).finish_non_exhaustive()
    }
}
