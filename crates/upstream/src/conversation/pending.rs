//! The requests that wait for an answer on one connection. An answer finds its request by id, once; an answer without a request is dropped.
//! Locked only for a lookup. [`super::in_flight`] limits their number, and there are two subscriptions at most.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::PerformFailure;

/// The outcome of a waiting request.
pub(crate) type PendingOutcome = Result<Bytes, PerformFailure>;

/// The waiting requests.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(HashMap<i64, oneshot::Sender<PendingOutcome>>),
    /// The connection is gone, with the reason.
    Closed(String),
}

/// A request cannot wait because the connection is gone.
#[derive(Debug)]
pub(crate) struct ConnectionClosed {
    /// Why it is gone.
    pub(crate) why: String,
}

/// A waiting request. Dropping it removes the request, so that a later answer is dropped.
#[derive(Debug)]
pub(crate) struct PendingResponse<'a> {
    pending: &'a PendingRequests,
    id: i64,
    /// Receives the outcome.
    pub(crate) outcome: oneshot::Receiver<PendingOutcome>,
}

impl PendingRequests {
    /// Registers a request before it is sent.
    pub(crate) fn register(&self, id: i64) -> Result<PendingResponse<'_>, ConnectionClosed> {
        let (tell, told) = oneshot::channel();
        match &mut *self.lock() {
            State::Closed(why) => Err(ConnectionClosed { why: why.clone() }),
            State::Open(waiting) => {
                waiting.insert(id, tell);
                Ok(PendingResponse { pending: self, id, outcome: told })
            }
        }
    }

    /// Completes the request with this id. Returns false if no request waits under it.
    pub(crate) fn resolve(&self, id: i64, told: PendingOutcome) -> bool {
        let waiting = match &mut *self.lock() {
            State::Open(waiting) => waiting.remove(&id),
            State::Closed(_) => None,
        };
        waiting.is_some_and(|waiting| waiting.send(told).is_ok())
    }

    /// Fails all waiting requests, and all later ones, because the connection is gone. The first reason stays.
    pub(crate) fn close(&self, why: &str) {
        let state = {
            let mut state = self.lock();
            if matches!(*state, State::Closed(_)) {
                return;
            }
            std::mem::replace(&mut *state, State::Closed(why.to_owned()))
        };
        if let State::Open(waiting) = state {
            for waiting in waiting.into_values() {
                let _ = waiting.send(Err(PerformFailure::Died { why: why.to_owned() }));
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Open(HashMap::new())
    }
}

impl Drop for PendingResponse<'_> {
    fn drop(&mut self) {
        if let State::Open(waiting) = &mut *self.pending.lock() {
            waiting.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_finds_its_request_once() {
        let pending = PendingRequests::default();
        let mut place = pending.register(1).unwrap();
        assert!(!pending.resolve(2, Ok(Bytes::new())), "another id");
        assert!(pending.resolve(1, Ok(Bytes::from_static(b"{}"))));
        assert!(!pending.resolve(1, Ok(Bytes::new())), "a second answer");
        assert_eq!(place.outcome.try_recv().unwrap().unwrap(), "{}");
    }

    #[test]
    fn a_late_answer_is_not_delivered() {
        let pending = PendingRequests::default();
        drop(pending.register(1).unwrap());
        assert!(!pending.resolve(1, Ok(Bytes::new())));
    }

    #[test]
    fn all_requests_learn_that_the_connection_is_gone() {
        let pending = PendingRequests::default();
        let mut place = pending.register(1).unwrap();
        pending.close("exit status: 1");
        pending.close("another reason");
        assert!(
            matches!(place.outcome.try_recv().unwrap(), Err(PerformFailure::Died { why }) if why == "exit status: 1")
        );
        assert!(matches!(pending.register(2), Err(ConnectionClosed { why }) if why == "exit status: 1"));
    }
}
