//! Records of answered calls that a store did not take. A writer keeps them in their order and writes them first when the store is back, so
//! that nothing that was answered is missing afterwards. They are in memory: what waits is lost if the process is killed, so a ledger soon
//! refuses calls (`queue`), and these are few.
//!
//! Every other job fails at once: its caller waits, and decides. Deliberately not here: when a store is asked again, which its writer knows.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use servanda_effects::JournalError;

use crate::{
    inbox::{BATCH_MAX, RECORDS_WAITING_MAX},
    job::Job,
    store_outage::StoreOutage,
};

/// The most records that a writer keeps: those that waited when the ledger began to refuse calls, and those of the calls under way.
const RECORDS_KEPT_MAX: usize = 4 * RECORDS_WAITING_MAX;
/// How long a writer waits for other jobs before it offers its records to the store again.
const OFFERED_EVERY: Duration = Duration::from_millis(100);

/// The records that wait for a store, oldest first.
#[derive(Debug)]
pub(crate) struct KeptRecords {
    jobs: Vec<Job>,
    bytes: usize,
    is_behind: bool,
    outage: Arc<StoreOutage>,
    lost: Arc<AtomicU64>,
}

impl KeptRecords {
    pub(crate) fn new(outage: Arc<StoreOutage>, lost: Arc<AtomicU64>) -> Self {
        Self { jobs: Vec::new(), bytes: 0, is_behind: false, outage, lost }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.jobs.len()
    }

    /// The bytes of the quarantined answers among them.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How long to wait for other jobs; none if nothing is kept.
    pub(crate) fn pause(&self) -> Option<Duration> {
        (!self.is_empty()).then_some(OFFERED_EVERY)
    }

    /// Takes jobs that the store did not do: keeps records, and tells everybody else.
    pub(crate) fn fail(&mut self, jobs: Vec<Job>, error: &JournalError) {
        let mut refused = 0;
        for mut job in jobs {
            if job.is_record() && self.jobs.len() < RECORDS_KEPT_MAX {
                job.stop_waiting(error);
                self.bytes = self.bytes.saturating_add(job.bytes());
                self.jobs.push(job);
            } else {
                refused += u64::from(!job.is_beat());
                job.answer(Err(error.clone()), &self.lost);
            }
        }
        if !self.is_empty() && !self.is_behind {
            self.is_behind = true;
            self.outage.writer_is_behind(true);
        }
        self.outage.failed(error.reason(), refused);
    }

    /// Everything that is kept, in batches, to be offered to the store.
    pub(crate) fn take(&mut self) -> Vec<Vec<Job>> {
        self.bytes = 0;
        let mut batches = Vec::new();
        let mut rest = std::mem::take(&mut self.jobs);
        while !rest.is_empty() {
            let next = rest.split_off(rest.len().min(BATCH_MAX));
            batches.push(std::mem::replace(&mut rest, next));
        }
        batches
    }

    /// Keeps records that were taken and not offered.
    pub(crate) fn put_back(&mut self, jobs: Vec<Job>) {
        self.bytes = jobs.iter().fold(self.bytes, |bytes, job| bytes.saturating_add(job.bytes()));
        self.jobs.extend(jobs);
    }

    /// Of the records that were taken, these were written.
    pub(crate) fn wrote(&mut self, count: usize) {
        self.outage.wrote_late(u64::try_from(count).unwrap_or_default());
        if self.is_empty() && self.is_behind {
            self.is_behind = false;
            self.outage.writer_is_behind(false);
            self.outage.worked();
        }
    }

    /// A write succeeded.
    pub(crate) fn worked(&self) {
        if self.is_empty() {
            self.outage.worked();
        }
    }

    /// The writer ends, and the store did not come back: what is kept is lost.
    pub(crate) fn abandon(&mut self) {
        let count = u64::try_from(self.jobs.len()).unwrap_or_default();
        if count > 0 {
            self.lost.fetch_add(count, Ordering::Relaxed);
            tracing::error!(
                records = count,
                "the ledger ends while its store is away: records of answered calls are lost; \
                 hint: servers' own records say what was called"
            );
        }
        self.jobs.clear();
    }
}
