//! The requests of one session or one connection that are not answered yet, so that they can be cancelled by id.
//!
//! Ids mean something only within their session: two clients may use the same. Bounded by the calls and subscriptions
//! whose entries are held, which have limits of their own.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_mcp::Id;
use tokio_util::sync::CancellationToken;

/// The unanswered requests.
#[derive(Debug, Default)]
pub(crate) struct InFlight {
    tokens: Mutex<HashMap<Id, CancellationToken>>,
}

/// One unanswered request; answered when this is dropped.
#[derive(Debug)]
pub(crate) struct Entry {
    in_flight: Arc<InFlight>,
    id: Id,
}

impl InFlight {
    /// Whether a request of that id is still unanswered.
    pub(crate) fn contains(&self, id: &Id) -> bool {
        self.tokens().contains_key(id)
    }

    /// Enters a request, unless its id is taken.
    pub(crate) fn enter(self: &Arc<Self>, id: &Id, cancel: &CancellationToken) -> Option<Entry> {
        let mut tokens = self.tokens();
        if tokens.contains_key(id) {
            return None;
        }
        tokens.insert(id.clone(), cancel.clone());
        Some(Entry { in_flight: Arc::clone(self), id: id.clone() })
    }

    /// Cancels one request; an unknown id is ignored, since the answer may be on its way.
    pub(crate) fn cancel(&self, id: &Id) {
        if let Some(token) = self.tokens().get(id) {
            token.cancel();
        }
    }

    /// Cancels all of them.
    pub(crate) fn cancel_all(&self) {
        for token in self.tokens().values() {
            token.cancel();
        }
    }

    fn tokens(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        // Every critical section is one operation on the map: no panic leaves it half-changed.
        self.tokens.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.in_flight.tokens().remove(&self.id);
    }
}
