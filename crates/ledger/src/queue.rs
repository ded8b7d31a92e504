//! Carries jobs to a writer, for every store alike. `job` says what a job is, `inbox` how jobs are gathered
//! into a batch.

use std::sync::Arc;

use servanda_approval::TicketEvent;
use servanda_contract::Timestamp;
use servanda_effects::{
    JournalError, LogHead, LoggedChange, Note,
    budget::{AccountEntry, EntryReply, SweepReport},
    effect::{AppliedChange, EffectChange},
    ticket_store::{AppliedTicket, TicketTarget},
};
use tokio::sync::{mpsc, oneshot};

use crate::{
    inbox::{BATCH_MAX, Inbox, WriterSignals},
    job::{CallRecordWrite, Job, LedgerWrite, NoteChange},
    retention::{PruneReport, PruneRound},
};

/// Jobs waiting to be written. When the queue is full, callers wait. It is larger than the number of records that may wait, so that there is
/// room for those of the calls under way when the ledger begins to refuse calls.
const QUEUE_MAX: usize = 8_192;

/// The senders' end of the queue.
#[derive(Debug)]
pub(crate) struct Queue {
    sender: mpsc::Sender<Job>,
    signals: Arc<WriterSignals>,
}

impl Queue {
    pub(crate) fn new() -> (Self, Inbox) {
        let (sender, jobs) = mpsc::channel(QUEUE_MAX);
        let signals = Arc::new(WriterSignals::default());
        (Self { sender, signals: Arc::clone(&signals) }, Inbox::new(jobs, signals))
    }

    /// Hands in a write, and waits until it is durable if `durable` is set. Cancel-safe: a write that was
    /// handed in is written.
    pub(crate) async fn put(&self, write: LedgerWrite, durable: bool) -> Result<(), JournalError> {
        if !durable {
            return self.hand_in(Job::Put { write, done: None }).await;
        }
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::Put { write, done: Some(done) }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Applies a change. Cancel-safe: a change that was handed in is applied.
    pub(crate) async fn apply(&self, change: EffectChange) -> Result<AppliedChange, JournalError> {
        let (done, wait) = oneshot::channel();
        let EffectChange { target, event, record, quarantine, notices, consumes } = change;
        let recorded = record.map(|record| CallRecordWrite::new(record, quarantine));
        let consumes = consumes.map(Box::new);
        self.hand_in(Job::Apply { target, event, recorded, notices, consumes, done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Applies an event to a ticket. Cancel-safe: an event that was handed in is applied.
    pub(crate) async fn apply_ticket(
        &self,
        target: TicketTarget,
        event: TicketEvent,
    ) -> Result<AppliedTicket, JournalError> {
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::Ticket { target, event: Box::new(event), done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Writes a note if the one that is there is the one that was found. After an error it is not known whether it was written.
    pub(crate) async fn write_if(
        &self,
        note: Note,
        found: Option<String>,
        now: Timestamp,
        changes: Vec<LoggedChange>,
    ) -> Result<bool, JournalError> {
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::NoteIf { change: Box::new(NoteChange { note, found, now, changes }), done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Turns expired effects into tombstones.
    pub(crate) async fn expire(&self, limit: u32) -> Result<u64, JournalError> {
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::Expire { limit, done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Makes an entry. Cancel-safe: an entry that was handed in is made.
    pub(crate) async fn apply_entry(&self, entry: AccountEntry) -> Result<EntryReply, JournalError> {
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::Book { entry, done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Closes abandoned reservations.
    pub(crate) async fn sweep(&self, limit: u32) -> Result<SweepReport, JournalError> {
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::Sweep { limit, done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Takes leaves into the tree of the verifiable log.
    pub(crate) async fn extend_log(&self) -> Result<LogHead, JournalError> {
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::ExtendLog { done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Removes some rows whose retention is over.
    pub(crate) async fn prune(&self, round: PruneRound) -> Result<PruneReport, JournalError> {
        let (done, wait) = oneshot::channel();
        self.hand_in(Job::Prune { round, done }).await?;
        wait.await.map_err(|_| closed())?
    }

    /// Why no further record should be handed in; none if records are written.
    pub(crate) fn why_behind(&self) -> Option<String> {
        self.signals.why_behind(self.waiting())
    }

    /// Accepts no more jobs. Jobs that were handed in are still written.
    pub(crate) fn close(&self) {
        self.signals.close();
    }

    /// A job that is not awaited wakes the writer only if the writer is idle or a batch is full. Otherwise the writer's timer is already
    /// running, and a wake-up for every read would cost more than writing its record.
    async fn hand_in(&self, job: Job) -> Result<(), JournalError> {
        if self.signals.is_closed() {
            return Err(closed());
        }
        let is_awaited = job.is_awaited();
        self.sender.send(job).await.map_err(|_| closed())?;
        if is_awaited || self.waiting() >= BATCH_MAX {
            self.signals.hurry();
        }
        Ok(())
    }

    fn waiting(&self) -> usize {
        self.sender.max_capacity().saturating_sub(self.sender.capacity())
    }
}

fn closed() -> JournalError {
    JournalError::new("the ledger is closed")
}
