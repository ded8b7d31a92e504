//! A store under test, whichever it is: what the suite needs from it besides its ports.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use servanda_contract::{CallRecord, Timestamp, time::Clock};
use servanda_effects::{
    InMemoryNotebook, JournalError, Notebook, TicketStore,
    budget::{
        Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetStore, EntryReply, InMemoryBudgets,
        SweepReport,
    },
    effect::{AppliedChange, Effect, EffectChange, EffectStore, EffectTarget, InMemoryEffects, OrphanQuery, OwnerId},
    ticket_store::InMemoryTickets,
};

use crate::{Ledger, LedgerReader};

/// A store under test.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    pub(super) effects: Arc<dyn EffectStore>,
    pub(super) budgets: Arc<dyn BudgetStore>,
    pub(super) tickets: Arc<dyn TicketStore>,
    pub(super) place: Place,
}

/// The effects and budgets of a store under test.
#[derive(Debug)]
pub(super) struct Both {
    effects: Arc<dyn EffectStore>,
    budgets: Arc<dyn BudgetStore>,
}

/// Where the store is.
#[derive(Debug, Clone)]
pub(super) enum Place {
    Memory(Arc<InMemoryEffects>, Arc<HandClock>, Arc<InMemoryNotebook>),
    File(Arc<Ledger>, PathBuf, Arc<tempfile::TempDir>),
    Server(Arc<Ledger>, String),
}

/// A clock that is moved by hand.
#[derive(Debug)]
pub(super) struct HandClock(AtomicU64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_unix_ms(self.0.load(Ordering::SeqCst))
    }
}

impl Kept {
    pub(super) fn in_memory() -> Self {
        let clock = Arc::new(HandClock(AtomicU64::new(1_800_000_000_000)));
        let notebook: Arc<InMemoryNotebook> = Arc::default();
        let tickets = Arc::new(InMemoryTickets::new(clock.clone()));
        let effects = InMemoryEffects::new(clock.clone()).with_notebook(notebook.clone()).with_tickets(tickets.clone());
        let effects = Arc::new(effects);
        let budgets = Arc::new(InMemoryBudgets::new(clock.clone(), effects.clone()));
        Self { effects: effects.clone(), budgets, tickets, place: Place::Memory(effects, clock, notebook) }
    }

    pub(super) fn in_file() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/ledger.db");
        Self::of_file(path, Arc::new(folder))
    }

    pub(super) async fn in_server(url: String) -> Self {
        let ledger = Arc::new(Ledger::connect(&url).await.unwrap());
        Self::of_ledger(&ledger, Place::Server(ledger.clone(), url))
    }

    pub(super) fn of_file(path: PathBuf, folder: Arc<tempfile::TempDir>) -> Self {
        let ledger = Arc::new(Ledger::open(&path).unwrap());
        Self::of_ledger(&ledger, Place::File(ledger.clone(), path, folder))
    }

    fn of_ledger(ledger: &Arc<Ledger>, place: Place) -> Self {
        ledger.switch_log(true);
        Self { effects: ledger.clone(), budgets: ledger.clone(), tickets: ledger.clone(), place }
    }

    /// How many rows calls are found by.
    pub(super) async fn term_spans(&self) -> i64 {
        match &self.place {
            Place::Memory(..) => panic!("there is no ledger in memory"),
            Place::File(_, path, _) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.query_row("select count(*) from call_terms", [], |row| row.get(0)).unwrap()
            }
            Place::Server(_, url) => {
                let client = crate::postgres::client(url).await.unwrap();
                let counted = "select count(*) from (select distinct term, span from call_terms) as listed";
                client.query_one(counted, &[]).await.unwrap().get(0)
            }
        }
    }

    /// Takes from the index what an earlier version did not write: terms of spans before this one.
    pub(super) async fn forget_terms_before(&self, span: i64) {
        match &self.place {
            Place::Memory(..) => panic!("there is no ledger in memory"),
            Place::File(_, path, _) => {
                let connection = rusqlite::Connection::open(path).unwrap();
                connection.execute("delete from call_terms where span < ?1", [span]).unwrap();
            }
            Place::Server(_, url) => {
                let client = crate::postgres::client(url).await.unwrap();
                client.execute("delete from call_terms where span < $1", &[&span]).await.unwrap();
            }
        }
    }

    /// Another gateway on the same store. In memory there is no other.
    pub(super) async fn replica(&self) -> Self {
        match &self.place {
            Place::Memory(..) => self.clone(),
            Place::File(_, path, folder) => Self::of_file(path.clone(), folder.clone()),
            Place::Server(_, url) => Self::in_server(url.clone()).await,
        }
    }

    /// The ledger, if the store is one.
    pub(super) fn ledger(&self) -> &Ledger {
        match &self.place {
            Place::Memory(..) => panic!("there is no ledger in memory"),
            Place::File(ledger, ..) | Place::Server(ledger, _) => ledger,
        }
    }

    /// Its effects and budgets, to be shared between tasks.
    pub(super) fn both(&self) -> Arc<Both> {
        Arc::new(Both { effects: self.effects.clone(), budgets: self.budgets.clone() })
    }

    /// Its notes.
    pub(super) fn notebook(&self) -> &dyn Notebook {
        match &self.place {
            Place::Memory(_, _, notebook) => notebook.as_ref(),
            Place::File(ledger, ..) | Place::Server(ledger, _) => ledger.as_ref(),
        }
    }

    pub(super) async fn reader(&self) -> LedgerReader {
        self.ledger().reader().await.unwrap()
    }

    /// Lets this much time pass for the store.
    pub(super) fn advance(&self, by_ms: u64) {
        match &self.place {
            Place::Memory(_, clock, _) => drop(clock.0.fetch_add(by_ms, Ordering::SeqCst)),
            Place::File(ledger, ..) | Place::Server(ledger, _) => ledger.store.time().advance(by_ms),
        }
    }

    /// Lets the store's clock jump, without time passing.
    pub(super) fn jump(&self, by_ms: i64) {
        self.ledger().store.time().jump(by_ms);
    }

    /// The ids of the recorded calls, sorted.
    pub(super) async fn recorded(&self) -> Vec<String> {
        let calls: Vec<CallRecord> = match &self.place {
            Place::Memory(effects, ..) => effects.records(),
            _ => self.reader().await.find(&crate::CallQuery::Latest, 10_000).await.unwrap(),
        };
        let mut ids: Vec<String> = calls.iter().map(|record| record.call_id.to_string()).collect();
        ids.sort();
        ids.dedup();
        ids
    }
}

/// What the suite of budgets needs from it.
impl Both {
    pub(super) async fn book(&self, entry: AccountEntry) -> Result<EntryReply, JournalError> {
        self.budgets.apply_entry(entry).await
    }

    pub(super) async fn sweep(&self, limit: u32) -> Result<SweepReport, JournalError> {
        self.budgets.sweep(limit).await
    }

    pub(super) async fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> Result<Vec<BudgetHold>, JournalError> {
        self.budgets.open_reservations(older_than_ms, limit).await
    }

    pub(super) async fn standings(&self, query: BalanceQuery) -> Result<Vec<AccountBalance>, JournalError> {
        self.budgets.balances(query).await
    }

    pub(super) async fn standings_of(&self, accounts: Vec<Account>) -> Result<Vec<AccountBalance>, JournalError> {
        self.budgets.find_balances(accounts).await
    }

    pub(super) async fn apply(&self, change: EffectChange) -> Result<AppliedChange, JournalError> {
        self.effects.apply(change).await
    }

    pub(super) async fn find(&self, target: EffectTarget) -> Result<Option<Effect>, JournalError> {
        self.effects.find(target).await
    }

    pub(super) async fn orphans(&self, limit: u32) -> Result<Vec<Effect>, JournalError> {
        self.effects.orphans(OrphanQuery::oldest(OwnerId::from("own_asks".to_owned()), limit)).await
    }

    pub(super) async fn expire(&self, limit: u32) -> Result<u64, JournalError> {
        self.effects.expire(limit).await
    }
}
