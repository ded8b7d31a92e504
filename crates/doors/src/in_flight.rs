//! The unanswered requests of one session or one connection, so that they can be cancelled by id.
//!
//! Ids mean something only within their session: two clients may use the same. The number of entries is bounded by the
//! limits on requests and subscriptions, which hold them.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use servanda_mcp::Id;
use tokio_util::sync::CancellationToken;

/// The unanswered requests.
#[derive(Debug, Default)]
pub(crate) struct ClientRequestsInFlight {
    table: Mutex<ClientRequestTable>,
}

#[derive(Debug, Default)]
struct ClientRequestTable {
    entered: u64,
    tokens: HashMap<Id, (u64, CancellationToken)>,
}

/// One unanswered request; answered when this is dropped.
#[derive(Debug)]
pub(crate) struct ClientRequestEntry {
    in_flight: Arc<ClientRequestsInFlight>,
    id: Id,
    /// Tells two requests with the same id apart: the id of a cancelled request may be used again before its entry is
    /// dropped.
    serial: u64,
}

impl ClientRequestsInFlight {
    /// Whether a request of that id is still unanswered.
    pub(crate) fn contains(&self, id: &Id) -> bool {
        self.table().tokens.contains_key(id)
    }

    /// Whether nothing is unanswered.
    pub(crate) fn is_empty(&self) -> bool {
        self.table().tokens.is_empty()
    }

    /// Enters a request, unless its id is taken.
    pub(crate) fn enter(self: &Arc<Self>, id: &Id, cancel: &CancellationToken) -> Option<ClientRequestEntry> {
        let mut table = self.table();
        if table.tokens.contains_key(id) {
            return None;
        }
        table.entered += 1;
        let serial = table.entered;
        table.tokens.insert(id.clone(), (serial, cancel.clone()));
        Some(ClientRequestEntry { in_flight: Arc::clone(self), id: id.clone(), serial })
    }

    /// Cancels one request and frees its id. An unknown id is ignored, because the answer may be on its way.
    pub(crate) fn cancel(&self, id: &Id) {
        let cancelled = self.table().tokens.remove(id);
        if let Some((_, token)) = cancelled {
            token.cancel();
        }
    }

    /// Cancels all of them.
    pub(crate) fn cancel_all(&self) {
        let cancelled = std::mem::take(&mut self.table().tokens);
        for (_, token) in cancelled.into_values() {
            token.cancel();
        }
    }

    fn table(&self) -> MutexGuard<'_, ClientRequestTable> {
        // Every critical section leaves a whole table: no panic leaves it half-changed.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClientRequestEntry {
    fn drop(&mut self) {
        let mut table = self.in_flight.table();
        if table.tokens.get(&self.id).is_some_and(|(serial, _)| *serial == self.serial) {
            table.tokens.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_id_can_be_taken_again_before_the_request_ends() {
        let in_flight = Arc::new(ClientRequestsInFlight::default());
        let (id, first, second) = (Id::Number(1), CancellationToken::new(), CancellationToken::new());
        let entry = in_flight.enter(&id, &first).unwrap();
        assert!(in_flight.enter(&id, &second).is_none());
        in_flight.cancel(&id);
        assert!(first.is_cancelled());
        let again = in_flight.enter(&id, &second).unwrap();
        drop(entry);
        assert!(in_flight.contains(&id), "the first one's end does not end the second");
        drop(again);
        assert!(in_flight.is_empty() && !second.is_cancelled());
    }
}
