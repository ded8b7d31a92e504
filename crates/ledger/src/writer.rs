//! The one writer: a thread that takes whatever has queued up, writes it in one transaction, and wakes those who wait.
//!
//! Where somebody waits there is no timer: while one commit is syncing, the next batch gathers by itself. Where nobody
//! does, a batch gathers for a few milliseconds, so that reads do not spend their time on syncs they do not need.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use rusqlite::{Connection, Transaction, TransactionBehavior, params};
use servanda_contract::{CallRecord, TaxonomyClass, Timestamp};
use servanda_gates::{JournalError, Note, NoteKind};
use tokio::{
    runtime,
    sync::{mpsc, oneshot},
    time::{Instant, timeout_at},
};

use crate::LedgerError;

/// Records waiting to be written; more than this and callers wait.
const QUEUE_MAX: usize = 8_192;
/// Records of one transaction.
const BATCH_MAX: usize = 512;
/// How long records that nobody waits for gather before they are written.
const GATHER_MS_MAX: u64 = 5;
/// How often a file that another process holds is waited for, ten seconds each.
const BUSY_ATTEMPTS_MAX: u32 = 3;
/// Bytes of a quarantined answer that are kept.
const QUARANTINE_BYTES_MAX: usize = 1 << 20;

/// One thing to put down.
#[derive(Debug)]
pub(crate) enum Write {
    /// The record of a call, and its answer if that was kept back.
    Call { record: Box<CallRecord>, quarantine: Option<Bytes> },
    /// A note, in place of one of the same kind and key.
    Note(Note),
    /// A note, unless there is one.
    FirstNote(Note),
    /// A note is not wanted any more.
    Erasure { kind: NoteKind, key: String },
    /// Notes that may be forgotten by now are.
    Forgetting { now: Timestamp },
}

#[derive(Debug)]
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Job {
    write: Write,
    /// Told once the write is durable, where somebody waits.
    done: Option<oneshot::Sender<Result<(), JournalError>>>,
}

impl Writer {
    pub(crate) fn start(connection: Connection, path: &Path) -> Result<Self, LedgerError> {
        let store = Store { connection, path: path.to_owned(), file: file_id(path) };
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let counter = lost.clone();
        // A runtime of its own, for the timer: the thread blocks on disk, and nobody else's tasks must wait for that.
        let runtime = runtime::Builder::new_current_thread().enable_time().build().map_err(LedgerError::Thread)?;
        let thread = thread::Builder::new()
            .name("ledger-writer".to_owned())
            .spawn(move || run(store, jobs, &runtime, &counter))
            .map_err(LedgerError::Thread)?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), lost })
    }

    pub(crate) fn lost_count(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Hands a write in; waits for durability if asked. Cancel-safe: what was handed in is written all the same.
    pub(crate) async fn write(&self, write: Write, durable: bool) -> Result<(), JournalError> {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let queue = queue.ok_or_else(closed)?;
        let (done, wait) = oneshot::channel();
        let job = Job { write, done: durable.then_some(done) };
        queue.send(job).await.map_err(|_| closed())?;
        if durable { wait.await.map_err(|_| closed())? } else { Ok(()) }
    }

    pub(crate) async fn close(&self) {
        drop(self.queue.lock().unwrap_or_else(PoisonError::into_inner).take());
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the ledger's writer did not end cleanly");
            }
        }
    }
}

fn closed() -> JournalError {
    JournalError("the ledger is closed".to_owned())
}

fn run(mut store: Store, mut jobs: mpsc::Receiver<Job>, runtime: &runtime::Runtime, lost: &AtomicU64) {
    while let Some(batch) = runtime.block_on(gather(&mut jobs)) {
        settle(&mut store, batch, lost);
    }
    // Leaves one file behind instead of three.
    if let Err(error) = store.connection.pragma_update(None, "wal_checkpoint", "truncate") {
        tracing::debug!(%error, "the ledger was not checkpointed");
    }
}

/// The next batch: everything there is as soon as somebody waits for one of them, else what comes in a few milliseconds.
async fn gather(jobs: &mut mpsc::Receiver<Job>) -> Option<Vec<Job>> {
    let first = jobs.recv().await?;
    let mut awaited = first.done.is_some();
    let mut batch = vec![first];
    let until = Instant::now() + Duration::from_millis(GATHER_MS_MAX);
    while batch.len() < BATCH_MAX {
        let next = match jobs.try_recv() {
            Ok(next) => next,
            Err(_) if awaited => break,
            Err(_) => match timeout_at(until, jobs.recv()).await {
                Ok(Some(next)) => next,
                Ok(None) | Err(_) => break,
            },
        };
        awaited |= next.done.is_some();
        batch.push(next);
    }
    Some(batch)
}

/// Writes a batch; if a record of it is at fault, each by itself, so that one bad record cannot take others with it.
fn settle(store: &mut Store, batch: Vec<Job>, lost: &AtomicU64) {
    let error = match store.commit_patiently(&batch) {
        Ok(()) => return batch.into_iter().for_each(|job| answer(job, Ok(()), lost)),
        Err(error) => error,
    };
    let shared = error.is_of_the_store();
    for job in batch {
        let outcome = if shared {
            Err(JournalError(error.to_string()))
        } else {
            store.commit(std::iter::once(&job.write)).map_err(|error| JournalError(error.to_string()))
        };
        answer(job, outcome, lost);
    }
}

/// The database, and the file it is supposed to be in.
struct Store {
    connection: Connection,
    path: PathBuf,
    file: Option<FileId>,
}

/// What tells one file from another of the same name.
type FileId = (u64, u64);

impl Store {
    /// Writes a batch, waiting for another process that holds the file longer than usual. The callers have their own
    /// deadlines; here only nothing must get lost.
    fn commit_patiently(&mut self, batch: &[Job]) -> Result<(), LedgerError> {
        let mut attempt = 1;
        loop {
            match self.commit(batch.iter().map(|job| &job.write)) {
                Err(error) if error.is_busy() && attempt < BUSY_ATTEMPTS_MAX => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// A file that was deleted or replaced keeps taking writes that nobody will ever read: that is not keeping a record.
    fn check_file(&self) -> Result<(), LedgerError> {
        if file_id(&self.path) == self.file { Ok(()) } else { Err(LedgerError::Gone { path: self.path.clone() }) }
    }
}

fn file_id(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

fn answer(job: Job, outcome: Result<(), JournalError>, lost: &AtomicU64) {
    if let Err(error) = &outcome {
        lost.fetch_add(1, Ordering::Relaxed);
        tracing::error!(what = %job.write, %error, "a record could not be kept");
    }
    if let Some(done) = job.done {
        // The caller may have gone; the record is kept all the same.
        let _ = done.send(outcome);
    }
}

impl Store {
    fn commit<'a>(&mut self, writes: impl Iterator<Item = &'a Write>) -> Result<(), LedgerError> {
        self.check_file()?;
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for write in writes {
            write.put(&transaction)?;
        }
        transaction.commit()?;
        Ok(())
    }
}

impl Write {
    fn put(&self, transaction: &Transaction<'_>) -> Result<(), LedgerError> {
        let (statement, note) = match self {
            Self::Call { record, quarantine } => return put_call(transaction, record, quarantine.as_ref()),
            Self::Erasure { kind, key } => {
                let mut erase = transaction.prepare_cached(include_str!("../sql/erase_note.sql"))?;
                erase.execute(params![kind.as_str(), key])?;
                return Ok(());
            }
            Self::Forgetting { now } => {
                let mut forget = transaction.prepare_cached(include_str!("../sql/forget_notes.sql"))?;
                forget.execute(params![signed(now.unix_ms())])?;
                return Ok(());
            }
            Self::Note(note) => (include_str!("../sql/put_note.sql"), note),
            Self::FirstNote(note) => (include_str!("../sql/put_first_note.sql"), note),
        };
        let expires_ms = note.expires_at.map(|at| signed(at.unix_ms()));
        transaction.prepare_cached(statement)?.execute(params![
            note.kind.as_str(),
            note.key,
            note.value,
            expires_ms
        ])?;
        Ok(())
    }
}

/// For the log: which one it is, never what it says.
impl fmt::Display for Write {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { record, .. } => write!(formatter, "{}", record.call_id),
            Self::Note(note) | Self::FirstNote(note) => write!(formatter, "a {} note", note.kind.as_str()),
            Self::Erasure { kind, .. } => write!(formatter, "the end of a {} note", kind.as_str()),
            Self::Forgetting { .. } => formatter.write_str("the end of old notes"),
        }
    }
}

fn put_call(transaction: &Transaction<'_>, record: &CallRecord, quarantine: Option<&Bytes>) -> Result<(), LedgerError> {
    let call_id = record.call_id.as_str();
    let text = serde_json::to_string(record)
        .map_err(|error| LedgerError::Record { call_id: call_id.to_owned(), reason: error.to_string() })?;
    transaction.prepare_cached(include_str!("../sql/put_call.sql"))?.execute(params![
        call_id,
        record.caller.tenant,
        record.caller.principal,
        record.tool,
        record.outcome.name(),
        record.class.map(TaxonomyClass::name),
        signed(record.received_at.unix_ms()),
        record.finished_at.map(|at| signed(at.unix_ms())),
        text,
    ])?;
    if let Some(body) = quarantine {
        let kept = body.get(..QUARANTINE_BYTES_MAX).unwrap_or(body);
        let mut put_quarantine = transaction.prepare_cached(include_str!("../sql/put_quarantine.sql"))?;
        put_quarantine.execute(params![call_id, signed(body.len() as u64), kept])?;
    }
    Ok(())
}

/// SQLite's integers are signed; times and sizes fit for longer than anyone will ask.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
