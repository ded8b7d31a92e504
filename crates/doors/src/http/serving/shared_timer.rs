//! Lets the requests of one thread sleep without a timer for each. A timer that is due before all others costs a system
//! call, and most requests are answered long before their sleep is over. So one timer ticks for all of them, while
//! there are any.
//!
//! A sleep may take one tick longer than requested.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(200);
/// Shorter sleeps have a timer of their own.
const MOMENT_MIN: Duration = Duration::from_secs(1);

/// The sleeps of one thread's requests.
#[derive(Debug, Default)]
pub(in crate::http) struct SharedTimer {
    waiting: Mutex<TickState>,
    tick: Notify,
}

#[derive(Debug, Default)]
struct TickState {
    count: usize,
    is_ticking: bool,
}

/// One request that sleeps.
struct TimerWaiter<'a>(&'a SharedTimer);

impl SharedTimer {
    /// Sleeps. Cancel safe.
    pub(in crate::http) async fn sleep(self: &Arc<Self>, moment: Duration) {
        if moment < MOMENT_MIN {
            return sleep(moment).await;
        }
        let until = Instant::now() + moment;
        let _waiter = self.enter();
        loop {
            // Created before the clock is read, so that no tick after it is missed.
            let tick = self.tick.notified();
            if Instant::now() >= until {
                return;
            }
            tick.await;
        }
    }

    /// Counts one more sleeping request, and starts the ticking task if none runs.
    fn enter(self: &Arc<Self>) -> TimerWaiter<'_> {
        let mut waiting = self.waiting();
        waiting.count += 1;
        if !std::mem::replace(&mut waiting.is_ticking, true) {
            tokio::spawn(Arc::clone(self).tick());
        }
        drop(waiting);
        TimerWaiter(self)
    }

    /// Ticks until no request sleeps.
    async fn tick(self: Arc<Self>) {
        loop {
            sleep(TICK).await;
            let mut waiting = self.waiting();
            if waiting.count == 0 {
                waiting.is_ticking = false;
                return;
            }
            drop(waiting);
            self.tick.notify_waiters();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, TickState> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TimerWaiter<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting();
        waiting.count = waiting.count.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_moment_is_over_when_it_has_passed_and_not_before() {
        let moments = Arc::<SharedTimer>::default();
        for moment in [Duration::ZERO, MOMENT_MIN] {
            let until = Instant::now() + moment;
            moments.sleep(moment).await;
            assert!(Instant::now() >= until, "{moment:?}");
        }
    }

    #[tokio::test]
    async fn one_timer_ticks_for_all_and_stops_when_no_request_sleeps() {
        let moments = Arc::<SharedTimer>::default();
        let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
        let hour = Duration::from_hours(1);
        let waiting = async { tokio::join!(moments.sleep(hour), moments.sleep(hour)) };
        assert!(tokio::time::timeout(TICK, waiting).await.is_err());
        assert_eq!((moments.waiting().count, alive()), (0, 1), "no answer waits any more, and one task still ticks");
        while moments.waiting().is_ticking {
            sleep(TICK).await;
        }
        tokio::task::yield_now().await;
        assert_eq!(alive(), 0);
    }
}
