//! How long a request is waited for. The time stands still while the client is being asked something: how long a person
//! thinks is not the server's delay.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

/// A deadline that can stand still. Clones are the same one.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    /// None for a subscription, which is waited for without end.
    deadline: Option<Instant>,
    clock: Arc<watch::Sender<Standing>>,
}

/// While one of these is held, the time stands still.
#[derive(Debug)]
pub(crate) struct Standstill(Arc<watch::Sender<Standing>>);

/// How often the clock is being held, since when, and for how long it stood before.
#[derive(Debug, Clone, Copy)]
struct Standing {
    holders: usize,
    since: Instant,
    stood: Duration,
}

impl Patience {
    pub(crate) fn until(deadline: Instant) -> Self {
        Self::new(Some(deadline))
    }

    pub(crate) fn endless() -> Self {
        Self::new(None)
    }

    /// Holds the clock.
    pub(crate) fn stand_still(&self) -> Standstill {
        self.clock.send_modify(|standing| {
            if standing.holders == 0 {
                standing.since = Instant::now();
            }
            standing.holders += 1;
        });
        Standstill(Arc::clone(&self.clock))
    }

    /// Whether it is over now.
    pub(crate) fn is_over(&self) -> bool {
        self.due().is_some_and(|due| due <= Instant::now())
    }

    /// Waits until it is over. Cancel safe.
    pub(crate) async fn over(&self) {
        let mut changes = self.clock.subscribe();
        loop {
            changes.mark_unchanged();
            // A timer sleeps for its granularity at least, and in that time a request would leave.
            if self.is_over() {
                return;
            }
            let due = self.due();
            tokio::select! {
                () = sleep_until(due) => {}
                // The sender is ours, so it is there.
                _ = changes.changed() => {}
            }
        }
    }

    /// When it is over as things are; none while the clock stands still.
    fn due(&self) -> Option<Instant> {
        let standing = *self.clock.borrow();
        self.deadline.filter(|_| standing.holders == 0).map(|deadline| deadline + standing.stood)
    }

    fn new(deadline: Option<Instant>) -> Self {
        let standing = Standing { holders: 0, since: Instant::now(), stood: Duration::ZERO };
        Self { deadline, clock: Arc::new(watch::Sender::new(standing)) }
    }
}

impl Drop for Standstill {
    fn drop(&mut self) {
        self.0.send_modify(|standing| {
            standing.holders = standing.holders.saturating_sub(1);
            if standing.holders == 0 {
                standing.stood += standing.since.elapsed();
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
        let patience = Patience::until(began + Duration::from_secs(10));
        let (first, second) = (patience.stand_still(), patience.stand_still());
        let holding = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            drop(first);
            tokio::time::sleep(Duration::from_mins(1)).await;
            assert!(!patience.is_over());
            drop(second);
        };
        tokio::join!(patience.over(), holding);
        assert_eq!(began.elapsed().as_secs(), 130, "virtual time");
        assert!(patience.is_over());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deadline_that_has_passed_is_over_at_once_and_an_endless_one_never() {
        let now = Instant::now();
        Patience::until(now).over().await;
        assert_eq!(now.elapsed(), Duration::ZERO);
        let endless = Patience::endless();
        assert!(tokio::time::timeout(Duration::from_hours(1), endless.over()).await.is_err());
    }
}
