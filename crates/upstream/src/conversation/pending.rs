//! The requests that wait for an answer on one connection. An answer finds its request by id, once; what comes for nobody is
//! not kept. Locked only for a lookup; how many there may be is limited by [`super::in_flight`], and there are two subscriptions at most.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::PerformFailure;

/// What a waiting request is told.
pub(crate) type PendingOutcome = Result<Bytes, PerformFailure>;

/// The waiting requests.
#[derive(Debug, Default)]
pub(crate) struct PendingRequests {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(HashMap<i64, oneshot::Sender<PendingOutcome>>),
    /// The connection is gone; why.
    Closed(String),
}

/// A request cannot wait here: the connection is gone.
#[derive(Debug)]
pub(crate) struct ConnectionClosed {
    /// Why it is gone.
    pub(crate) why: String,
}

/// A request's place. Dropping it gives the place up: a later answer finds nobody.
#[derive(Debug)]
pub(crate) struct PendingResponse<'a> {
    pending: &'a PendingRequests,
    id: i64,
    /// What it is told.
    pub(crate) outcome: oneshot::Receiver<PendingOutcome>,
}

impl PendingRequests {
    /// Takes a place before the request is sent.
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

    /// Tells the request of that id. False if nobody waits under it.
    pub(crate) fn resolve(&self, id: i64, told: PendingOutcome) -> bool {
        let waiting = match &mut *self.lock() {
            State::Open(waiting) => waiting.remove(&id),
            State::Closed(_) => None,
        };
        waiting.is_some_and(|waiting| waiting.send(told).is_ok())
    }

    /// Tells everybody that the connection is gone, and everybody who comes later. The first reason stays.
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
    fn a_late_answer_finds_nobody() {
        let pending = PendingRequests::default();
        drop(pending.register(1).unwrap());
        assert!(!pending.resolve(1, Ok(Bytes::new())));
    }

    #[test]
    fn everybody_learns_that_the_connection_is_gone() {
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
