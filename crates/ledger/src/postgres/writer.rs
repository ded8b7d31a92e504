//! One of the writers: takes what has queued up, does it in one transaction on its own connection, and then
//! wakes the waiting callers. It reconnects after a lost connection. A caller whose event was under way is told
//! that the outcome is unknown.

use std::{
    collections::BTreeSet,
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use servanda_effects::JournalError;
use tokio::time::timeout;

use super::{
    audit_log, budgets, dictionary, expire,
    identity::PostgresLedgerIdentity,
    notes, prune,
    recent_effects::PostgresRecentEffects,
    rows::clock_reading,
    session::{ANSWER_MS_MAX, Connector, PostgresSession},
    statements::PreparedStatements,
    tickets,
    transact::{TransactionContext, transact_optimistically, transact_with_locks},
};
use crate::{
    LedgerError,
    capacity::StorageCapacity,
    encoding::dictionary::Dictionary,
    inbox::Inbox,
    job::{Job, JobOutcome},
    kept_records::KeptRecords,
    log_switch::LogSwitch,
    retention::UpkeepProgress,
    store_outage::StoreOutage,
    time::{ClockReading, StoreTime},
};

/// How often a job is retried if another writer was faster or its transaction was rolled back.
const ATTEMPTS_MAX: u32 = 8;
/// The first and the longest pause before the next attempt to connect.
const BACKOFF_MS: (u64, u64) = (50, 1_000);

/// How often the last records are offered to a database that does not take them when the ledger is closed.
const LAST_OFFERS_MAX: u32 = 8;

/// How long a reading of the database's clock is used before it is read again.
const CLOCK_AGE_MAX: Duration = Duration::from_secs(1);

/// A writer with its connection.
#[derive(Debug)]
pub(super) struct PostgresWriter {
    connector: Connector,
    ready: Option<PostgresReadyConnection>,
    backoff_ms: u64,
    shared: SharedWriterState,
    progress: UpkeepProgress,
    kept: KeptRecords,
}

/// What all writers of a ledger share.
#[derive(Debug, Clone)]
pub(super) struct SharedWriterState {
    pub(super) time: StoreTime,
    pub(super) recent: PostgresRecentEffects,
    pub(super) known: Arc<PostgresLedgerIdentity>,
    pub(super) lost: Arc<AtomicU64>,
    pub(super) room: Arc<StorageCapacity>,
    pub(super) log: LogSwitch,
    pub(super) outage: Arc<StoreOutage>,
}

#[derive(Debug)]
struct PostgresReadyConnection {
    session: PostgresSession,
    statements: PreparedStatements,
    dictionary: Dictionary,
    /// The last reading of the database's clock, and when it was taken.
    clock: Option<(ClockReading, Instant)>,
}

impl PostgresWriter {
    pub(super) async fn new(connector: Connector, shared: SharedWriterState) -> Result<Self, LedgerError> {
        let ready = Some(PostgresReadyConnection::connect(&connector).await?);
        let kept = KeptRecords::new(Arc::clone(&shared.outage), Arc::clone(&shared.lost));
        Ok(Self { connector, ready, backoff_ms: 0, shared, progress: UpkeepProgress::default(), kept })
    }

    /// Works until the queue is closed and empty.
    pub(super) async fn run(mut self, mut inbox: Inbox) {
        while let Some(batch) = inbox.gather_within(self.kept.pause()).await {
            let mut away = Box::pin(self.offer_kept()).await;
            for part in split(batch) {
                match &away {
                    Some(error) => self.kept.fail(part, &JournalError::new(error.reason())),
                    None => away = self.settle(part, false).await,
                }
            }
            inbox.signals().did_jobs(self.kept.len(), self.kept.bytes());
        }
        for _ in 0..LAST_OFFERS_MAX {
            if Box::pin(self.offer_kept()).await.is_none() {
                break;
            }
        }
        self.kept.abandon();
    }

    /// Writes the records that an earlier batch left, oldest first. Returns why some of them are still not written, if that is so.
    async fn offer_kept(&mut self) -> Option<JournalError> {
        if self.kept.is_empty() {
            return None;
        }
        let (mut failure, count) = (None, self.kept.len());
        for part in self.kept.take().into_iter().flat_map(split) {
            if failure.is_some() {
                self.kept.put_back(part);
            } else {
                failure = self.settle(part, true).await;
            }
        }
        self.kept.wrote(count.saturating_sub(self.kept.len()));
        failure
    }

    /// Does a batch, with a limited number of attempts, and answers every job of it. What failed before is `offered_again`, which waits for
    /// no second connection. Returns why the store did not take something, if that is so.
    async fn settle(&mut self, mut jobs: Vec<Job>, offered_again: bool) -> Option<JournalError> {
        for attempt in 0..ATTEMPTS_MAX {
            if jobs.is_empty() {
                return None;
            }
            jobs = match self.attempt(&mut jobs, attempt == 0 && !offered_again).await {
                Ok(outcomes) => self.answer(jobs, outcomes),
                Err(error) if error.is_contention() => jobs,
                // A row that was expected to be new exists already.
                Err(error) if attempt == 0 && error.is_duplicate() => jobs,
                Err(error) if error.is_connection_failure() => {
                    self.ready = None;
                    if offered_again {
                        return Some(self.fail(jobs, error.to_journal_error()));
                    }
                    self.give_up(jobs, &error)
                }
                Err(error) if error.is_store_failure() => return Some(self.fail(jobs, error.to_journal_error())),
                Err(error) if jobs.len() == 1 => {
                    self.refuse(jobs, &error.to_journal_error());
                    return None;
                }
                Err(_) => return Box::pin(self.settle_each(jobs, offered_again)).await,
            };
        }
        if jobs.is_empty() {
            return None;
        }
        let reason = format!("the ledger's database could not do it in {ATTEMPTS_MAX} attempts");
        Some(self.fail(jobs, JournalError::new(reason)))
    }

    /// Does each job by itself, so that one bad job does not make others fail.
    async fn settle_each(&mut self, jobs: Vec<Job>, offered_again: bool) -> Option<JournalError> {
        let mut failure = None;
        for job in jobs {
            failure = self.settle(vec![job], offered_again).await.or(failure);
        }
        failure
    }

    fn fail(&mut self, jobs: Vec<Job>, error: JournalError) -> JournalError {
        self.kept.fail(jobs, &error);
        error
    }

    /// One transaction. If `hopeful`, nothing is read first.
    async fn attempt(&mut self, jobs: &mut [Job], hopeful: bool) -> Result<Vec<Option<JobOutcome>>, LedgerError> {
        let shared = self.shared.clone();
        // Taken out for now: after a failure the walk starts again from the beginning.
        let mut progress = std::mem::take(&mut self.progress);
        let ready = self.ready().await?;
        let transacted = ready.transact(&shared, &mut progress, jobs, hopeful);
        let limit = Duration::from_millis(ANSWER_MS_MAX);
        let done = timeout(limit, transacted).await.unwrap_or(Err(LedgerError::Silent(ANSWER_MS_MAX)));
        match &done {
            Ok(_) => self.progress = progress,
            Err(error) if error.is_out_of_space() => shared.room.ran_out(&error.to_string()),
            Err(_) => {}
        }
        done
    }

    /// Answers the jobs that were done, and returns the others.
    fn answer(&self, jobs: Vec<Job>, outcomes: Vec<Option<JobOutcome>>) -> Vec<Job> {
        self.kept.worked();
        let mut rest = Vec::new();
        for (job, outcome) in jobs.into_iter().zip(outcomes) {
            match outcome {
                Some(outcome) => job.answer(Ok(outcome), &self.shared.lost),
                None => rest.push(job),
            }
        }
        rest
    }

    /// After a lost connection: returns the jobs that can be repeated without harm, and tells the callers of
    /// the others that the outcome is unknown.
    fn give_up(&mut self, jobs: Vec<Job>, error: &LedgerError) -> Vec<Job> {
        let (again, unknown): (Vec<Job>, Vec<Job>) = jobs.into_iter().partition(|job| {
            !matches!(job, Job::Apply { .. } | Job::Ticket { .. } | Job::NoteIf { .. } | Job::Expire { .. })
        });
        if !unknown.is_empty() {
            self.kept.fail(unknown, &error.to_journal_error());
        }
        again
    }

    fn refuse(&self, jobs: Vec<Job>, error: &JournalError) {
        for job in jobs {
            job.answer(Err(error.clone()), &self.shared.lost);
        }
    }

    /// A connection that works, as far as this process can tell.
    async fn ready(&mut self) -> Result<&mut PostgresReadyConnection, LedgerError> {
        if self.ready.as_ref().is_some_and(|ready| ready.session.client.is_closed()) {
            self.ready = None;
        }
        if self.ready.is_none() {
            tokio::time::sleep(Duration::from_millis(self.backoff_ms)).await;
            let (least, most) = BACKOFF_MS;
            self.backoff_ms = self.backoff_ms.saturating_mul(2).clamp(least, most);
            self.ready = Some(PostgresReadyConnection::connect(&self.connector).await?);
            self.backoff_ms = 0;
        }
        self.ready.as_mut().ok_or(LedgerError::Silent(0))
    }
}

impl PostgresReadyConnection {
    async fn connect(connector: &Connector) -> Result<Self, LedgerError> {
        let session = connector.connect().await?;
        let statements = PreparedStatements::prepare(&session.client).await?;
        let dictionary = dictionary::load(&session.client).await?;
        Ok(Self { session, statements, dictionary, clock: None })
    }

    async fn transact(
        &mut self,
        shared: &SharedWriterState,
        progress: &mut UpkeepProgress,
        jobs: &mut [Job],
        hopeful: bool,
    ) -> Result<Vec<Option<JobOutcome>>, LedgerError> {
        let SharedWriterState { time, recent, known, log, .. } = shared;
        // Encoded again with every attempt: the last attempt may have been on another connection, and its
        // dictionary entries may be lost.
        for job in &mut *jobs {
            job.encode(&mut self.dictionary);
        }
        dictionary::put(&self.session.client, &mut self.dictionary).await?;
        let jobs = &*jobs;
        if let [Job::Expire { limit, .. }] = jobs {
            log.note_news();
            let told = (&self.statements, log.writer());
            let expired = expire::expire(&self.session.client, told, time, *limit).await?;
            return Ok(vec![Some(JobOutcome::Expired(expired))]);
        }
        if let [Job::Sweep { limit, .. }] = jobs {
            log.note_news();
            let told = (&self.statements, log.writer());
            let swept = budgets::sweep(&self.session.client, told, time, progress, *limit).await?;
            return Ok(vec![Some(JobOutcome::Swept(swept))]);
        }
        if let [Job::Prune { round, .. }] = jobs {
            let pruned = prune::prune(&self.session.client, &self.statements, time, progress, *round).await?;
            return Ok(vec![Some(JobOutcome::Pruned(pruned))]);
        }
        if let [Job::NoteIf { change, .. }] = jobs {
            log.note_news();
            let written = notes::put_if(&self.session.client, change, log.writer()).await?;
            return Ok(vec![Some(JobOutcome::NoteIf(written))]);
        }
        if let [Job::ExtendLog { .. }] = jobs {
            return Ok(vec![Some(JobOutcome::Log(audit_log::extend_tree(&self.session.client).await?))]);
        }
        if matches!(jobs.first(), Some(Job::Ticket { .. })) {
            log.note_news();
            let events = (jobs, log.writer());
            let applied = tickets::apply_events(&self.session.client, &self.statements, time, events).await?;
            return Ok(applied.into_iter().map(|applied| applied.map(JobOutcome::Ticket)).collect());
        }
        if matches!(jobs.first(), Some(Job::Book { .. })) {
            log.note_news();
            let entries = (jobs, log.writer());
            let booked = budgets::apply_entries(&self.session.client, &self.statements, time, entries).await?;
            return Ok(booked.into_iter().map(|booked| booked.map(JobOutcome::Booked)).collect());
        }
        let now = if hopeful { Some(time.now(self.reading().await?)) } else { None };
        log.note_news();
        let (client, statements, log) = (&self.session.client, &self.statements, log.writer());
        let tools = TransactionContext { client, statements, time, recent, known, log };
        match now {
            Some(now) => transact_optimistically(tools, now, jobs).await,
            None => transact_with_locks(tools, jobs).await,
        }
    }

    /// The database's clock now, computed from its last reading.
    async fn reading(&mut self) -> Result<ClockReading, LedgerError> {
        let (said, at) = match self.clock {
            Some(clock) if clock.1.elapsed() < CLOCK_AGE_MAX => clock,
            _ => {
                let said = self.session.client.query_one(&self.statements.clock, &[]).await?;
                *self.clock.insert((clock_reading(&said)?, Instant::now()))
            }
        };
        let passed_ms = i64::try_from(at.elapsed().as_millis()).unwrap_or_default();
        Ok(ClockReading { clock_ms: said.clock_ms.saturating_add(passed_ms), ..said })
    }
}

/// Splits a batch so that no statement has two records of the same call, budget entries and events of tickets are in parts of their
/// own, and each expiry, sweep, pruning or note on a condition is alone.
fn split(batch: Vec<Job>) -> Vec<Vec<Job>> {
    let mut parts: Vec<Vec<Job>> = Vec::new();
    let mut seen = BTreeSet::new();
    for job in batch {
        let repeated = job.recorded().is_some_and(|recorded| !seen.insert(recorded.record.call_id.clone()));
        let goes_with = |last: &Job| match (last, &job) {
            (Job::Put { .. } | Job::Apply { .. }, Job::Put { .. } | Job::Apply { .. }) => true,
            (last, job) => {
                matches!((last, job), (Job::Book { .. }, Job::Book { .. }) | (Job::Ticket { .. }, Job::Ticket { .. }))
            }
        };
        match parts.last_mut() {
            Some(part) if !repeated && part.last().is_some_and(goes_with) => part.push(job),
            _ => {
                seen.clear();
                seen.extend(job.recorded().map(|recorded| recorded.record.call_id.clone()));
                parts.push(vec![job]);
            }
        }
    }
    parts
}
