//! The requests that wait for an answer on one connection. An answer finds its request by id, once; what comes for nobody is
//! not kept. Bounded, and locked only for a lookup.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::PerformFailure;

/// What a waiting request is told.
pub(crate) type Told = Result<Bytes, PerformFailure>;

/// The waiting requests.
#[derive(Debug)]
pub(crate) struct PendingRequests {
    in_flight_max: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(HashMap<i64, Waiting>),
    /// The connection is gone; why.
    Closed(String),
}

#[derive(Debug)]
struct Waiting {
    tell: oneshot::Sender<Told>,
    kind: Kind,
}

/// Whether a request counts towards the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It does.
    Ordinary,
    /// A subscription does not: there are two at most, and they last as long as the connection.
    Standing,
}

/// Why a request cannot wait here.
#[derive(Debug)]
pub(crate) enum NotAdmitted {
    /// The limit is reached.
    Full,
    /// The connection is gone.
    Closed {
        /// Why.
        why: String,
    },
}

/// A request's place. Dropping it gives the place up: a later answer finds nobody.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    pending: &'a PendingRequests,
    id: i64,
    /// What it is told.
    pub(crate) told: oneshot::Receiver<Told>,
}

impl PendingRequests {
    pub(crate) fn new(in_flight_max: usize) -> Self {
        Self { in_flight_max, state: Mutex::new(State::Open(HashMap::new())) }
    }

    /// Takes a place before the request is sent.
    pub(crate) fn admit(&self, id: i64, kind: Kind) -> Result<Place<'_>, NotAdmitted> {
        let (tell, told) = oneshot::channel();
        match &mut *self.lock() {
            State::Closed(why) => Err(NotAdmitted::Closed { why: why.clone() }),
            State::Open(waiting) if kind == Kind::Ordinary && self.is_full(waiting) => Err(NotAdmitted::Full),
            State::Open(waiting) => {
                waiting.insert(id, Waiting { tell, kind });
                Ok(Place { pending: self, id, told })
            }
        }
    }

    /// Tells the request of that id. False if nobody waits under it.
    pub(crate) fn tell(&self, id: i64, told: Told) -> bool {
        let waiting = match &mut *self.lock() {
            State::Open(waiting) => waiting.remove(&id),
            State::Closed(_) => None,
        };
        waiting.is_some_and(|waiting| waiting.tell.send(told).is_ok())
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
                let _ = waiting.tell.send(Err(PerformFailure::Died { why: why.to_owned() }));
            }
        }
    }

    fn is_full(&self, waiting: &HashMap<i64, Waiting>) -> bool {
        // Counted only where it can matter: the table is hardly ever that full.
        waiting.len() >= self.in_flight_max
            && waiting.values().filter(|waiting| waiting.kind == Kind::Ordinary).count() >= self.in_flight_max
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place<'_> {
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
        let pending = PendingRequests::new(8);
        let mut place = pending.admit(1, Kind::Ordinary).unwrap();
        assert!(!pending.tell(2, Ok(Bytes::new())), "another id");
        assert!(pending.tell(1, Ok(Bytes::from_static(b"{}"))));
        assert!(!pending.tell(1, Ok(Bytes::new())), "a second answer");
        assert_eq!(place.told.try_recv().unwrap().unwrap(), "{}");
    }

    #[test]
    fn places_are_bounded_and_given_back() {
        let pending = PendingRequests::new(1);
        let place = pending.admit(1, Kind::Ordinary).unwrap();
        assert!(matches!(pending.admit(2, Kind::Ordinary), Err(NotAdmitted::Full)));
        assert!(pending.admit(3, Kind::Standing).is_ok(), "a subscription takes nobody's place");
        drop(place);
        assert!(pending.admit(2, Kind::Ordinary).is_ok());
        assert!(!pending.tell(1, Ok(Bytes::new())), "a late answer finds nobody");
    }

    #[test]
    fn everybody_learns_that_the_connection_is_gone() {
        let pending = PendingRequests::new(8);
        let mut place = pending.admit(1, Kind::Ordinary).unwrap();
        pending.close("exit status: 1");
        pending.close("another reason");
        assert!(matches!(place.told.try_recv().unwrap(), Err(PerformFailure::Died { why }) if why == "exit status: 1"));
        assert!(
            matches!(pending.admit(2, Kind::Ordinary), Err(NotAdmitted::Closed { why }) if why == "exit status: 1")
        );
    }
}
