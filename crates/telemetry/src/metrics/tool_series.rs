//! The figures of one version of one tool, and how many series each metric may still begin.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use servanda_contract::{TaxonomyClass, record::Outcome};

use super::{
    ContractFacts,
    catalogue::Metric,
    histogram::{CALL_BOUNDS, Exemplar, Histogram, MCP_BOUNDS},
};

/// What the conventions call the error of a request to the gateway, by [`ToolSeries::server`].
pub(super) const SERVER_ERRORS: [&str; 2] = ["", "tool_error"];
/// The same for a request to an upstream, by [`ToolSeries::client`].
pub(super) const CLIENT_ERRORS: [&str; 4] = ["", "tool_error", "timeout", "unavailable"];
/// By [`ToolSeries::schema_failures`].
pub(super) const PHASES: [&str; 2] = ["input", "output"];

const METRICS: usize = Metric::ALL.len();
const CLASSES: usize = TaxonomyClass::ALL.len();
const OUTCOMES: usize = Outcome::ALL.len();

/// What is measured of one version of one tool.
#[derive(Debug)]
pub(super) struct ToolSeries {
    /// The contract's name.
    pub(super) tool: String,
    /// Its version.
    pub(super) version: String,
    /// What the contract says.
    pub(super) facts: ContractFacts,
    /// The metrics that have no other label, by [`Metric::index`].
    counters: [AtomicU64; METRICS],
    /// By [`Outcome::ALL`].
    pub(super) outcomes: [AtomicU64; OUTCOMES],
    /// By [`TaxonomyClass::ALL`].
    pub(super) classes: [AtomicU64; CLASSES],
    /// By [`PHASES`].
    pub(super) schema_failures: [AtomicU64; 2],
    /// From the door to the answer.
    pub(super) duration: BegunHistogram,
    /// By [`SERVER_ERRORS`].
    pub(super) server: [BegunHistogram; 2],
    /// By [`CLIENT_ERRORS`].
    pub(super) client: [BegunHistogram; 4],
}

/// A histogram that is a series only once something is in it.
#[derive(Debug)]
pub(super) struct BegunHistogram {
    pub(super) histogram: Histogram,
    has_begun: AtomicBool,
}

/// How many series each metric has begun and what it could not begin, by [`Metric::index`].
#[derive(Debug)]
pub(super) struct SeriesLimits {
    series_max: usize,
    begun: [AtomicUsize; METRICS],
    folded: [AtomicU64; METRICS],
}

impl ToolSeries {
    pub(super) fn new(tool: &str, version: &str, facts: ContractFacts) -> Self {
        let histogram = || BegunHistogram { histogram: Histogram::new(MCP_BOUNDS), has_begun: AtomicBool::new(false) };
        Self {
            tool: tool.to_owned(),
            version: version.to_owned(),
            facts,
            counters: [const { AtomicU64::new(0) }; METRICS],
            outcomes: [const { AtomicU64::new(0) }; OUTCOMES],
            classes: [const { AtomicU64::new(0) }; CLASSES],
            schema_failures: [const { AtomicU64::new(0) }; 2],
            duration: BegunHistogram {
                histogram: Histogram::with_exemplars(CALL_BOUNDS),
                has_begun: AtomicBool::new(false),
            },
            server: std::array::from_fn(|_| histogram()),
            client: std::array::from_fn(|_| histogram()),
        }
    }

    /// The cell of a metric that has no other label.
    pub(super) fn counter(&self, metric: Metric) -> Option<&AtomicU64> {
        self.counters.get(metric.index())
    }
}

impl SeriesLimits {
    pub(super) fn new(series_max: usize) -> Self {
        Self {
            series_max,
            begun: [const { AtomicUsize::new(0) }; METRICS],
            folded: [const { AtomicU64::new(0) }; METRICS],
        }
    }

    /// Adds to a cell, or to the same cell of the series for all others if the cell would be one series too many.
    pub(super) fn add(&self, metric: Metric, cells: [Option<&AtomicU64>; 2], count: u64) {
        let [Some(own), Some(other)] = cells else { return };
        let is_open = !std::ptr::eq(own, other) && (own.load(Ordering::Relaxed) > 0 || self.begin(metric));
        if !is_open {
            self.fold(metric);
        }
        if is_open { own } else { other }.fetch_add(count, Ordering::Relaxed);
    }

    /// The same for histograms.
    pub(super) fn observe(
        &self,
        metric: Metric,
        cells: [Option<&BegunHistogram>; 2],
        us: u64,
        example: Option<Exemplar>,
    ) {
        let [Some(own), Some(other)] = cells else { return };
        let is_open = !std::ptr::eq(own, other) && (own.has_begun.load(Ordering::Relaxed) || self.begin(metric));
        if !is_open {
            self.fold(metric);
        }
        let series = if is_open { own } else { other };
        series.has_begun.store(true, Ordering::Relaxed);
        series.histogram.observe(us, example);
    }

    /// How often observations of a metric went to the series for all others.
    pub(super) fn folded(&self, metric: Metric) -> u64 {
        self.folded.get(metric.index()).map_or(0, |folded| folded.load(Ordering::Relaxed))
    }

    /// Counts an observation that went to the series for all others.
    fn fold(&self, metric: Metric) {
        if let Some(folded) = self.folded.get(metric.index()) {
            folded.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a metric may begin one more series. Two observations that begin the same one at once count it twice: that only
    /// reaches the limit sooner.
    fn begin(&self, metric: Metric) -> bool {
        let begun = self.begun.get(metric.index());
        let is_within = begun.is_some_and(|begun| begun.fetch_add(1, Ordering::Relaxed) < self.series_max);
        if let (false, Some(begun)) = (is_within, begun) {
            begun.fetch_sub(1, Ordering::Relaxed);
        }
        is_within
    }
}
