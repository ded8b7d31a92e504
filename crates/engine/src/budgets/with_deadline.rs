//! The budget store with a deadline: an entry that is not answered by then is in doubt.

use servanda_effects::{
    JournalError, PortFuture,
    budget::{Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetStore, EntryReply, SweepReport},
};
use tokio::time::Instant;

/// The budget store, until a deadline.
#[derive(Debug)]
pub(crate) struct WithDeadline<'a> {
    pub(super) store: &'a dyn BudgetStore,
    pub(super) deadline: Instant,
}

/// The store did not answer in time, but may have made the entry all the same.
pub(super) fn too_slow() -> JournalError {
    JournalError::in_doubt("the store did not answer in time")
}

impl WithDeadline<'_> {
    async fn within<T>(&self, asked: PortFuture<'_, Result<T, JournalError>>) -> Result<T, JournalError> {
        tokio::time::timeout_at(self.deadline, asked).await.unwrap_or_else(|_| Err(too_slow()))
    }
}

impl BudgetStore for WithDeadline<'_> {
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>> {
        Box::pin(self.within(self.store.apply_entry(entry)))
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>> {
        Box::pin(self.within(self.store.sweep(limit)))
    }

    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>> {
        Box::pin(self.within(self.store.open_reservations(older_than_ms, limit)))
    }

    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        Box::pin(self.within(self.store.balances(query)))
    }

    fn find_balances(&self, accounts: Vec<Account>) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        Box::pin(self.within(self.store.find_balances(accounts)))
    }
}
