//! The books for somebody who does not wait for ever: what is not answered by then is in doubt.

use servanda_effects::{
    JournalError, PortFuture,
    budget::{Booked, Budgets, Entry, Hold, Standing, StandingQuery, Swept},
};
use tokio::time::Instant;

/// The books, until a deadline.
#[derive(Debug)]
pub(crate) struct Patient<'a> {
    pub(super) books: &'a dyn Budgets,
    pub(super) deadline: Instant,
}

/// The store may have done it all the same.
pub(super) fn too_slow() -> JournalError {
    JournalError::in_doubt("the store did not answer in time")
}

impl Patient<'_> {
    async fn within<T>(&self, asked: PortFuture<'_, Result<T, JournalError>>) -> Result<T, JournalError> {
        tokio::time::timeout_at(self.deadline, asked).await.unwrap_or_else(|_| Err(too_slow()))
    }
}

impl Budgets for Patient<'_> {
    fn book(&self, entry: Entry) -> PortFuture<'_, Result<Booked, JournalError>> {
        Box::pin(self.within(self.books.book(entry)))
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<Swept, JournalError>> {
        Box::pin(self.within(self.books.sweep(limit)))
    }

    fn open_reservations(&self, older_than_ms: u64, limit: u32) -> PortFuture<'_, Result<Vec<Hold>, JournalError>> {
        Box::pin(self.within(self.books.open_reservations(older_than_ms, limit)))
    }

    fn standings(&self, query: StandingQuery) -> PortFuture<'_, Result<Vec<Standing>, JournalError>> {
        Box::pin(self.within(self.books.standings(query)))
    }
}
