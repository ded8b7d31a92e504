//! The one writer: a thread that takes what has queued up, writes it in one transaction, and then wakes the
//! waiting callers.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use rusqlite::{Connection, TransactionBehavior, params};
use servanda_contract::faults;
use servanda_effects::JournalError;
use tokio::runtime;

use super::{
    additions::BatchAdditions, audit_log, batch_context::BatchContext, budgets, checkpoint::Checkpointer,
    clock_reading, dictionary, effects, history, identity, process_lock::LedgerProcessLock, prune, put,
    recent_effects::SqliteRecentEffects, tickets,
};
use crate::{
    LedgerError,
    capacity::StorageCapacity,
    clock_watch::ClockWatch,
    codec::signed,
    encoding::dictionary::Dictionary,
    identity::{PositionFile, UnsettledLoss, lost_window},
    inbox::Inbox,
    job::{Job, JobOutcome},
    log_switch::LogSwitch,
    queue::Queue,
    retention::UpkeepProgress,
    time::StoreTime,
};

/// How often to wait for a file that another process has locked, ten seconds each time.
const BUSY_ATTEMPTS_MAX: u32 = 3;

/// Records whose share of the index may be put aside before it is merged.
const GATHERED_RECORDS_MAX: usize = 256;

/// The handle of the writer's thread.
#[derive(Debug)]
pub(super) struct SqliteWriter {
    queue: Queue,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
}

/// The position file and process lock of an open ledger.
#[derive(Debug)]
pub(super) struct SqliteIdentityFiles {
    pub(super) live: LedgerProcessLock,
    pub(super) position_file: Option<Arc<PositionFile>>,
}

impl SqliteWriter {
    pub(super) fn start(
        connection: Connection,
        path: &Path,
        time: StoreTime,
        (known, room, log): (SqliteIdentityFiles, Arc<StorageCapacity>, LogSwitch),
    ) -> Result<Self, LedgerError> {
        connection.set_prepared_statement_cache_capacity(64);
        let checkpointer = Checkpointer::start(path, known.position_file.clone())?;
        let dictionary = dictionary::load(&connection)?;
        let file = OpenDatabase {
            connection,
            path: path.to_owned(),
            id: file_id(path),
            time,
            watch: ClockWatch::default(),
            recent: SqliteRecentEffects::default(),
            dictionary,
            additions: BatchAdditions::default(),
            log,
            gathered_records: 0,
            progress: UpkeepProgress::default(),
            lost: Vec::new(),
            known,
            checkpointer,
            room,
        };
        let (queue, inbox) = Queue::new();
        let lost = Arc::new(AtomicU64::new(0));
        let counter = lost.clone();
        // A runtime of its own, for the timer: this thread blocks on disk, and no other tasks must wait for
        // that.
        let runtime = runtime::Builder::new_current_thread().enable_time().build().map_err(LedgerError::Thread)?;
        let thread = thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || run(file, inbox, &runtime, &counter))
            .map_err(LedgerError::Thread)?;
        Ok(Self { queue, thread: Mutex::new(Some(thread)), lost })
    }

    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    pub(super) fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    pub(super) async fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the ledger's writer did not end cleanly");
            }
        }
    }
}

fn run(mut file: OpenDatabase, mut inbox: Inbox, runtime: &runtime::Runtime, lost: &AtomicU64) {
    while let Some(batch) = runtime.block_on(inbox.gather()) {
        settle(&mut file, batch, lost);
    }
    file.end();
}

/// Does a batch. If a job of it is at fault, each job is done by itself, so that one bad job does not make
/// others fail.
fn settle(file: &mut OpenDatabase, mut batch: Vec<Job>, lost: &AtomicU64) {
    for job in &mut batch {
        job.encode(&mut file.dictionary);
    }
    let error = match file.commit_patiently(&batch) {
        Ok(outcomes) => {
            return batch.into_iter().zip(outcomes).for_each(|(job, outcome)| job.answer(Ok(outcome), lost));
        }
        Err(error) => error,
    };
    if error.is_out_of_space() {
        file.room.ran_out(&error.to_string());
    }
    let shared = error.is_store_failure();
    for job in batch {
        let outcome = if shared {
            Err(error.to_journal_error())
        } else {
            let alone = file.commit(std::slice::from_ref(&job));
            alone.map_err(|error| error.to_journal_error()).and_then(|mut outcomes| {
                outcomes.pop().ok_or_else(|| JournalError::new("the ledger's writer returned no result"))
            })
        };
        job.answer(outcome, lost);
    }
}

/// The database, and the file it should be in.
struct OpenDatabase {
    connection: Connection,
    path: PathBuf,
    id: Option<FileId>,
    time: StoreTime,
    watch: ClockWatch,
    recent: SqliteRecentEffects,
    /// The dictionary of records. Its new entries are written with every batch until one is committed.
    dictionary: Dictionary,
    /// What the present batch adds beside the rows of its jobs.
    additions: BatchAdditions,
    log: LogSwitch,
    /// Records whose share of the index this process has put aside and not merged.
    gathered_records: usize,
    /// Windows that the ledger has lost.
    lost: Vec<UnsettledLoss>,
    known: SqliteIdentityFiles,
    checkpointer: Checkpointer,
    progress: UpkeepProgress,
    room: Arc<StorageCapacity>,
}

/// What tells one file from another of the same name.
type FileId = (u64, u64);

impl OpenDatabase {
    /// Does a batch, and waits if another process locks the file longer than usual. The callers have their own
    /// deadlines; here it only matters that nothing gets lost.
    fn commit_patiently(&mut self, batch: &[Job]) -> Result<Vec<JobOutcome>, LedgerError> {
        let mut attempt = 1;
        loop {
            match self.commit(batch) {
                Err(error) if error.is_busy() && attempt < BUSY_ATTEMPTS_MAX => attempt += 1,
                outcomes => return outcomes,
            }
        }
    }

    /// Does the whole batch or nothing.
    fn commit(&mut self, batch: &[Job]) -> Result<Vec<JobOutcome>, LedgerError> {
        self.check()?;
        let committed = self.transact(batch);
        if committed.is_err() {
            self.recent.clear();
        }
        committed
    }

    fn transact(&mut self, batch: &[Job]) -> Result<Vec<JobOutcome>, LedgerError> {
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let reading = clock_reading(&transaction)?;
        let now = self.time.now(reading);
        if self.recent.check(&transaction)? {
            self.lost = identity::lost(&transaction)?;
        }
        dictionary::put(&transaction, &self.dictionary)?;
        let now_ms = now.now_ms;
        self.additions.begin(self.log.writer());
        let (recent, progress, additions) = (&mut self.recent, &mut self.progress, &mut self.additions);
        let mut around =
            BatchContext { recent, progress, additions, now, lost_window: lost_window(&self.lost, now_ms) };
        let perform = |job| perform(&transaction, &mut around, job);
        let outcomes = batch.iter().map(perform).collect::<Result<Vec<_>, _>>()?;
        let gathered_records = self.gathered_records + self.additions.index.records();
        let merges = gathered_records >= GATHERED_RECORDS_MAX || batch.iter().any(Job::merges_index);
        if merges {
            history::merge(&transaction, &self.additions.index)?;
        } else {
            history::gather(&transaction, &self.additions.index)?;
        }
        audit_log::append(&transaction, &self.additions.leaves)?;
        if let Some(kept) = self.time.to_keep(reading) {
            self.watch.observe(kept.seen_ms);
            let mut keep = transaction.prepare_cached(include_str!("../../sql/sqlite/keep_clock.sql"))?;
            keep.execute(params![signed(kept.seen_ms), signed(kept.ledger_ms)])?;
        }
        let position = identity::advance(&transaction, now_ms)?;
        faults::at("ledger.before_commit")?;
        transaction.commit()?;
        self.dictionary.stored();
        self.gathered_records = if merges { 0 } else { gathered_records };
        // Before any caller is answered, so that an acknowledged commit is noticed as missing if it gets lost.
        if let Some(position_file) = &self.known.position_file {
            position_file.advance(position, now_ms);
        }
        self.checkpointer.written();
        if !self.additions.leaves.is_empty() {
            self.log.note_news();
        }
        faults::at("ledger.after_commit")?;
        Ok(outcomes)
    }

    /// Leaves one file behind instead of three, and notes in the position file that the ledger ended cleanly.
    fn end(mut self) {
        self.checkpointer.end();
        let gone = file_id(&self.path) != self.id;
        if let Err(error) = self.connection.pragma_update(None, "wal_checkpoint", "truncate") {
            tracing::debug!(%error, "the ledger was not checkpointed");
        }
        drop(self.connection);
        let Some(position_file) = self.known.position_file.filter(|_| !gone) else { return };
        let ended = if self.known.live.is_last() { position_file.end() } else { position_file.sync() };
        if let Err(error) = ended {
            tracing::warn!(%error, "the ledger's position file was not synced");
        }
    }

    /// Writes to a file that was deleted or replaced still succeed, but can never be read again. So such a file
    /// is an error.
    fn check(&self) -> Result<(), LedgerError> {
        if file_id(&self.path) == self.id { Ok(()) } else { Err(LedgerError::Gone { path: self.path.clone() }) }
    }
}

fn perform(transaction: &Connection, around: &mut BatchContext<'_>, job: &Job) -> Result<JobOutcome, LedgerError> {
    let (now, now_ms) = (around.now, around.now.now_ms);
    match job {
        Job::Put { write, .. } => put::put(transaction, around.additions, write, now).map(|()| JobOutcome::Put),
        Job::Apply { target, event, recorded, notices, .. } => {
            let (recorded, consumes) = (recorded.as_deref(), job.consumes());
            let change = effects::EventWithRecord { target, event, recorded, notices, consumes };
            effects::apply(transaction, around, change).map(|applied| JobOutcome::Applied(Box::new(applied)))
        }
        Job::NoteIf { change, .. } => put::put_note_if(transaction, around.additions, change).map(JobOutcome::NoteIf),
        Job::Ticket { target, event, .. } => {
            tickets::apply(transaction, around.additions, (target, event), now).map(JobOutcome::Ticket)
        }
        Job::Expire { limit, .. } => {
            effects::expire(transaction, around.additions, *limit, now).map(JobOutcome::Expired)
        }
        Job::ExtendLog { .. } => {
            // With the leaves of the jobs before it in this batch.
            audit_log::append(transaction, &std::mem::take(&mut around.additions.leaves))?;
            audit_log::extend_tree(transaction).map(JobOutcome::Log)
        }
        Job::Book { entry, .. } => {
            budgets::apply_entry(transaction, around.additions, entry, now_ms).map(JobOutcome::Booked)
        }
        Job::Sweep { limit, .. } => budgets::sweep(transaction, around, *limit).map(JobOutcome::Swept),
        Job::Prune { round, .. } => prune::prune(transaction, around.progress, *round, now).map(JobOutcome::Pruned),
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}
