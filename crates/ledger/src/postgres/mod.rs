//! The shared store: a PostgreSQL that several gateways write to. A few writers with a connection each take
//! what has queued up and write one transaction per batch. Budgets, reads and heartbeats have connections of
//! their own.

mod address;
mod audit_log;
mod batch;
mod budgets;
mod composite;
mod dictionary;
mod dispatch_approvals;
mod expire;
mod history;
mod identity;
mod list;
mod migrate;
mod notes;
mod prune;
mod read;
mod read_pool;
mod recent_effects;
mod rows;
mod session;
mod statements;
mod tickets;
mod tls;
mod transact;
pub(crate) mod upkeep;
mod writer;

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use servanda_approval::{Ticket, TicketEvent};
use servanda_contract::CallRecord;
use servanda_effects::{
    AuditLog, CallHistory, Journal, JournalError, LogHead, PortFuture, RecordsRefused, TicketStore,
    budget::{Account, AccountBalance, AccountEntry, BalanceQuery, BudgetHold, BudgetStore, EntryReply, SweepReport},
    call_history::{CallCount, CountsQuery, HistoryPage, HistoryQuery},
    effect::{
        AppliedChange, Effect, EffectChange, EffectEvent, EffectQuery, EffectStore, EffectTarget,
        ORPHANED_UPSTREAMS_MAX, OrphanQuery, OwnerId, owner_silence_ms_max,
    },
    ticket_store::{AppliedTicket, TicketQuery, TicketTarget},
};
use tokio::{sync::Mutex, task::JoinSet};
use tokio_postgres::{Client, types::ToSql};

use crate::{
    LedgerError, LedgerGuard, LedgerLimits, PruneReport,
    capacity::{StorageCapacity, StorageUsage},
    codec::{key_digest, signed, unsigned},
    job::{CallRecordWrite, LedgerWrite},
    leaves::LeafWriter,
    log_switch::LogSwitch,
    queue::Queue,
    retention::PruneRound,
    store::{LedgerStore, Migration},
    time::StoreTime,
};
use identity::PostgresLedgerIdentity;
#[cfg(test)]
pub(crate) use list::IN_SERVER;
#[cfg(test)]
pub(crate) use migrate::all as migrations;
pub(crate) use read::PostgresReader;
use read_pool::PostgresReadPool;
use recent_effects::PostgresRecentEffects;
use session::Connector;
use writer::{PostgresWriter, SharedWriterState};

/// Connections that write. Enough to prepare one batch while another one syncs; more would only make batches
/// smaller.
const WRITERS: usize = 2;

/// How long closing waits to write the last position of the ledger.
const LAST_POSITION_MAX: Duration = Duration::from_millis(500);

/// The shared ledger.
#[derive(Debug)]
pub(crate) struct PostgresLedger {
    connector: Connector,
    queues: Vec<Queue>,
    /// For budgets: they wait for locks that other gateways hold, and no other job should wait with them.
    budget_queue: Queue,
    tasks: Mutex<JoinSet<()>>,
    pool: PostgresReadPool,
    lost: Arc<AtomicU64>,
    known: Arc<PostgresLedgerIdentity>,
    migration: Option<Migration>,
    log: LogSwitch,
    #[cfg(test)]
    time: StoreTime,
}

impl PostgresLedger {
    /// Connects for writing. Refuses a database that does not hold the known ledger, and brings one of an
    /// earlier version up to date if the guard says so.
    pub(crate) async fn connect(
        url: &str,
        guard: &LedgerGuard,
        room: Arc<StorageCapacity>,
    ) -> Result<Self, LedgerError> {
        let connector = Connector::new(url)?;
        let session = connector.connect().await?;
        let found = migrate::check(&session.client).await?;
        identity::examine(&session.client, guard).await?.judge(guard, connector.server())?;
        let migration = migrate::bring_up_to_date(&session.client, found, guard.schema).await?;
        let known = PostgresLedgerIdentity::load(&session.client, guard).await?;
        let salts = audit_log::salts(&session.client).await?;
        drop(session);
        let (time, lost) = (StoreTime::default(), Arc::new(AtomicU64::new(0)));
        let log = LogSwitch::new(LeafWriter::new(salts));
        let shared = SharedWriterState {
            time: time.clone(),
            recent: PostgresRecentEffects::default(),
            known: known.clone(),
            lost: lost.clone(),
            room,
            log: log.clone(),
            outage: Arc::default(),
        };
        let (mut queues, mut tasks) = (Vec::new(), JoinSet::new());
        for _ in 0..=WRITERS {
            let writer = PostgresWriter::new(connector.clone(), shared.clone()).await?;
            let (queue, jobs) = Queue::new();
            tasks.spawn(writer.run(jobs));
            queues.push(queue);
        }
        let books = queues.pop().ok_or(LedgerError::Silent(0))?;
        let pool = PostgresReadPool::new(connector.clone(), time.clone());
        pool.look_at_durability().await?;
        Ok(Self {
            connector,
            queues,
            budget_queue: books,
            tasks: Mutex::new(tasks),
            pool,
            lost,
            known,
            migration,
            log,
            #[cfg(test)]
            time,
        })
    }

    /// A reader of the same database.
    pub(crate) async fn reader(&self) -> Result<PostgresReader, LedgerError> {
        PostgresReader::connect_with(&self.connector).await
    }

    /// The queue for everything about one effect or call, so that it stays in order.
    fn queue(&self, of: &impl Hash) -> Result<&Queue, JournalError> {
        let mut hasher = DefaultHasher::new();
        of.hash(&mut hasher);
        let shard = usize::try_from(hasher.finish() % WRITERS as u64).unwrap_or_default();
        self.queues.get(shard).ok_or_else(|| JournalError::new("the ledger has no writer"))
    }

    async fn ask<T>(&self, question: impl AsyncFnOnce(&Client) -> Result<T, LedgerError>) -> Result<T, JournalError> {
        self.pool.ask(question).await.map_err(|error| JournalError::new(error.to_string()))
    }
}

/// What was handed in is still written: the writers end when they have nothing left to do.
impl Drop for PostgresLedger {
    fn drop(&mut self) {
        self.tasks.get_mut().detach_all();
    }
}

impl LedgerStore for PostgresLedger {
    fn close(&self) -> PortFuture<'_, ()> {
        Box::pin(async move {
            self.queues.iter().chain([&self.budget_queue]).for_each(Queue::close);
            let mut tasks = self.tasks.lock().await;
            while let Some(ended) = tasks.join_next().await {
                if ended.is_err() {
                    tracing::error!("one of the ledger's writers did not end cleanly");
                }
            }
            // The last position, if the database can be reached.
            let last = self
                .pool
                .ask(async |client: &Client| self.known.beat(client, self.pool.now(client).await?.now_ms).await);
            let _ = tokio::time::timeout(LAST_POSITION_MAX, last).await;
            self.known.end();
        })
    }

    fn prune(&self, round: PruneRound) -> PortFuture<'_, Result<PruneReport, JournalError>> {
        // Always the same writer, because that writer knows how far pruning has come.
        Box::pin(async move { self.queue(&"pruning")?.prune(round).await })
    }

    fn measure(&self, limits: LedgerLimits) -> PortFuture<'_, Result<StorageUsage, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| {
            // The server's disk is not visible from here, and sizes are only read if they are limited.
            if limits.bytes_max.is_none() {
                return Ok(StorageUsage::default());
            }
            let size = client.query_one(include_str!("../../sql/postgres/size.sql"), &[]).await?;
            Ok(StorageUsage { used_bytes: unsigned(size.try_get(0)?), disk: None })
        }))
    }

    fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    fn may_lose_commits(&self) -> Option<String> {
        self.known.replaced().or_else(|| self.pool.may_lose_commits())
    }

    fn migration(&self) -> Option<&Migration> {
        self.migration.as_ref()
    }

    fn log_switch(&self) -> &LogSwitch {
        &self.log
    }

    #[cfg(test)]
    fn time(&self) -> &StoreTime {
        &self.time
    }
}

impl Journal for PostgresLedger {
    fn record_finished(
        &self,
        record: CallRecord,
        quarantine: Option<Bytes>,
        durable: bool,
    ) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let queue = self.queue(&record.call_id.as_str())?;
            queue.put(LedgerWrite::Call(CallRecordWrite::new(record, quarantine)), durable).await
        })
    }

    fn refuses_records(&self) -> Option<RecordsRefused> {
        self.queues.iter().find_map(Queue::why_behind).map(RecordsRefused::Waiting)
    }

    fn find_record<'a>(&'a self, call_id: &'a str) -> PortFuture<'a, Result<Option<CallRecord>, JournalError>> {
        Box::pin(async move {
            let recalled = self.pool.ask(async |client: &Client| read::call(client, call_id).await).await;
            recalled.map_err(|error| JournalError::new(error.to_string()))
        })
    }
}

impl CallHistory for PostgresLedger {
    fn list_calls(&self, query: HistoryQuery) -> PortFuture<'_, Result<HistoryPage, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| history::list(client, &query).await))
    }

    fn calls_under_way(&self, query: HistoryQuery) -> PortFuture<'_, Result<Vec<CallRecord>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| history::under_way(client, &query).await))
    }

    fn find_call(&self, tenant: String, call_id: String) -> PortFuture<'_, Result<Option<CallRecord>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| history::find(client, &tenant, &call_id).await))
    }

    fn call_counts(&self, query: CountsQuery) -> PortFuture<'_, Result<Vec<CallCount>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| history::counts(client, &query).await))
    }
}

impl EffectStore for PostgresLedger {
    fn apply(&self, change: EffectChange) -> PortFuture<'_, Result<AppliedChange, JournalError>> {
        Box::pin(async move {
            // Effects of a tenant that wait for resources go through the same writer, so that they do not wait
            // for each other's locks here.
            let queue = match &change.event {
                EffectEvent::Begin(begin) if begin.order.takes_turns() => self.queue(&begin.key.tenant)?,
                _ => self.queue(&change.target)?,
            };
            queue.apply(change).await
        })
    }

    fn find(&self, target: EffectTarget) -> PortFuture<'_, Result<Option<Effect>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| {
            let row = match &target {
                EffectTarget::Key(key) => {
                    let sql = include_str!("../../sql/postgres/effect_of_key.sql");
                    client.query_opt(sql, &[&&key_digest(key).as_bytes()[..]]).await?
                }
                EffectTarget::Id(id) if id.as_str().contains('\0') => None,
                EffectTarget::Id(id) => {
                    let sql = include_str!("../../sql/postgres/effect_of_handle.sql");
                    client.query_opt(sql, &[&id.as_str()]).await?
                }
            };
            row.as_ref().map(rows::effect).transpose()
        }))
    }

    fn list(&self, query: EffectQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| list::list(client, query).await))
    }

    fn orphans(&self, query: OrphanQuery) -> PortFuture<'_, Result<Vec<Effect>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| {
            let ledger_ms = self.pool.now(client).await?.ledger_ms;
            let silent_since_ms = signed(ledger_ms.saturating_sub(owner_silence_ms_max()));
            let sql = include_str!("../../sql/postgres/orphans.sql");
            let (each_max, upstreams_max) = (i64::from(query.each_max), i64::from(ORPHANED_UPSTREAMS_MAX));
            let upstreams: Vec<&str> = query.after.keys().map(String::as_str).collect();
            let due_ms: Vec<i64> = query.after.values().map(|after| signed(after.due_ms)).collect();
            let ids: Vec<&str> = query.after.values().map(|after| after.id.as_str()).collect();
            let owner = query.owner.as_str();
            let of: [&(dyn ToSql + Sync); 8] =
                [&signed(ledger_ms), &silent_since_ms, &each_max, &upstreams_max, &owner, &upstreams, &due_ms, &ids];
            let rows = client.query(sql, &of).await?;
            rows.iter().map(rows::effect).collect()
        }))
    }

    fn heartbeat(&self, owner: OwnerId) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(async move {
            let beat = async |client: &Client| {
                let now = self.pool.beat(client, &owner).await?;
                self.known.beat(client, now.now_ms).await
            };
            self.ask(beat).await?;
            self.pool.look_at_durability().await.map_err(|error| JournalError::new(error.to_string()))
        })
    }

    fn expire(&self, limit: u32) -> PortFuture<'_, Result<u64, JournalError>> {
        Box::pin(async move { self.queue(&"expiry")?.expire(limit).await })
    }
}

impl BudgetStore for PostgresLedger {
    fn apply_entry(&self, entry: AccountEntry) -> PortFuture<'_, Result<EntryReply, JournalError>> {
        Box::pin(self.budget_queue.apply_entry(entry))
    }

    fn sweep(&self, limit: u32) -> PortFuture<'_, Result<SweepReport, JournalError>> {
        Box::pin(self.budget_queue.sweep(limit))
    }

    fn open_reservations(
        &self,
        older_than_ms: u64,
        limit: u32,
    ) -> PortFuture<'_, Result<Vec<BudgetHold>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| {
            let until_ms = self.pool.now(client).await?.now_ms.saturating_sub(older_than_ms);
            budgets::open_reservations(client, until_ms, limit).await
        }))
    }

    fn balances(&self, query: BalanceQuery) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| {
            budgets::balances(client, &query, self.pool.now(client).await?.now_ms).await
        }))
    }

    fn find_balances(&self, accounts: Vec<Account>) -> PortFuture<'_, Result<Vec<AccountBalance>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| {
            budgets::find_balances(client, &accounts, self.pool.now(client).await?.now_ms).await
        }))
    }
}

impl AuditLog for PostgresLedger {
    fn extend_tree(&self) -> PortFuture<'_, Result<LogHead, JournalError>> {
        Box::pin(async move { self.queue(&"the log's tree")?.extend_log().await })
    }

    fn put_checkpoint(&self, size: u64, note: String) -> PortFuture<'_, Result<(), JournalError>> {
        Box::pin(self.ask(async move |client: &Client| audit_log::put_checkpoint(client, size, &note).await))
    }
}

impl TicketStore for PostgresLedger {
    fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> PortFuture<'_, Result<AppliedTicket, JournalError>> {
        Box::pin(async move {
            let queue = match &target {
                TicketTarget::Id(id) => self.queue(id)?,
                TicketTarget::Key(key) => self.queue(key)?,
            };
            queue.apply_ticket(target, event).await
        })
    }

    fn find_ticket(&self, target: TicketTarget) -> PortFuture<'_, Result<Option<Ticket>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| tickets::find(client, &target).await))
    }

    fn list_tickets(&self, query: TicketQuery) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| tickets::list(client, &query).await))
    }

    fn count_pending(&self, tenant: Option<String>, limit: u32) -> PortFuture<'_, Result<u32, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| tickets::count_pending(client, tenant.as_deref(), limit).await))
    }

    fn due_tickets(&self, limit: u32) -> PortFuture<'_, Result<Vec<Ticket>, JournalError>> {
        Box::pin(self.ask(async move |client: &Client| tickets::due(client, self.pool.now(client).await?, limit).await))
    }
}

/// A connection like the ledger's own.
#[cfg(test)]
pub(crate) async fn client(url: &str) -> Result<Client, LedgerError> {
    Ok(Connector::new(url)?.connect().await?.client)
}

/// Every statement that the writers compose.
#[cfg(test)]
pub(crate) fn written() -> Vec<String> {
    statements::all_written()
}

/// A setting as the ledger's own connections have it.
#[cfg(test)]
pub(crate) async fn setting(url: &str, name: &str) -> Result<String, LedgerError> {
    let session = Connector::new(url)?.connect().await?;
    Ok(session.client.query_one("select current_setting($1)", &[&name]).await?.try_get(0)?)
}

/// Whether the server sees our connection as encrypted.
#[cfg(test)]
pub(crate) async fn is_encrypted(url: &str) -> Result<bool, LedgerError> {
    let session = Connector::new(url)?.connect().await?;
    Ok(session.client.query_one("select ssl from pg_stat_ssl where pid = pg_backend_pid()", &[]).await?.try_get(0)?)
}
