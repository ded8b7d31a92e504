//! What the log says while a store takes no writes: one line when that begins, and one with counts when everything that waited is written.
//! For all writers of a ledger together. Deliberately not here: keeping what waits (`kept_records`).

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

/// Whether a store takes writes, as its writers see it.
#[derive(Debug, Default)]
pub(crate) struct StoreOutage {
    /// For writers whose writes succeed: they take no lock.
    is_open: AtomicBool,
    counts: Mutex<OutageCounts>,
}

/// What is told at the end of an outage.
#[derive(Debug, Default)]
struct OutageCounts {
    began: Option<Instant>,
    /// Writers that hold records which are not written yet.
    writers_behind: usize,
    /// Writes whose callers were told that they failed.
    refused: u64,
    /// Records that were written late.
    late: u64,
}

impl StoreOutage {
    /// The store did not take writes: `refused` callers were told so.
    pub(crate) fn failed(&self, reason: &str, refused: u64) {
        let mut counts = self.counts();
        counts.refused += refused;
        if counts.began.is_none() {
            counts.began = Some(Instant::now());
            self.is_open.store(true, Ordering::Relaxed);
            tracing::error!(
                reason,
                "the ledger's store does not take writes: calls that change something are refused, records of answered calls wait in memory, \
                 and when they wait for too long every call is refused; this line comes once; hint: `servanda doctor` looks at the store"
            );
        }
    }

    /// A writer holds records for the first time, or none any more.
    pub(crate) fn writer_is_behind(&self, is_behind: bool) {
        let mut counts = self.counts();
        counts.writers_behind =
            if is_behind { counts.writers_behind.saturating_add(1) } else { counts.writers_behind.saturating_sub(1) };
    }

    /// Records that had waited were written.
    pub(crate) fn wrote_late(&self, count: u64) {
        self.counts().late += count;
    }

    /// A write succeeded. The outage is over once no writer holds records.
    pub(crate) fn worked(&self) {
        if !self.is_open.load(Ordering::Relaxed) {
            return;
        }
        let mut counts = self.counts();
        if counts.writers_behind > 0 {
            return;
        }
        let Some(began) = counts.began.take() else { return };
        self.is_open.store(false, Ordering::Relaxed);
        let (refused, late) = (std::mem::take(&mut counts.refused), std::mem::take(&mut counts.late));
        let after_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::warn!(
            after_ms,
            refused_writes = refused,
            records_written_late = late,
            "the ledger's store takes writes again, and every record that waited is written"
        );
    }

    fn counts(&self) -> MutexGuard<'_, OutageCounts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
