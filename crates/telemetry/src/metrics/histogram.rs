//! Histograms of durations. An observation takes a few atomic additions and asks for no memory.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};

use servanda_contract::Timestamp;

/// The upper bound of a bucket.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    /// As the page writes it, in seconds.
    pub(super) seconds: &'static str,
    /// The same in microseconds.
    pub(super) us: u64,
}

const fn bound(seconds: &'static str, us: u64) -> Bound {
    Bound { seconds, us }
}

/// The bounds that the semantic conventions of MCP want.
pub(super) const MCP_BOUNDS: &[Bound] = &[
    bound("0.01", 10_000),
    bound("0.02", 20_000),
    bound("0.05", 50_000),
    bound("0.1", 100_000),
    bound("0.2", 200_000),
    bound("0.5", 500_000),
    bound("1.0", 1_000_000),
    bound("2.0", 2_000_000),
    bound("5.0", 5_000_000),
    bound("10.0", 10_000_000),
    bound("30.0", 30_000_000),
    bound("60.0", 60_000_000),
    bound("120.0", 120_000_000),
    bound("300.0", 300_000_000),
];

/// For whole calls, which are measured in milliseconds. 0.5 and 5 s are where timeout classes end.
pub(super) const CALL_BOUNDS: &[Bound] = &[
    bound("0.001", 1_000),
    bound("0.0025", 2_500),
    bound("0.005", 5_000),
    bound("0.01", 10_000),
    bound("0.025", 25_000),
    bound("0.05", 50_000),
    bound("0.1", 100_000),
    bound("0.25", 250_000),
    bound("0.5", 500_000),
    bound("1.0", 1_000_000),
    bound("2.5", 2_500_000),
    bound("5.0", 5_000_000),
    bound("30.0", 30_000_000),
    bound("300.0", 300_000_000),
];

/// For the gateway's own time, which the conventions' first bucket would swallow.
pub(super) const OVERHEAD_BOUNDS: &[Bound] = &[
    bound("2.5e-05", 25),
    bound("5e-05", 50),
    bound("0.0001", 100),
    bound("0.00025", 250),
    bound("0.0005", 500),
    bound("0.001", 1_000),
    bound("0.0025", 2_500),
    bound("0.005", 5_000),
    bound("0.01", 10_000),
    bound("0.025", 25_000),
    bound("0.05", 50_000),
    bound("0.1", 100_000),
    bound("0.25", 250_000),
    bound("1.0", 1_000_000),
];

/// For people, who take minutes and hours.
pub(super) const PEOPLE_BOUNDS: &[Bound] = &[
    bound("10.0", 10_000_000),
    bound("30.0", 30_000_000),
    bound("60.0", 60_000_000),
    bound("300.0", 300_000_000),
    bound("900.0", 900_000_000),
    bound("1800.0", 1_800_000_000),
    bound("3600.0", 3_600_000_000),
    bound("14400.0", 14_400_000_000),
    bound("43200.0", 43_200_000_000),
    bound("86400.0", 86_400_000_000),
];

/// A call that stands for its bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exemplar {
    /// Its trace id: 32 hex digits.
    pub(super) trace_id: [u8; 32],
    /// How long it took.
    pub(super) us: u64,
    /// When it ended.
    pub(super) at: Timestamp,
}

/// A histogram that grows.
#[derive(Debug)]
pub(super) struct Histogram {
    bounds: &'static [Bound],
    /// One for each bound, and one for what is above all of them.
    counts: Box<[AtomicU64]>,
    sum_us: AtomicU64,
    exemplars: Box<[Mutex<Option<Exemplar>>]>,
}

/// A histogram at one moment.
#[derive(Debug, Clone)]
pub(super) struct HistogramFigures {
    /// The upper bounds.
    pub(super) bounds: &'static [Bound],
    /// How many are in each bucket, not added up; the last is above all bounds.
    pub(super) counts: Vec<u64>,
    /// The sum.
    pub(super) sum_us: u64,
    /// One for each bucket, where there is one; empty if the histogram has none.
    pub(super) exemplars: Vec<Option<Exemplar>>,
}

impl Exemplar {
    /// None if the trace id is not one.
    pub(super) fn new(trace_id: &str, us: u64, at: Timestamp) -> Option<Self> {
        let trace_id = <[u8; 32]>::try_from(trace_id.as_bytes()).ok()?;
        trace_id.iter().all(u8::is_ascii_hexdigit).then_some(Self { trace_id, us, at })
    }
}

impl Histogram {
    pub(super) fn new(bounds: &'static [Bound]) -> Self {
        let counts = std::iter::repeat_with(AtomicU64::default).take(bounds.len() + 1).collect();
        Self { bounds, counts, sum_us: AtomicU64::new(0), exemplars: Box::default() }
    }

    /// One that keeps the last call of each bucket.
    pub(super) fn with_exemplars(bounds: &'static [Bound]) -> Self {
        let exemplars = std::iter::repeat_with(Mutex::default).take(bounds.len() + 1).collect();
        Self { exemplars, ..Self::new(bounds) }
    }

    /// Counts a duration.
    pub(super) fn observe(&self, us: u64, exemplar: Option<Exemplar>) {
        let bucket = self.bounds.iter().position(|bound| us <= bound.us).unwrap_or(self.bounds.len());
        if let Some(count) = self.counts.get(bucket) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        // A call does not wait to be an example.
        if let (Some(exemplar), Some(place)) = (exemplar, self.exemplars.get(bucket))
            && let Ok(mut place) = place.try_lock()
        {
            *place = Some(exemplar);
        }
    }

    /// Whether nothing was observed.
    pub(super) fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// The figures now. Observations that are made meanwhile may be in it in part.
    pub(super) fn figures(&self) -> HistogramFigures {
        let exemplar = |place: &Mutex<Option<Exemplar>>| *place.lock().unwrap_or_else(PoisonError::into_inner);
        HistogramFigures {
            bounds: self.bounds,
            counts: self.counts.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum_us: self.sum_us.load(Ordering::Relaxed),
            exemplars: self.exemplars.iter().map(exemplar).collect(),
        }
    }
}

impl HistogramFigures {
    /// Adds another one of the same bounds.
    pub(super) fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        for (exemplar, newer) in self.exemplars.iter_mut().zip(&other.exemplars) {
            *exemplar = newer.or(*exemplar);
        }
    }
}
