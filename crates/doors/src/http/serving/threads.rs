//! Threads that serve connections. Each has a runtime of its own, so that a connection, its requests and what they
//! spawn stay on one thread, and a request wakes no other.
//!
//! Deliberately not here: accepting and limiting connections. One door accepts them all and hands each to the thread
//! that has the fewest. Work that keeps a thread busy for long must run elsewhere, because the thread's other
//! connections wait meanwhile.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Threads that serve connections, or none: then the runtime that accepts connections serves them. The threads end when
/// the last clone is dropped, and so does what runs on them.
#[derive(Debug, Clone, Default)]
pub struct DoorThreads(Option<Arc<StartedThreads>>);

#[derive(Debug)]
struct StartedThreads {
    threads: Vec<DoorThread>,
    end: CancellationToken,
}

#[derive(Debug)]
struct DoorThread {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
}

/// A connection's place on a thread, held while it is served there.
#[derive(Debug)]
pub(super) struct ThreadSlot {
    /// The thread's number, from zero.
    pub(super) number: usize,
    pub(super) runtime: Handle,
    connections: Arc<AtomicUsize>,
}

impl DoorThreads {
    /// No threads: the accepting runtime serves connections.
    pub const fn none() -> Self {
        Self(None)
    }

    /// Starts `count` threads.
    pub fn start(count: usize) -> io::Result<Self> {
        let mut started = StartedThreads { threads: Vec::with_capacity(count), end: CancellationToken::new() };
        for number in 0..count {
            let runtime = Builder::new_current_thread().enable_all().build()?;
            let thread = DoorThread { runtime: runtime.handle().clone(), connections: Arc::default() };
            let end = started.end.clone();
            std::thread::Builder::new().name(format!("door-{number}")).spawn(move || {
                runtime.block_on(end.cancelled());
                // A task that cannot be interrupted may still run; everything that had to end has ended.
                runtime.shutdown_background();
            })?;
            started.threads.push(thread);
        }
        Ok(Self((count > 0).then(|| Arc::new(started))))
    }

    /// The number of threads.
    pub fn count(&self) -> usize {
        self.0.as_ref().map_or(0, |started| started.threads.len())
    }

    /// A place on the thread that serves the fewest connections; `None` if there are no threads.
    pub(super) fn take_slot(&self) -> Option<ThreadSlot> {
        let threads = self.0.as_ref()?.threads.iter().enumerate();
        let (number, thread) = threads.min_by_key(|(_, thread)| thread.connections.load(Ordering::Relaxed))?;
        thread.connections.fetch_add(1, Ordering::Relaxed);
        Some(ThreadSlot { number, runtime: thread.runtime.clone(), connections: Arc::clone(&thread.connections) })
    }
}

impl PartialEq for DoorThreads {
    /// Whether both are the same threads.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        }
    }
}

impl Eq for DoorThreads {}

impl Drop for StartedThreads {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

impl Drop for ThreadSlot {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn connections_are_spread_and_their_places_given_back() {
        let threads = DoorThreads::start(2).unwrap();
        let mut places: Vec<ThreadSlot> = (0..4).map(|_| threads.take_slot().unwrap()).collect();
        assert_eq!(places.iter().map(|place| place.number).collect::<Vec<_>>(), [0, 1, 0, 1]);
        places.retain(|place| place.number == 0);
        assert_eq!(threads.take_slot().unwrap().number, 1, "the one that has fewer");
        assert!(DoorThreads::none().take_slot().is_none());
    }

    #[tokio::test]
    async fn what_is_spawned_on_a_thread_stays_there_and_ends_with_the_last_clone() {
        let threads = DoorThreads::start(2).unwrap();
        let places = [threads.take_slot().unwrap(), threads.take_slot().unwrap()];
        let (ended, ends): (Vec<_>, Vec<_>) = places.iter().map(|_| oneshot::channel::<()>()).unzip();
        for (place, ended) in places.iter().zip(ended) {
            let name = place
                .runtime
                .spawn(async { tokio::spawn(async { thread::current().name().map(str::to_owned) }).await });
            assert_eq!(name.await.unwrap().unwrap(), Some(format!("door-{}", place.number)));
            place.runtime.spawn(async move {
                std::future::pending::<()>().await;
                drop(ended);
            });
        }
        drop(threads.clone());
        let alive = places[0].runtime.spawn(async { true });
        assert!(alive.await.unwrap(), "a clone is left");
        drop(threads);
        for end in ends {
            assert!(end.await.is_err(), "the runtime has ended, and what it ran was dropped");
        }
    }
}
