//! How long the gateway waits for a request. The clock stops while the client is being asked something, because the time a person thinks is
//! not the server's delay.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

/// A deadline whose clock can be stopped. Clones share the clock.
#[derive(Debug, Clone)]
pub(crate) struct PausableDeadline {
    /// None for a subscription, which is awaited without end.
    deadline: Option<Instant>,
    clock: Arc<PauseClock>,
}

/// The clock stands still while one of these is held.
#[derive(Debug)]
pub(crate) struct DeadlinePause(Arc<PauseClock>);

#[derive(Debug, Default)]
struct PauseClock {
    state: Mutex<PauseState>,
    changed: Notify,
}

/// How many pauses are held, since when, and for how long the clock stood before.
#[derive(Debug, Clone, Copy, Default)]
struct PauseState {
    holders: usize,
    since: Option<Instant>,
    paused: Duration,
}

impl PausableDeadline {
    pub(crate) fn until(deadline: Instant) -> Self {
        Self { deadline: Some(deadline), clock: Arc::default() }
    }

    pub(crate) fn endless() -> Self {
        Self { deadline: None, clock: Arc::default() }
    }

    /// Stops the clock until the pause is dropped.
    pub(crate) fn pause(&self) -> DeadlinePause {
        self.clock.change(|standing| {
            standing.since.get_or_insert_with(Instant::now);
            standing.holders += 1;
        });
        DeadlinePause(Arc::clone(&self.clock))
    }

    /// Whether it is over now.
    pub(crate) fn is_over(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Waits until it is over. Cancel safe.
    pub(crate) async fn over(&self) {
        loop {
            // Created before the state is read, so that no change is missed.
            let changed = self.clock.changed.notified();
            let due = self.due();
            // Checked first, because a timer sleeps at least for its granularity, and in that time a request would be sent.
            if due.is_some_and(|due| due <= Instant::now()) {
                return;
            }
            tokio::select! {
                () = sleep_until(due) => {}
                () = changed => {}
            }
        }
    }

    /// When it is over, as things are now; none while the clock stands still.
    fn due(&self) -> Option<Instant> {
        let standing = *self.clock.lock();
        self.deadline.filter(|_| standing.holders == 0).map(|deadline| deadline + standing.paused)
    }
}

impl PauseClock {
    fn change(&self, change: impl FnOnce(&mut PauseState)) {
        change(&mut self.lock());
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, PauseState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        self.0.change(|standing| {
            standing.holders = standing.holders.saturating_sub(1);
            if standing.holders == 0
                && let Some(since) = standing.since.take()
            {
                standing.paused += since.elapsed();
            }
        });
    }
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_stands_still_while_it_is_held() {
        let began = Instant::now();
        let pausable_deadline = PausableDeadline::until(began + Duration::from_secs(10));
        let (first, second) = (pausable_deadline.pause(), pausable_deadline.pause());
        let holding = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            drop(first);
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert!(!pausable_deadline.is_over());
            drop(second);
        };
        tokio::join!(pausable_deadline.over(), holding);
        assert_eq!(began.elapsed().as_secs(), 130, "virtual time");
        assert!(pausable_deadline.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_has_passed_is_over_at_once_and_an_endless_one_never() {
        let now = Instant::now();
        PausableDeadline::until(now).over().await;
        assert_eq!(now.elapsed(), Duration::ZERO);
        let endless = PausableDeadline::endless();
        assert!(tokio::time::timeout(Duration::from_hours(1), endless.over()).await.is_err());
    }
}
