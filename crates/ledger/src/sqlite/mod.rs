//! The embedded store: one file, one writer thread, group commit.

mod additions;
mod audit_log;
mod backup;
mod batch_context;
mod budgets;
mod checkpoint;
mod dictionary;
mod effects;
mod examine;
pub(crate) mod file_permissions;
mod history;
mod identity;
mod migrate;
mod process_lock;
mod prune;
mod put;
mod read;
mod read_pool;
mod recent_effects;
mod tickets;
pub(crate) mod upkeep;
pub(crate) mod wal;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use rusqlite::{Connection, OpenFlags};
use servanda_approval::{Ticket, TicketEvent};
use servanda_contract::{CallRecord, Timestamp};
use servanda_effects::{
    AuditLog, CallHistory, Journal, JournalError, LogHead, LoggedChange, Note, NoteKind, Notebook, PortFuture,
    RecordsRefused, TicketStore,
    budget::{Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetStore, EntryReply, SweepReport},
    call_history::{CallCount, CountsQuery, HistoryPage, HistoryQuery},
    effect::{
        AppliedChange, Effect, EffectChange, EffectQuery, EffectStore, EffectTarget, LedgerClock, LedgerNow,
        OrphanQuery, OwnerId,
    },
    ticket_store::{AppliedTicket, TicketQuery, TicketTarget},
};

use crate::{
    LedgerError, LedgerGuard, LedgerLimits, LedgerSchemaPolicy, PruneReport,
    capacity::{DiskSpace, StorageCapacity, StorageUsage},
    codec::unsigned,
    identity::PositionFile,
    job::{CallRecordWrite, LedgerWrite},
    leaves::LeafWriter,
    log_switch::LogSwitch,
    retention::PruneRound,
    store::{LedgerStore, Migration},
    time::{ClockReading, StoreTime},
};
use examine::examine;
use process_lock::LedgerProcessLock;
pub(crate) use read::SqliteReader;
pub(crate) use read_pool::SqliteReadPool;
use writer::{SqliteIdentityFiles, SqliteWriter};

#[cfg(test)]
pub(crate) use effects::{IN_FILE, list_sql};
#[cfg(test)]
pub(crate) use migrate::{newest, to_version};

/// Memory for pages of the file. Keys come in no order, and each needs the page that it belongs to; pages that are not here come from the
/// system's cache.
const CACHE_KIB: i64 = 8 << 10;
/// How many pages gather in the log before they are moved into the file, so that pages that change often are
/// written once.
const CHECKPOINT_PAGES: i64 = 8_000;

/// The embedded ledger.
#[derive(Debug)]
pub(crate) struct SqliteLedger {
    path: PathBuf,
    writer: SqliteWriter,
    pool: SqliteReadPool,
    time: StoreTime,
    migration: Option<Migration>,
    log: LogSwitch,
}

impl SqliteLedger {
    /// Opens the ledger for writing, and makes it if there is none. Refuses a ledger that is not the known one,
    /// and brings one of an earlier version up to date if the guard says so.
    pub(crate) fn open(path: &Path, guard: &LedgerGuard, room: Arc<StorageCapacity>) -> Result<Self, LedgerError> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            file_permissions::folder(folder)
                .map_err(|source| LedgerError::Folder { path: folder.to_owned(), source })?;
        }
        file_permissions::make_private(path)?.iter().for_each(file_permissions::tell);
        let mut live = LedgerProcessLock::enter(path)?;
        let examined = examine(path, guard, live.is_alone())?;
        examined.judge(path, guard)?;
        if let Some(log) = examined.log.as_ref().filter(|log| log.stop.is_some()) {
            tracing::warn!(ledger = %path.display(), %log, "cut off a commit that was never acknowledged");
        }
        let (connection, migration) = open_up_to_date(path, guard.schema)?;
        let position_file = guard.position_file.as_deref().map(|file| known_outside(file, &connection)).transpose()?;
        live.share()?;
        let (pool, time) = (SqliteReadPool::open(path)?, StoreTime::default());
        let known = SqliteIdentityFiles { live, position_file };
        let log = LogSwitch::new(LeafWriter::new(audit_log::salts(&connection)?));
        let writer = SqliteWriter::start(connection, path, time.clone(), (known, room, log.clone()))?;
        Ok(Self { path: path.to_owned(), writer, pool, time, migration, log })
    }

    /// A reader of the same file.
    pub(crate) fn reader(&self) -> Result<SqliteReader, LedgerError> {
        SqliteReader::open(&self.path)
    }

    /// Asks the index of calls, after the writer has merged what it has put aside, so that every record is found that was durable before.
    async fn ask_index<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Connection) -> Result<T, LedgerError> + Send + 'static,
    ) -> Result<T, JournalError> {
        if self.pool.ask(history::has_gathered).await?
            && let Err(error) = self.writer.queue().put(LedgerWrite::MergedIndex, true).await
        {
            // A full disk must not hide the calls that can be found.
            tracing::warn!(%error, "the newest calls are not listed yet");
        }
        self.pool.ask(question).await
    }
}

/// Opens a file and brings it up to date, after making a backup beside it.
fn open_up_to_date(path: &Path, schema: LedgerSchemaPolicy) -> Result<(Connection, Option<Migration>), LedgerError> {
    file_permissions::require_plain(path)?;
    file_permissions::file(path);
    let failed = |source| LedgerError::Open { path: path.to_owned(), source };
    let mut connection = Connection::open(path).map_err(failed)?;
    configure(&connection).map_err(failed)?;
    let (found, newest) = (migrate::check(&connection)?, migrate::newest());
    if found == newest {
        return Ok((connection, None));
    }
    let backup = match (found, schema) {
        (0, _) => None,
        (_, LedgerSchemaPolicy::Require) => return Err(LedgerError::Older { found, needed: newest }),
        (_, LedgerSchemaPolicy::Migrate) => Some(backup::before_migration(path, found)),
    };
    if let Some(backup) = &backup {
        backup::copy(&connection, backup)?;
    }
    migrate::to_newest(&mut connection)?;
    // From the beginning, the file alone has every table.
    connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
    Ok((connection, backup.map(|backup| Migration { found, newest, backup: Some(backup) })))
}

/// Opens the position file and writes the ledger's position to it.
fn known_outside(file: &Path, connection: &Connection) -> Result<Arc<PositionFile>, LedgerError> {
    let opened = PositionFile::open(file, &identity::position(connection)?);
    opened.map(Arc::new).map_err(|source| LedgerError::PositionFile { path: file.to_owned(), source })
}

impl LedgerStore for SqliteLedger {
    fn close(&self) -> PortFuture<'_, ()> {
        Box::pin(self.writer.close())
    }

    fn prune(&self, round: PruneRound) -> PortFuture<'_, Result<PruneReport, JournalError>> {
        Box::pin(self.writer.queue().prune(round))
    }

    fn measure(&self, _: LedgerLimits) -> PortFuture<'_, Result<StorageUsage, JournalError>> {
        let path = self.path.clone();
        Box::pin(self.pool.ask(move |connection| measure(connection, &path)))
    }

    fn lost_count(&self) -> u64 {
        self.writer.lost_count()
    }

    fn migration(&self) -> Option<&Migration> {
        self.migration.as_ref()
    }

    fn may_lose_commits(&self) -> Option<String> {
        None
    }

    fn log_switch(&self) -> &LogSwitch {
        &self.log
    }

    #[cfg(test)]
    fn time(&self) -> &StoreTime {
        &self.time
    }
}

impl Journal for SqliteLedger {
    fn record_finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(LedgerWrite::Call(CallRecordWrite::new(record, quarantine)), durable))
    }

    fn refuses_records(&self) -> Option<RecordsRefused> {
        self.writer.queue().why_behind().map(RecordsRefused::Waiting)
    }

    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        let call_id = call_id.to_owned();
        Box::pin(self.pool.ask(move |connection| read::call(connection, &call_id)))
    }
}

impl CallHistory for SqliteLedger {
    fn list_calls(&self, query: HistoryQuery) -> PortFuture<'_, Result<HistoryPage, JournalError>> {
        Box::pin(self.ask_index(move |connection| history::list(connection, &query)))
    }

    fn calls_under_way(&self, query: HistoryQuery) -> PortFuture<'_, Result<Vec<CallRecord>, JournalError>> {
        Box::pin(self.pool.ask(move |connection| history::under_way(connection, &query)))
    }

    fn find_call(&self, tenant: String, call_id: String) -> PortFuture<'_, Result<Option<CallRecord>, JournalError>> {
        Box::pin(self.pool.ask(move |connection| history::find(connection, &tenant, &call_id)))
    }

    fn call_counts(&self, query: CountsQuery) -> PortFuture<'_, Result<Vec<CallCount>, JournalError>> {
        Box::pin(self.ask_index(move |connection| history::counts(connection, &query)))
    }
}

impl Notebook for SqliteLedger {
    fn write(&self, note: Note) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(LedgerWrite::Note(note), true))
    }

    fn write_first(&self, note: Note) -> PortFuture<'_, Result<Note, JournalError>> {
        Box::pin(async move {
            let (kind, key) = (note.kind, note.key.clone());
            self.writer.queue().put(LedgerWrite::FirstNote(note), true).await?;
            let kept = self.pool.ask(move |connection| read::note(connection, kind, &key)).await?;
            kept.ok_or_else(|| JournalError::new(format!("a {} note that was just written is gone", kind.as_str())))
        })
    }

    fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        self.write_logged(note, found, now, Vec::new())
    }

    fn write_logged(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
        changes: Vec<LoggedChange>,
    ) -> PortFuture<'_, Result<bool, JournalError>> {
        Box::pin(self.writer.queue().write_if(note, found, now, changes))
    }

    fn read(&self, kind: NoteKind, key: &str, now: Timestamp) -> PortFuture<'_, Result<Option<Note>, JournalError>> {
        let key = key.to_owned();
        Box::pin(async move {
            let found = self.pool.ask(move |connection| read::note(connection, kind, &key)).await?;
            Ok(found.filter(|note| !note.is_expired(now)))
        })
    }

    fn list(
        &self,
        kind: NoteKind,
        after: &str,
        limit: u32,
        now: Timestamp,
    ) -> PortFuture<'_, Result<Vec<Note>, JournalError>> {
        let after = after.to_owned();
        Box::pin(self.pool.ask(move |connection| read::notes(connection, kind, &after, limit, now)))
    }

    fn erase(&self, kind: NoteKind, key: &str) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(LedgerWrite::Erasure { kind, key: key.to_owned() }, true))
    }
}

impl EffectStore for SqliteLedger {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        Box::pin(self.writer.queue().apply(change))
    }

    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        Box::pin(self.pool.ask(move |connection| effects::find(connection, &target)))
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        Box::pin(self.pool.ask(move |connection| effects::list(connection, &query)))
    }

    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        let time = self.time.clone();
        Box::pin(self.pool.ask(move |connection| effects::orphans(connection, &query, now(connection, &time)?)))
    }

    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(LedgerWrite::Beat(owner), true))
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        Box::pin(self.writer.queue().expire(limit))
    }
}

impl BudgetStore for SqliteLedger {
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>> {
        Box::pin(self.writer.queue().apply_entry(entry))
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>> {
        Box::pin(self.writer.queue().sweep(limit))
    }

    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>> {
        let time = self.time.clone();
        Box::pin(self.pool.ask(move |connection| {
            let until_ms = now(connection, &time)?.now_ms.saturating_sub(older_than_ms);
            budgets::open_reservations(connection, until_ms, limit)
        }))
    }

    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        let time = self.time.clone();
        Box::pin(self.pool.ask(move |connection| budgets::balances(connection, &query, now(connection, &time)?.now_ms)))
    }

    fn find_balances(&self, accounts: Vec<Account>) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        let time = self.time.clone();
        Box::pin(
            self.pool
                .ask(move |connection| budgets::find_balances(connection, &accounts, now(connection, &time)?.now_ms)),
        )
    }
}

impl TicketStore for SqliteLedger {
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>> {
        Box::pin(self.writer.queue().apply_ticket(target, event))
    }

    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>> {
        Box::pin(self.pool.ask(move |connection| tickets::find(connection, &target)))
    }

    fn list_tickets(&self, query: TicketQuery) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        Box::pin(self.pool.ask(move |connection| tickets::list(connection, &query)))
    }

    fn count_pending(&self, tenant: Option<String>, limit: u32) -> PortFuture<'_, Result<u32, JournalError>> {
        Box::pin(self.pool.ask(move |connection| tickets::count_pending(connection, tenant.as_deref(), limit)))
    }

    fn due_tickets(&self, limit: u32) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        let time = self.time.clone();
        Box::pin(self.pool.ask(move |connection| tickets::due(connection, now(connection, &time)?, limit)))
    }
}

impl AuditLog for SqliteLedger {
    fn extend_tree(&self) -> PortFuture<'_, Result<LogHead, JournalError>> {
        Box::pin(self.writer.queue().extend_log())
    }

    fn put_checkpoint(&self, size: u64, note: String) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.writer.queue().put(LedgerWrite::Checkpoint { size, note }, true))
    }
}

/// WAL so that readers never wait, `FULL` because `NORMAL` may forget acknowledged effects when the power goes, a busy
/// wait because the command line may write to the same file as a running gateway.
pub(crate) fn configure(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "full")?;
    connection.pragma_update(None, "foreign_keys", "on")?;
    connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    connection.busy_timeout(std::time::Duration::from_secs(10))
}

fn open_read_only(path: &Path) -> Result<Connection, LedgerError> {
    file_permissions::require_plain(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(10))?;
        Ok(connection)
    };
    open().map_err(|source| LedgerError::Open { path: path.to_owned(), source })
}

/// How much of the file is in use, and how much can still be written. Free pages are used before the file
/// grows.
fn measure(connection: &Connection, path: &Path) -> Result<StorageUsage, LedgerError> {
    let number = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map(unsigned);
    let (pages, free, page_bytes) = (number("page_count")?, number("freelist_count")?, number("page_size")?);
    let reusable_bytes = free.saturating_mul(page_bytes);
    let disk = rustix::fs::statvfs(path).ok().map(|disk| DiskSpace {
        bytes_total: disk.f_blocks.saturating_mul(disk.f_frsize),
        bytes_free: disk.f_bavail.saturating_mul(disk.f_frsize).saturating_add(reusable_bytes),
    });
    Ok(StorageUsage { used_bytes: pages.saturating_sub(free).saturating_mul(page_bytes), disk })
}

/// The current time, from the database's clock and the ledger time it has stored.
fn now(connection: &Connection, time: &StoreTime) -> Result<LedgerNow, LedgerError> {
    Ok(time.now(clock_reading(connection)?))
}

/// What the database says about the time.
fn clock_reading(connection: &Connection) -> Result<ClockReading, LedgerError> {
    let mut clock = connection.prepare_cached(include_str!("../../sql/sqlite/read_clock.sql"))?;
    let read = clock.query_row([], |row| {
        let kept = LedgerClock { seen_ms: unsigned(row.get(1)?), ledger_ms: unsigned(row.get(2)?) };
        Ok(ClockReading { clock_ms: row.get(0)?, kept })
    });
    Ok(read?)
}
