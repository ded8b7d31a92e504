//! Counters and histograms of finished calls, and their text form for Prometheus.
//!
//! A call adds to them on its way, so that takes one look into a map and some atomic additions, and asks for no memory unless the call
//! begins a series. Deliberately not here: the door that serves the page, and figures that are read elsewhere ([`Surroundings`]).

mod catalogue;
mod facts;
mod figures;
mod histogram;
mod labelled;
mod labels;
mod observing;
mod open_repairs;
mod page;
mod tool_series;
mod tools;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use servanda_contract::{CallRecord, GateName, cost::Cost};

pub use self::{
    catalogue::{Metric, MetricKind},
    facts::{ContractFactSource, ContractFacts},
    figures::{PendingApprovals, Surroundings},
    labels::LABEL_CHARS_MAX,
    page::PageFormat,
};
use self::{
    histogram::{Histogram, OVERHEAD_BOUNDS, PEOPLE_BOUNDS},
    labelled::Labelled,
    open_repairs::OpenRepairs,
    page::Page,
    tool_series::SeriesLimits,
    tools::Tools,
};

/// The series that a metric may have by default.
pub const SERIES_MAX: usize = 2_000;

/// Decisions of a gate, as the page names them.
const DECISIONS: [&str; 3] = ["passed", "refused", "skipped"];
/// What kinds of calls the gateway's own time is told apart by.
const OVERHEAD_KINDS: [&str; 3] = ["read", "change", "refused"];
/// The components of a cost, as the page names them.
const COST_CATEGORIES: [&str; 6] = ["compute", "external_api", "storage_io", "network", "token", "human_review"];
const GATES: usize = GateName::ALL.len();

/// Everything that is measured.
#[derive(Debug)]
pub struct Metrics {
    limits: SeriesLimits,
    tools: Tools,
    open_repairs: OpenRepairs,
    /// By [`OVERHEAD_KINDS`].
    overhead: [Histogram; 3],
    /// By gate.
    gate_us: [AtomicU64; GATES],
    /// By gate and [`DECISIONS`].
    gate_decisions: [[AtomicU64; 3]; GATES],
    late_answers: AtomicU64,
    /// By tool, version and currency.
    tool_costs: Labelled<CostCells, 3>,
    /// By task and currency.
    task_costs: Labelled<CostCells, 2>,
    /// By tenant, principal, acting agent and currency.
    caller_costs: Labelled<CostCells, 4>,
    /// By tool.
    approval_requests: Labelled<AtomicU64, 1>,
    /// By tool and resolution.
    approval_resolutions: Labelled<Histogram, 2>,
    door_rejections: Mutex<BTreeMap<&'static str, u64>>,
}

/// A cost that grows, by [`COST_CATEGORIES`], in millionths.
#[derive(Debug, Default)]
struct CostCells([AtomicU64; 6]);

impl Metrics {
    /// Begins to measure. No metric gets more than `series_max` series and one for all others.
    pub fn new(series_max: usize, facts: Arc<dyn ContractFactSource>) -> Self {
        Self {
            limits: SeriesLimits::new(series_max),
            tools: Tools::new(series_max, facts),
            open_repairs: OpenRepairs::default(),
            overhead: std::array::from_fn(|_| Histogram::new(OVERHEAD_BOUNDS)),
            gate_us: [const { AtomicU64::new(0) }; GATES],
            gate_decisions: [const { [const { AtomicU64::new(0) }; 3] }; GATES],
            late_answers: AtomicU64::new(0),
            tool_costs: Labelled::new(series_max / COST_CATEGORIES.len(), CostCells::default),
            task_costs: Labelled::new(series_max, CostCells::default),
            caller_costs: Labelled::new(series_max, CostCells::default),
            approval_requests: Labelled::new(series_max, AtomicU64::default),
            approval_resolutions: Labelled::new(series_max, || Histogram::new(PEOPLE_BOUNDS)),
            door_rejections: Mutex::default(),
        }
    }

    /// Measures a call that ended.
    pub fn call_ended(&self, record: &CallRecord) {
        observing::observe(self, record);
    }

    /// Counts a ticket that was opened.
    pub fn approval_requested(&self, tool: &str) {
        self.approval_requests.with([tool], |count| {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Measures how long a ticket waited for what it came to.
    pub fn approval_resolved(&self, tool: &str, resolution: &'static str, waited_ms: u64) {
        let us = waited_ms.saturating_mul(1_000);
        self.approval_resolutions.with([tool, resolution], |histogram| histogram.observe(us, None));
    }

    /// Counts a request that a door rejected, by a reason from a fixed list.
    pub fn door_rejected(&self, reason: &'static str) {
        *self.door_rejections.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() += 1;
    }

    /// The page that a monitor reads.
    pub fn page(&self, surroundings: &Surroundings, format: PageFormat) -> String {
        let mut page = Page::default();
        figures::write_calls(self, &mut page);
        figures::write_surroundings(surroundings, &mut page);
        page.text(format)
    }
}

impl CostCells {
    fn add(&self, cost: &Cost) {
        let Cost {
            compute_micros,
            external_api_micros,
            storage_io_micros,
            network_micros,
            token_micros,
            human_review_micros,
        } = *cost;
        let micros =
            [compute_micros, external_api_micros, storage_io_micros, network_micros, token_micros, human_review_micros];
        for (cell, micros) in self.0.iter().zip(micros).filter(|(_, micros)| *micros > 0) {
            cell.fetch_add(micros, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests;
