//! Durable state. The only crate with SQL; statements live in `sql/`.
//!
//! It keeps the record of every call, notes, the effects of calls, the accounts of budgets, the tickets of approvals, and the leaves of the
//! verifiable log, each written in the transaction of what it is about: in an embedded
//! SQLite database, or in a PostgreSQL that several gateways share. It decides nothing. The engine decides what
//! a record says; `servanda_effects::effect::step`, `servanda_effects::budget::step` and `servanda_approval::step` decide the next state
//! of an effect, account or ticket, and every store runs them inside its own transaction.

mod budget_rows;
mod call_index;
mod call_list;
mod call_query;
mod call_search;
mod capacity;
mod clock_watch;
mod codec;
mod encoding;
mod error;
mod gathered_index;
mod health;
mod identity;
mod inbox;
mod job;
mod kept_records;
mod leaves;
mod listing;
mod log_files;
mod log_switch;
mod log_tree;
mod postgres;
mod queue;
mod reader;
mod record_placement;
mod report;
mod retention;
mod sqlite;
mod store;
mod store_outage;
#[cfg(test)]
mod tests;
mod ticket_page;
mod ticket_rows;
mod time;
mod tls_failure;
mod upkeep;

use std::{ops::Deref, path::Path, sync::Arc};

use bytes::Bytes;
use servanda_approval::{Ticket, TicketEvent};
use servanda_contract::{CallRecord, Timestamp, record::Outcome};
use servanda_effects::{
    AuditLog, CallHistory, FailureStreak, Journal, JournalError, LogHead, LoggedChange, Note, NoteKind, Notebook,
    PortFuture, RecordsRefused, TicketStore,
    budget::{Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetStore, EntryReply, SweepReport},
    call_history::{CallCount, CountsQuery, HistoryPage, HistoryQuery},
    effect::{AppliedChange, Effect, EffectChange, EffectQuery, EffectStore, EffectTarget, OrphanQuery, OwnerId},
    ticket_store::{AppliedTicket, TicketQuery, TicketTarget, check_event},
};

pub use call_list::{CallFilter, CallList, LOOKED_AT_MAX};
pub use call_query::{CallQuery, QuarantinedBody};
pub use capacity::LedgerLimits;
pub use error::LedgerError;
pub use health::WriteHealth;
pub use identity::{
    Adoption, AdoptionRequest, LedgerDamage, LedgerGuard, LedgerPosition, LedgerSchemaPolicy, LossSettlement,
    PositionWitness, RefusedLedger,
};
pub use reader::LedgerReader;
pub use report::{LedgerRestoration, LedgerStatus, LedgerVerification, LogReport, LogStop, MigrationPlan, Soundness};
pub use retention::{PruneReport, Retention};
pub use sqlite::file_permissions::make_private;
pub use store::Migration;
pub use tls_failure::TlsFailure;
pub use upkeep::Upkeep;

use capacity::StorageCapacity;
use health::WriteMonitor;
use postgres::PostgresLedger;
use retention::{PRUNED_MAX, PruneRound};
use sqlite::SqliteLedger;
use store::LedgerStore;

/// The ledger: a file of its own, or a database that several gateways share.
#[derive(Debug)]
pub struct Ledger {
    store: Backend,
    writes: WriteMonitor,
    capacity: Arc<StorageCapacity>,
    /// Measurements of the room that failed.
    unmeasured: FailureStreak,
}

/// Which store a ledger has.
#[derive(Debug)]
enum Backend {
    File(Box<SqliteLedger>),
    Server(Box<PostgresLedger>),
}

impl Deref for Backend {
    type Target = dyn LedgerStore;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::File(file) => file.as_ref(),
            Self::Server(server) => server.as_ref(),
        }
    }
}

impl Ledger {
    /// Opens a file for writing. Makes it or brings it up to date first. Nothing outside the file is compared
    /// with it.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Self::open_guarded(path, &LedgerGuard::default())
    }

    /// Opens a file for writing, if it is the ledger that the guard knows.
    pub fn open_guarded(path: &Path, guard: &LedgerGuard) -> Result<Self, LedgerError> {
        let room = Arc::new(StorageCapacity::default());
        let store = Backend::File(Box::new(SqliteLedger::open(path, guard, room.clone())?));
        Ok(Self { store, writes: WriteMonitor::default(), capacity: room, unmeasured: FailureStreak::default() })
    }

    /// Connects to PostgreSQL for writing. Brings the database up to date first. Nothing outside the database
    /// is compared with it.
    pub fn connect(url: &str) -> PortFuture<'_, Result<Self, LedgerError>> {
        Box::pin(async move { Self::connect_guarded(url, &LedgerGuard::default()).await })
    }

    /// Connects to PostgreSQL for writing, if the database has the ledger that the guard knows.
    pub fn connect_guarded<'a>(url: &'a str, guard: &'a LedgerGuard) -> PortFuture<'a, Result<Self, LedgerError>> {
        Box::pin(async move {
            let room = Arc::new(StorageCapacity::default());
            let store = Backend::Server(Box::new(Box::pin(PostgresLedger::connect(url, guard, room.clone())).await?));
            Ok(Self { store, writes: WriteMonitor::default(), capacity: room, unmeasured: FailureStreak::default() })
        })
    }

    /// The migration that was made when it was opened, if one was.
    pub fn migration(&self) -> Option<&Migration> {
        self.store.migration()
    }

    /// Waits until everything handed in so far is durable, then stops the writer.
    pub async fn close(&self) {
        self.store.close().await;
    }

    /// One small round of pruning: keys beyond their window, tombstones, records, tickets, notes. The report says
    /// whether there is more to do.
    pub fn prune(&self, retention: Retention, now: Timestamp) -> PortFuture<'_, Result<PruneReport, JournalError>> {
        Box::pin(async move {
            let expired = self.store.expire(PRUNED_MAX).await?;
            let pruned = self.store.prune(PruneRound { retention, now }).await?;
            Ok(PruneReport { expired, is_behind: pruned.is_behind || expired >= u64::from(PRUNED_MAX), ..pruned })
        })
    }

    /// Sets the limits that hold from now on, and measures the room that is left.
    pub async fn set_limits(&self, limits: LedgerLimits) -> Result<(), JournalError> {
        self.capacity.limit(limits);
        self.look_at_room().await
    }

    async fn look_at_room(&self) -> Result<(), JournalError> {
        self.capacity.update(self.store.measure(self.capacity.limits()).await?);
        Ok(())
    }

    /// How many writes failed since the start.
    pub fn lost_count(&self) -> u64 {
        self.store.lost_count() + self.capacity.dropped_count()
    }

    /// I9: why an acknowledged commit might be lost, if it might. Checked again with every heartbeat.
    pub fn may_lose_commits(&self) -> Option<String> {
        self.store.may_lose_commits()
    }

    /// Whether the verifiable log is written.
    pub fn writes_log(&self) -> bool {
        self.store.log_switch().writer().is_some()
    }

    /// Whether this process wrote leaves of the verifiable log since the last time that this was asked. At first they may be another's.
    pub fn take_log_news(&self) -> bool {
        self.store.log_switch().take_news()
    }

    /// Has the next question for news answered with yes: the leaves could not be taken into the tree.
    pub fn keep_log_news(&self) {
        self.store.log_switch().note_news();
    }

    /// Notes that every leaf that was written before the last question for news is signed.
    pub fn note_log_signed(&self) {
        self.store.log_switch().note_signed();
    }

    /// Writes the verifiable log from now on, or no longer.
    pub fn switch_log(&self, is_on: bool) {
        self.store.log_switch().set(is_on);
    }

    /// The results of the latest writes. This asks the store nothing.
    pub fn write_health(&self) -> WriteHealth {
        self.writes.health()
    }

    /// A reader of the same ledger.
    pub fn reader(&self) -> PortFuture<'_, Result<LedgerReader, LedgerError>> {
        Box::pin(async move {
            Ok(match &self.store {
                Backend::File(file) => LedgerReader::from_sqlite(file.reader()?),
                Backend::Server(server) => LedgerReader::from_postgres(server.reader().await?),
            })
        })
    }
}

impl Journal for Ledger {
    fn record_finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        // A refused call and a dry run did nothing, and whoever makes them could fill the room that is left.
        let did_nothing = matches!(record.outcome, Outcome::Refused | Outcome::Previewed);
        if !durable && did_nothing && !self.capacity.has_room_for_a_refusal() {
            return Box::pin(std::future::ready(Ok(())));
        }
        self.store.record_finished(record, quarantine, durable)
    }

    fn refuses_records(&self) -> Option<RecordsRefused> {
        self.store.refuses_records().or_else(|| self.capacity.reserve_reason().map(RecordsRefused::NoRoom))
    }

    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        self.store.find_record(call_id)
    }
}

impl CallHistory for Ledger {
    fn list_calls(&self, query: HistoryQuery) -> PortFuture<'_, Result<HistoryPage, JournalError>> {
        self.store.list_calls(query)
    }

    fn calls_under_way(&self, query: HistoryQuery) -> PortFuture<'_, Result<Vec<CallRecord>, JournalError>> {
        self.store.calls_under_way(query)
    }

    fn find_call(&self, tenant: String, call_id: String) -> PortFuture<'_, Result<Option<CallRecord>, JournalError>> {
        self.store.find_call(tenant, call_id)
    }

    fn call_counts(&self, query: CountsQuery) -> PortFuture<'_, Result<Vec<CallCount>, JournalError>> {
        self.store.call_counts(query)
    }
}

impl Notebook for Ledger {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        self.store.write(note)
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        self.store.write_first(note)
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.store.write_if(note, found, now)
    }

    fn write_logged(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
        changes: Vec<LoggedChange>,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.store.write_logged(note, found, now, changes)
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        self.store.read(kind, key, now)
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        Notebook::list(&*self.store, kind, after, limit, now)
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        self.store.erase(kind, key)
    }
}

impl EffectStore for Ledger {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        Box::pin(async move {
            let applied = self.store.apply(change).await;
            self.writes.change_ended(&applied);
            applied
        })
    }

    fn loses_commits(&self) -> Option<String> {
        self.store.may_lose_commits()
    }

    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        self.store.find(target)
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        EffectStore::list(&*self.store, query)
    }

    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        self.store.orphans(query)
    }

    /// Also measures the room that is left. This runs beside the heartbeat: without room there is no heartbeat
    /// either, and a slow measurement must not make this process look dead.
    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            self.writes.beat_begins();
            let (measured, beat) = tokio::join!(self.look_at_room(), self.store.heartbeat(owner));
            match measured {
                Ok(()) => drop(self.unmeasured.worked()),
                Err(error) if self.unmeasured.failed() => {
                    tracing::warn!(%error, "the size of the ledger could not be measured");
                }
                Err(_) => {}
            }
            self.writes.beat_ended(&beat);
            beat
        })
    }

    fn out_of_room(&self) -> Option<String> {
        self.capacity.exhausted_reason()
    }

    fn log_is_behind(&self) -> Option<String> {
        self.store.log_switch().why_behind()
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        self.store.expire(limit)
    }
}

impl BudgetStore for Ledger {
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>> {
        self.store.apply_entry(entry)
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>> {
        self.store.sweep(limit)
    }

    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>> {
        self.store.open_reservations(older_than_ms, limit)
    }

    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        self.store.balances(query)
    }

    fn find_balances(&self, accounts: Vec<Account>) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        self.store.find_balances(accounts)
    }
}

impl TicketStore for Ledger {
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>> {
        if let Err(error) = check_event(&target, &event) {
            return Box::pin(std::future::ready(Err(error)));
        }
        // A ticket is a row with arguments, which any caller can ask for. The room that is left is for what is under way.
        if let Some(reason) = self.capacity.exhausted_reason().filter(|_| event.opens()) {
            return Box::pin(std::future::ready(Err(JournalError::new(reason))));
        }
        self.store.apply_ticket(target, event)
    }

    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>> {
        self.store.find_ticket(target)
    }

    fn list_tickets(&self, query: TicketQuery) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        self.store.list_tickets(query)
    }

    fn count_pending(&self, tenant: Option<String>, limit: u32) -> PortFuture<'_, Result<u32, JournalError>> {
        self.store.count_pending(tenant, limit)
    }

    fn due_tickets(&self, limit: u32) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        self.store.due_tickets(limit)
    }
}

impl AuditLog for Ledger {
    fn extend_tree(&self) -> PortFuture<'_, Result<LogHead, JournalError>> {
        self.store.extend_tree()
    }

    fn put_checkpoint(&self, size: u64, note: String) -> PortFuture<'_, Result<(), JournalError>> {
        self.store.put_checkpoint(size, note)
    }
}
