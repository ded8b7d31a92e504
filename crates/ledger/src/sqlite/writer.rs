//! The one writer: a thread that takes what has queued up, writes it in one transaction, and then wakes the
//! waiting callers.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
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
    kept_records::KeptRecords,
    log_switch::LogSwitch,
    queue::Queue,
    retention::UpkeepProgress,
    store_outage::StoreOutage,
    time::StoreTime,
};

/// How often to wait for a file that another process has locked, ten seconds each time.
const BUSY_ATTEMPTS_MAX: u32 = 3;

/// How often the last records are offered to a file that does not take them when the ledger is closed, and how long apart.
const LAST_OFFERS_MAX: u32 = 4;
const LAST_OFFERS_APART: Duration = Duration::from_millis(250);

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
        let kept = KeptRecords::new(Arc::new(StoreOutage::default()), lost.clone());
        let counter = lost.clone();
        // A runtime of its own, for the timer: this thread blocks on disk, and no other tasks must wait for
        // that.
        let runtime = runtime::Builder::new_current_thread().enable_time().build().map_err(LedgerError::Thread)?;
        let thread = thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || run(file, inbox, &runtime, (kept, &counter)))
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

fn run(
    mut file: OpenDatabase,
    mut inbox: Inbox,
    runtime: &runtime::Runtime,
    (mut kept, lost): (KeptRecords, &AtomicU64),
) {
    while let Some(batch) = runtime.block_on(inbox.gather_within(kept.pause())) {
        match file.offer_kept(&mut kept, lost) {
            Ok(()) => drop(file.settle(batch, &mut kept, (BUSY_ATTEMPTS_MAX, lost))),
            Err(error) => file.settle_beside(batch, &mut kept, (&error, lost)),
        }
        inbox.signals().did_jobs(kept.len(), kept.bytes());
    }
    for _ in 0..LAST_OFFERS_MAX {
        if file.offer_kept(&mut kept, lost).is_ok() {
            break;
        }
        thread::sleep(LAST_OFFERS_APART);
    }
    kept.abandon();
    file.end();
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
    /// Writes the records that an earlier batch left, oldest first. The error says why some of them are still not written.
    fn offer_kept(&mut self, kept: &mut KeptRecords, lost: &AtomicU64) -> Result<(), JournalError> {
        if kept.is_empty() {
            return Ok(());
        }
        let (mut failure, count) = (None, kept.len());
        for batch in kept.take() {
            if failure.is_some() {
                kept.put_back(batch);
            } else {
                failure = self.settle(batch, kept, (1, lost));
            }
        }
        kept.wrote(count.saturating_sub(kept.len()));
        failure.map_or(Ok(()), Err)
    }

    /// What can be done with a batch while older records are not written: a disk that is full may still take a small write.
    fn settle_beside(&mut self, batch: Vec<Job>, kept: &mut KeptRecords, (error, lost): (&JournalError, &AtomicU64)) {
        if batch.is_empty() {
            return;
        }
        if self.room.reserve_reason().is_none() {
            return kept.fail(batch, &JournalError::new(error.reason()));
        }
        let (records, others): (Vec<_>, Vec<_>) = batch.into_iter().partition(Job::is_record);
        if !records.is_empty() {
            kept.fail(records, error);
        }
        drop(self.settle(others, kept, (1, lost)));
    }

    /// Does a batch. If a job of it is at fault, each job is done by itself, so that one bad job does not make
    /// others fail. Returns why the store did not take something, if that is so.
    fn settle(
        &mut self,
        mut batch: Vec<Job>,
        kept: &mut KeptRecords,
        (busy_attempts_max, lost): (u32, &AtomicU64),
    ) -> Option<JournalError> {
        if batch.is_empty() {
            return None;
        }
        for job in &mut batch {
            job.encode(&mut self.dictionary);
        }
        let error = match self.commit_patiently(&batch, busy_attempts_max) {
            Ok(outcomes) => {
                kept.worked();
                batch.into_iter().zip(outcomes).for_each(|(job, outcome)| job.answer(Ok(outcome), lost));
                return None;
            }
            Err(error) => error,
        };
        if error.is_out_of_space() {
            self.room.ran_out(&error.to_string());
        }
        if error.is_store_failure() {
            let error = error.to_journal_error();
            kept.fail(batch, &error);
            return Some(error);
        }
        let mut failure = None;
        for job in batch {
            match self.commit(std::slice::from_ref(&job)).map(|mut outcomes| outcomes.pop()) {
                Ok(Some(outcome)) => job.answer(Ok(outcome), lost),
                Ok(None) => {
                    job.answer(Err(JournalError::new("the ledger's writer returned no result")), lost);
                }
                Err(error) if error.is_store_failure() => {
                    let error = error.to_journal_error();
                    kept.fail(vec![job], &error);
                    failure = Some(error);
                }
                Err(error) => job.answer(Err(error.to_journal_error()), lost),
            }
        }
        failure
    }

    /// Does a batch, and waits if another process locks the file longer than usual. The callers have their own
    /// deadlines; here it only matters that nothing gets lost.
    fn commit_patiently(&mut self, batch: &[Job], attempts_max: u32) -> Result<Vec<JobOutcome>, LedgerError> {
        let mut attempt = 1;
        loop {
            match self.commit(batch) {
                Err(error) if error.is_busy() && attempt < attempts_max => attempt += 1,
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
