//! A budget store in memory that counts its entries, and that can be unavailable.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use servanda_effects::{
    JournalError, PortFuture,
    budget::{
        Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetStore, EntryReply, InMemoryBudgets,
        SweepReport,
    },
};

use super::RecordingEffects;

/// A budget store in memory.
#[derive(Debug)]
pub(crate) struct CountedBudgets {
    books: InMemoryBudgets,
    /// How many entries were asked for.
    entries: AtomicUsize,
    /// Whether no entry can be made at the moment.
    pub(crate) down: AtomicBool,
    /// Whether entries are made but not acknowledged.
    pub(crate) deaf: AtomicBool,
    /// Whether a call hangs after it reserved something, like a process that dies.
    pub(crate) hang_after_reserve: AtomicBool,
    /// Effects that become late when something is reserved.
    pub(crate) makes_late: Mutex<Option<Arc<RecordingEffects>>>,
}

impl CountedBudgets {
    pub(crate) fn new(books: InMemoryBudgets) -> Self {
        let [down, deaf, hang_after_reserve] = [false; 3].map(AtomicBool::new);
        let makes_late = Mutex::default();
        Self { books, entries: AtomicUsize::new(0), down, deaf, hang_after_reserve, makes_late }
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries.load(Ordering::Relaxed)
    }
}

impl BudgetStore for CountedBudgets {
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>> {
        self.entries.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            if self.down.load(Ordering::Relaxed) {
                return Err(JournalError::new("the books are away"));
            }
            let reserves = matches!(entry, AccountEntry::Reserve(_));
            let booked = self.books.apply_entry(entry).await;
            if let Some(effects) = self.makes_late.lock().unwrap().take_if(|_| reserves) {
                effects.late.store(true, Ordering::Relaxed);
            }
            if reserves && self.hang_after_reserve.load(Ordering::Relaxed) {
                return std::future::pending().await;
            }
            if self.deaf.load(Ordering::Relaxed) {
                return Err(JournalError::in_doubt("the acknowledgement was lost"));
            }
            booked
        })
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>> {
        self.books.sweep(limit)
    }

    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>> {
        self.books.open_reservations(older_than_ms, limit)
    }

    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        self.books.balances(query)
    }

    fn find_balances(&self, accounts: Vec<Account>) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        self.books.find_balances(accounts)
    }
}
