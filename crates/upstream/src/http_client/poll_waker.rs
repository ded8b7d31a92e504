//! Wakes the task that waits for a connection when something happens on the connection, but not while that task is polling it.
//!
//! The parts of a connection wake each other as if each had a task of its own. Here one task drives them all, and every such wake would
//! make it run once more for nothing, mostly on another thread.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll, Wake},
};

use futures_util::task::AtomicWaker;

/// The connection is not being polled: a wake wakes the waiting task.
const WAITING: u8 = 0;
/// The connection is being polled, and nothing has happened since.
const POLLING: u8 = 1;
/// The connection is being polled, and has to be polled again.
const POLL_AGAIN: u8 = 2;

/// How often the connection is polled in a row before other tasks get their turn.
const POLLS_MAX: usize = 4;

/// Connects the wakes of one connection to the task that waits for it.
#[derive(Debug, Default)]
pub(super) struct PollWaker {
    state: AtomicU8,
    task: AtomicWaker,
}

impl PollWaker {
    /// Polls until there is a result or nothing happened during a poll. After that, the next event wakes the task.
    pub(super) fn poll_until_quiet<T>(&self, context: &mut Context<'_>, mut look: impl FnMut() -> Poll<T>) -> Poll<T> {
        self.task.register(context.waker());
        for _ in 0..POLLS_MAX {
            self.state.store(POLLING, Ordering::SeqCst);
            let found = look();
            if found.is_ready() {
                self.state.store(WAITING, Ordering::SeqCst);
                return found;
            }
            if self.state.compare_exchange(POLLING, WAITING, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                return Poll::Pending;
            }
        }
        self.state.store(WAITING, Ordering::SeqCst);
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Polls once, without waiting for anything.
    pub(super) fn poll_once(&self, look: impl FnOnce()) {
        self.state.store(POLLING, Ordering::SeqCst);
        look();
        self.state.store(WAITING, Ordering::SeqCst);
    }

    /// Forgets the waiting task.
    pub(super) fn clear_task(&self) {
        drop(self.task.take());
    }
}

impl Wake for PollWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let seen = self.state.compare_exchange(POLLING, POLL_AGAIN, Ordering::SeqCst, Ordering::SeqCst);
        // The poll may have ended between the failed exchange and this line. If so, it ended after this wake and has seen its cause.
        if seen == Err(WAITING) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, task::Waker};

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    impl Wake for Counted {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Polls until quiet; `happens` says in which polls something happens. Returns how many polls it took, and how often the task was woken
    /// meanwhile.
    fn pay(poll_waker: &Arc<PollWaker>, happens: &[bool]) -> (usize, usize) {
        let task = Arc::<Counted>::default();
        let (own, waker) = (Waker::from(Arc::clone(poll_waker)), Waker::from(Arc::clone(&task)));
        let mut looks = 0;
        let polled = poll_waker.poll_until_quiet(&mut Context::from_waker(&waker), || {
            if happens.get(looks).copied().unwrap_or_default() {
                own.wake_by_ref();
            }
            looks += 1;
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        (looks, task.0.load(Ordering::SeqCst))
    }

    #[test]
    fn an_event_during_a_poll_is_polled_again_and_wakes_no_task() {
        let poll_waker = Arc::<PollWaker>::default();
        assert_eq!(pay(&poll_waker, &[]), (1, 0));
        assert_eq!(pay(&poll_waker, &[true]), (2, 0));
        assert_eq!(pay(&poll_waker, &[true, true, false]), (3, 0));
        assert_eq!(pay(&poll_waker, &[true; 100]), (POLLS_MAX, 1), "other tasks get their turn");
    }

    #[test]
    fn a_later_event_wakes_the_waiting_task_and_no_other() {
        let poll_waker = Arc::<PollWaker>::default();
        let task = Arc::<Counted>::default();
        let (own, waker) = (Waker::from(Arc::clone(&poll_waker)), Waker::from(Arc::clone(&task)));
        assert!(poll_waker.poll_until_quiet(&mut Context::from_waker(&waker), || Poll::<()>::Pending).is_pending());
        own.wake_by_ref();
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
        assert!(poll_waker.poll_until_quiet(&mut Context::from_waker(&waker), || Poll::<()>::Pending).is_pending());
        poll_waker.clear_task();
        own.wake_by_ref();
        poll_waker.poll_once(|| own.wake_by_ref());
        assert_eq!(task.0.load(Ordering::SeqCst), 1);
    }
}
