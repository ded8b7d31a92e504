//! What the export did, counted.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the export did since the start, in spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceFigures {
    /// Waiting to be sent, or being sent.
    pub queued_spans: u64,
    /// Taken by the collector.
    pub exported_spans: u64,
    /// Dropped because the queue was full.
    pub dropped_full_spans: u64,
    /// Dropped because the collector could not be reached, refused them, or was too slow at the end.
    pub dropped_unsent_spans: u64,
    /// Rejected by the collector, which took the others of the same message.
    pub rejected_spans: u64,
}

impl TraceFigures {
    /// All spans that were made for nothing.
    pub const fn dropped_spans(&self) -> u64 {
        self.dropped_full_spans + self.dropped_unsent_spans + self.rejected_spans
    }
}

/// The counters behind the figures.
#[derive(Debug, Default)]
pub(super) struct SpanCounters {
    queued: AtomicU64,
    exported: AtomicU64,
    dropped_full: AtomicU64,
    dropped_unsent: AtomicU64,
    rejected: AtomicU64,
}

impl SpanCounters {
    pub(super) fn read(&self) -> TraceFigures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TraceFigures {
            queued_spans: read(&self.queued),
            exported_spans: read(&self.exported),
            dropped_full_spans: read(&self.dropped_full),
            dropped_unsent_spans: read(&self.dropped_unsent),
            rejected_spans: read(&self.rejected),
        }
    }

    /// Takes places in the queue, if so many are free.
    pub(super) fn reserve(&self, spans: u64, spans_max: u64) -> bool {
        let before = self.queued.fetch_add(spans, Ordering::Relaxed);
        let fits = before.saturating_add(spans) <= spans_max;
        if !fits {
            self.drop_full(spans);
        }
        fits
    }

    /// Spans that were reserved and did not fit.
    pub(super) fn drop_full(&self, spans: u64) {
        self.leave(spans);
        self.dropped_full.fetch_add(spans, Ordering::Relaxed);
    }

    /// Queued spans that the collector took, apart from those that it rejected.
    pub(super) fn export(&self, spans: u64, rejected: u64) {
        let rejected = rejected.min(spans);
        self.leave(spans);
        self.rejected.fetch_add(rejected, Ordering::Relaxed);
        self.exported.fetch_add(spans - rejected, Ordering::Relaxed);
    }

    /// Everything that is still queued when the export ends; returns how many.
    pub(super) fn drop_rest(&self) -> u64 {
        let rest = self.queued.swap(0, Ordering::Relaxed);
        self.dropped_unsent.fetch_add(rest, Ordering::Relaxed);
        rest
    }

    /// Queued spans that could not be sent.
    pub(super) fn drop_unsent(&self, spans: u64) {
        self.leave(spans);
        self.dropped_unsent.fetch_add(spans, Ordering::Relaxed);
    }

    /// A call that ends after the export finds its places given up already.
    fn leave(&self, spans: u64) {
        let less = |queued: u64| Some(queued.saturating_sub(spans));
        let _ = self.queued.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }
}
