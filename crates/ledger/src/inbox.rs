//! How jobs are gathered into a batch, for every store alike.
//!
//! An awaited job is one whose caller waits until it is durable. It is written at once, together with every other job in the queue; while
//! one commit is syncing, the next batch gathers by itself. The other jobs, records of reads, gather for [`GATHER_MS_MAX`] first, so that
//! reads do not pay for syncs and wake-ups that they do not need: the writer sleeps until its timer ends, and these jobs do not wake it. A
//! killed process therefore loses at most the records of reads of the last [`GATHER_MS_MAX`] and those of the commit that was under way.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc},
    time::{Instant, timeout_at},
};

use crate::job::Job;

/// Jobs of one transaction.
pub(crate) const BATCH_MAX: usize = 512;
/// Bytes of one transaction after which it takes no more jobs.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// How long jobs gather before they are written, if none of them is awaited.
pub(crate) const GATHER_MS_MAX: u64 = 10;

/// Records that may wait for a writer, in its queue or kept, and the bytes of the quarantined answers among those that are kept. If more
/// wait, no further call is answered.
pub(crate) const RECORDS_WAITING_MAX: usize = 4_096;
const RECORDS_WAITING_BYTES_MAX: usize = 64 << 20;
/// How long a writer may have had jobs in hand without writing anything before no further call is answered. A process that is killed loses
/// the records of reads of that time.
pub(crate) const WRITES_NOTHING_MS_MAX: u64 = 5_000;

/// What the queue and the writer tell each other in addition to the jobs.
#[derive(Debug)]
pub(crate) struct WriterSignals {
    /// The batch should be written now.
    hurry: Notify,
    close: Notify,
    closed: AtomicBool,
    since: Instant,
    /// When the writer took the jobs that it has in hand, in milliseconds from `since` and counted from one; zero if it has none.
    in_hand_since_ms: AtomicU64,
    /// What the writer could not write and keeps.
    kept: AtomicUsize,
    kept_bytes: AtomicUsize,
}

impl Default for WriterSignals {
    fn default() -> Self {
        Self {
            hurry: Notify::new(),
            close: Notify::new(),
            closed: AtomicBool::new(false),
            since: Instant::now(),
            in_hand_since_ms: AtomicU64::new(0),
            kept: AtomicUsize::new(0),
            kept_bytes: AtomicUsize::new(0),
        }
    }
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(crate) struct Inbox {
    jobs: mpsc::Receiver<Job>,
    signals: Arc<WriterSignals>,
    /// [`GATHER_MS_MAX`], except in tests.
    gather_max: Duration,
}

/// Jobs that are written together.
#[derive(Debug, Default)]
struct JobBatch {
    jobs: Vec<Job>,
    bytes: usize,
    is_awaited: bool,
}

impl WriterSignals {
    pub(crate) fn hurry(&self) {
        self.hurry.notify_one();
    }

    /// Accepts no more jobs. Jobs that were handed in are still written.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.close.notify_one();
        self.hurry.notify_one();
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Why the writer cannot be trusted with further records, if `queued` jobs wait for it; none if it can.
    pub(crate) fn why_behind(&self, queued: usize) -> Option<String> {
        let waiting = queued.saturating_add(self.kept.load(Ordering::Relaxed));
        if waiting >= RECORDS_WAITING_MAX || self.kept_bytes.load(Ordering::Relaxed) >= RECORDS_WAITING_BYTES_MAX {
            return Some(format!("{waiting} records wait for the ledger's store"));
        }
        let in_hand_since_ms = self.in_hand_since_ms.load(Ordering::Relaxed);
        // The common case reads no clock.
        if in_hand_since_ms == 0 {
            return None;
        }
        let waited_ms = self.now_ms().saturating_sub(in_hand_since_ms);
        (waited_ms >= WRITES_NOTHING_MS_MAX)
            .then(|| format!("the ledger's store has written nothing for {waited_ms} ms"))
    }

    fn took_jobs(&self) {
        if self.in_hand_since_ms.load(Ordering::Relaxed) == 0 {
            self.in_hand_since_ms.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// The writer has done what it could, and keeps so many records with so many bytes.
    pub(crate) fn did_jobs(&self, kept: usize, kept_bytes: usize) {
        self.kept.store(kept, Ordering::Relaxed);
        self.kept_bytes.store(kept_bytes, Ordering::Relaxed);
        if kept == 0 {
            self.in_hand_since_ms.store(0, Ordering::Relaxed);
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }
}

impl Inbox {
    pub(crate) fn new(jobs: mpsc::Receiver<Job>, signals: Arc<WriterSignals>) -> Self {
        Self { jobs, signals, gather_max: Duration::from_millis(GATHER_MS_MAX) }
    }

    /// What the queue is told about this writer.
    pub(crate) fn signals(&self) -> &WriterSignals {
        &self.signals
    }

    /// The next batch; none if the queue is closed and all jobs were handed out. With a pause, this waits for jobs no longer than that, and
    /// the batch may be empty.
    pub(crate) async fn gather_within(&mut self, pause: Option<Duration>) -> Option<Vec<Job>> {
        let first = match pause {
            None => self.first().await?,
            // Nothing is lost here: only the first job is waited for, and it stays in the queue until it is taken.
            Some(pause) => match timeout_at(Instant::now() + pause, self.first()).await {
                Ok(first) => first?,
                Err(_) => return Some(Vec::new()),
            },
        };
        self.gather_after(first).await
    }

    /// The next batch; none if the queue is closed and all jobs were handed out.
    #[cfg(test)]
    async fn gather(&mut self) -> Option<Vec<Job>> {
        let first = self.first().await?;
        self.gather_after(first).await
    }

    async fn gather_after(&mut self, first: Job) -> Option<Vec<Job>> {
        let mut batch = JobBatch::default();
        batch.push(first);
        self.signals.took_jobs();
        let until = Instant::now() + self.gather_max;
        loop {
            let mut hurry = pin!(self.signals.hurry.notified());
            // This uses up an earlier signal. The job that it announced is among those taken next.
            let was_told = hurry.as_mut().enable();
            batch.take(&mut self.jobs);
            if batch.is_due() || self.signals.is_closed() {
                break;
            }
            if !was_told && timeout_at(until, hurry).await.is_err() {
                batch.take(&mut self.jobs);
                break;
            }
        }
        Some(batch.jobs)
    }

    async fn first(&mut self) -> Option<Job> {
        tokio::select! {
            biased;
            () = self.signals.close.notified() => self.jobs.close(),
            job = self.jobs.recv() => return job,
        }
        self.jobs.recv().await
    }
}

impl JobBatch {
    fn push(&mut self, job: Job) {
        self.is_awaited |= job.is_awaited();
        self.bytes = self.bytes.saturating_add(job.bytes());
        self.jobs.push(job);
    }

    /// Takes the queued jobs, up to a full batch.
    fn take(&mut self, jobs: &mut mpsc::Receiver<Job>) {
        while !self.is_full()
            && let Ok(next) = jobs.try_recv()
        {
            self.push(next);
        }
    }

    fn is_full(&self) -> bool {
        self.jobs.len() >= BATCH_MAX || self.bytes >= BATCH_BYTES_MAX
    }

    /// Whether the batch is written without waiting for more jobs.
    fn is_due(&self) -> bool {
        self.is_awaited || self.is_full()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        pin::{Pin, pin},
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        task::{Context, Poll, Wake, Waker},
        time::Duration,
    };

    use servanda_contract::record::Outcome;

    use super::{BATCH_MAX, Inbox, RECORDS_WAITING_MAX, WRITES_NOTHING_MS_MAX, WriterSignals};
    use crate::{
        job::{CallRecordWrite, Job, LedgerWrite},
        queue::Queue,
        tests::samples::record,
    };

    /// Longer than any test runs, so that the timer never ends a batch.
    const LONG: Duration = Duration::from_hours(1);

    /// Counts how often a sleeping writer is woken.
    #[derive(Debug, Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    impl Woken {
        fn count(&self) -> usize {
            self.0.load(Ordering::SeqCst)
        }
    }

    fn queue(gather_max: Duration) -> (Queue, Inbox) {
        let (queue, inbox) = Queue::new();
        (queue, Inbox { gather_max, ..inbox })
    }

    fn write(number: usize) -> LedgerWrite {
        LedgerWrite::Call(CallRecordWrite::new(record(&format!("call_{number}"), Outcome::Completed, 1), None))
    }

    async fn read(queue: &Queue, number: usize) {
        queue.put(write(number), false).await.unwrap();
    }

    /// Polls a writer for as long as it has something to do. Returns the number of jobs in its batch, if it has
    /// one.
    fn poll(gathering: Pin<&mut impl Future<Output = Option<Vec<Job>>>>, woken: &Arc<Woken>) -> Poll<usize> {
        let waker = Waker::from(Arc::clone(woken));
        gathering.poll(&mut Context::from_waker(&waker)).map(|batch| batch.unwrap().len())
    }

    #[tokio::test]
    async fn records_that_are_not_awaited_do_not_wake_a_writer_that_gathers() {
        let (queue, mut inbox) = queue(LONG);
        let woken = Arc::new(Woken::default());
        let mut gathering = pin!(inbox.gather());
        assert_eq!(poll(gathering.as_mut(), &woken), Poll::Pending);
        read(&queue, 0).await;
        assert_eq!(woken.count(), 1, "a writer with nothing to do is woken");
        assert_eq!(poll(gathering.as_mut(), &woken), Poll::Pending, "it gathers");
        for number in 1..100 {
            read(&queue, number).await;
        }
        assert_eq!(woken.count(), 1, "and is woken by none of them");
        let mut awaited = pin!(queue.put(write(100), true));
        assert!(awaited.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(woken.count(), 2, "an awaited job wakes it");
        assert_eq!(poll(gathering.as_mut(), &woken), Poll::Ready(101), "and takes the others along");
    }

    #[tokio::test]
    async fn a_writer_that_writes_nothing_or_is_too_far_behind_is_told() {
        let (queue, _inbox) = queue(LONG);
        for number in 0..RECORDS_WAITING_MAX {
            assert_eq!(queue.why_behind(), None, "after {number}");
            read(&queue, number).await;
        }
        assert!(queue.why_behind().unwrap().contains("4096 records"), "{:?}", queue.why_behind());

        let began = tokio::time::Instant::now().checked_sub(Duration::from_millis(2 * WRITES_NOTHING_MS_MAX)).unwrap();
        let signals = WriterSignals { since: began, ..WriterSignals::default() };
        assert_eq!(signals.why_behind(0), None, "it has nothing in hand");
        signals.took_jobs();
        assert_eq!(signals.why_behind(0), None, "it has just begun");
        signals.in_hand_since_ms.store(1, Ordering::SeqCst);
        signals.took_jobs();
        assert!(signals.why_behind(0).unwrap().contains("written nothing"), "the first job counts");
        signals.did_jobs(1, 0);
        assert!(signals.why_behind(0).is_some(), "it keeps a record");
        signals.did_jobs(0, 0);
        assert_eq!(signals.why_behind(0), None);
    }

    #[tokio::test]
    async fn a_full_batch_is_written_before_its_time() {
        let (queue, mut inbox) = queue(LONG);
        let woken = Arc::new(Woken::default());
        read(&queue, 0).await;
        {
            let mut gathering = pin!(inbox.gather());
            assert_eq!(poll(gathering.as_mut(), &woken), Poll::Pending);
            for number in 0..BATCH_MAX {
                read(&queue, number).await;
            }
            assert_eq!(woken.count(), 1);
            assert_eq!(poll(gathering.as_mut(), &woken), Poll::Ready(BATCH_MAX));
        }
        let mut rest = pin!(inbox.gather());
        assert_eq!(poll(rest.as_mut(), &woken), Poll::Pending, "the signal of the full batch is used up");
    }

    #[tokio::test]
    async fn the_timer_ends_a_batch_that_is_not_awaited() {
        let (queue, mut inbox) = queue(Duration::from_millis(1));
        for number in 0..3 {
            read(&queue, number).await;
        }
        assert_eq!(inbox.gather().await.map(|batch| batch.len()), Some(3));
    }

    #[tokio::test]
    async fn an_awaited_job_waits_for_no_timer_and_neither_does_closing() {
        let (queue, mut inbox) = queue(LONG);
        let batches = tokio::spawn(async move {
            let mut batches = Vec::new();
            while let Some(batch) = inbox.gather().await {
                batches.push(batch.len());
            }
            batches
        });
        for number in 0..3 {
            // The writer of this test drops its jobs, and the caller gets an error for that.
            queue.put(write(number), true).await.unwrap_err();
        }
        read(&queue, 3).await;
        queue.close();
        assert!(queue.put(write(4), false).await.is_err(), "nothing more is taken");
        assert_eq!(batches.await.unwrap(), [1, 1, 1, 1], "what was handed in is written");
    }
}
