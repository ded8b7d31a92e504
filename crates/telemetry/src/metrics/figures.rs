//! Puts the figures on the page: those of calls, and those that only others can read.

use std::sync::atomic::{AtomicU64, Ordering};

use servanda_contract::{GateName, TaxonomyClass, Timestamp, record::Outcome};

use super::{
    COST_CATEGORIES, CostCells, DECISIONS, Metrics, OVERHEAD_KINDS,
    catalogue::Metric,
    page::{Page, Sample},
    tool_series::{BegunHistogram, CLIENT_ERRORS, PHASES, SERVER_ERRORS, ToolSeries},
};

/// The metrics of a tool that have no label of their own.
const PLAIN: [Metric; 21] = [
    Metric::Retries,
    Metric::Replays,
    Metric::SchemaValid,
    Metric::SchemaValidFirstTry,
    Metric::SemanticValid,
    Metric::RepairChains,
    Metric::RepairChainsExhausted,
    Metric::Repairs,
    Metric::MutatingProposals,
    Metric::MutatingObservations,
    Metric::ConfirmationsRequired,
    Metric::ConfirmationBypasses,
    Metric::IdempotencyConflicts,
    Metric::RetriedCalls,
    Metric::RetrySuccesses,
    Metric::Executions,
    Metric::NormalizationFailures,
    Metric::VerificationRequired,
    Metric::CompensationsRequired,
    Metric::CompensationsFailed,
    Metric::CompleteRecords,
];

/// What is read around the calls at the moment of the page. What could not be read is not on the page.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Tickets that wait, by tool and group.
    pub pending_approvals: Option<Vec<PendingApprovals>>,
    /// Effects whose outcome is unknown.
    pub unknown_effects: Option<u64>,
    /// Leaves in the tree of the verifiable log.
    pub log_leaves: Option<u64>,
    /// Those that no checkpoint covers.
    pub log_leaves_unsigned: Option<u64>,
    /// Failed attempts to sign the log.
    pub log_signing_failures: u64,
    /// Whether the ledger took the last write.
    pub store_takes_writes: bool,
    /// Records that could not be stored.
    pub records_lost: u64,
    /// Upstreams by id, and whether they answered.
    pub upstreams: Vec<(String, bool)>,
    /// Repeats that would not have been safe, and blind repeats by callers.
    pub retries_refused: [u64; 2],
    /// Spans that were not exported; none if none are.
    pub spans_dropped: Option<u64>,
    /// The version of the gateway.
    pub version: &'static str,
    /// When it started.
    pub started_at: Option<Timestamp>,
}

/// Tickets that wait for one group to decide about one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingApprovals {
    /// The contract's name.
    pub tool: String,
    /// The group; empty if every approver may decide.
    pub group: String,
    /// How many.
    pub count: u64,
}

pub(super) fn write_calls(metrics: &Metrics, page: &mut Page) {
    for tool in metrics.tools.all() {
        write_tool(&tool, page);
    }
    for (kind, histogram) in OVERHEAD_KINDS.iter().zip(&metrics.overhead) {
        page.add(Metric::Overhead, &[("kind", kind)], Sample::Histogram(histogram.figures()));
    }
    for (gate, us) in GateName::ALL.into_iter().zip(&metrics.gate_us) {
        page.add_used(Metric::GateSeconds, &[("gate", &gate.to_string())], Sample::Micros(read(us)));
    }
    for (gate, counts) in GateName::ALL.into_iter().zip(&metrics.gate_decisions) {
        for (decision, count) in DECISIONS.iter().zip(counts) {
            let labels = [("gate", &*gate.to_string()), ("decision", decision)];
            page.add_used(Metric::GateDecisions, &labels, Sample::Count(read(count)));
        }
    }
    page.add(Metric::LateAnswers, &[], Sample::Count(read(&metrics.late_answers)));
    write_costs(metrics, page);
    write_approvals(metrics, page);
    let rejections = metrics.door_rejections.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for (reason, count) in rejections.iter() {
        page.add(Metric::DoorRejections, &[("reason", reason)], Sample::Count(*count));
    }
    drop(rejections);
    write_folded(metrics, page);
}

pub(super) fn write_surroundings(around: &Surroundings, page: &mut Page) {
    for PendingApprovals { tool, group, count } in around.pending_approvals.iter().flatten() {
        page.add(Metric::ApprovalsPending, &[("tool", tool), ("approver_group", group)], Sample::Count(*count));
    }
    let read_now = [
        (Metric::UnknownEffects, around.unknown_effects),
        (Metric::LogLeaves, around.log_leaves),
        (Metric::LogLeavesUnsigned, around.log_leaves_unsigned),
        (Metric::LogSigningFailures, Some(around.log_signing_failures)),
        (Metric::StoreWrites, Some(u64::from(around.store_takes_writes))),
        (Metric::RecordsLost, Some(around.records_lost)),
        (Metric::SpansDropped, around.spans_dropped),
        (Metric::StartTime, around.started_at.map(|at| at.unix_ms() / 1_000)),
    ];
    for (metric, count) in read_now {
        if let Some(count) = count {
            page.add(metric, &[], Sample::Count(count));
        }
    }
    for (upstream, answers) in &around.upstreams {
        page.add(Metric::UpstreamUp, &[("upstream", upstream)], Sample::Count(u64::from(*answers)));
    }
    for (reason, count) in ["unsafe", "blind"].iter().zip(around.retries_refused) {
        page.add(Metric::RetriesRefused, &[("reason", reason)], Sample::Count(count));
    }
    page.add(Metric::BuildInfo, &[("version", around.version)], Sample::Count(1));
}

fn write_tool(tool: &ToolSeries, page: &mut Page) {
    let own = [("tool", tool.tool.as_str()), ("version", tool.version.as_str())];
    let [name, version] = own;
    for metric in PLAIN {
        let count = tool.counter(metric).map_or(0, read);
        page.add_used(metric, &own, Sample::Count(count));
    }
    let mutation = ("mutation_class", tool.facts.mutation_class);
    for (outcome, count) in Outcome::ALL.into_iter().zip(&tool.outcomes) {
        let labels = [name, version, ("status", outcome.name()), mutation];
        page.add_used(Metric::Invocations, &labels, Sample::Count(read(count)));
    }
    for (class, count) in TaxonomyClass::ALL.into_iter().zip(&tool.classes) {
        page.add_used(Metric::Failures, &[name, version, ("class", class.name())], Sample::Count(read(count)));
    }
    for (phase, count) in PHASES.iter().zip(&tool.schema_failures) {
        page.add_used(Metric::SchemaFailures, &[name, version, ("phase", phase)], Sample::Count(read(count)));
    }
    let timed = [name, version, ("timeout_class", tool.facts.timeout_class)];
    page.add_used(Metric::Timeouts, &timed, Sample::Count(tool.counter(Metric::Timeouts).map_or(0, read)));
    write_histogram(page, Metric::InvocationDuration, &timed, &tool.duration);
    for (metric, errors, histograms) in [
        (Metric::McpServerDuration, &SERVER_ERRORS[..], &tool.server[..]),
        (Metric::McpClientDuration, &CLIENT_ERRORS[..], &tool.client[..]),
    ] {
        for (error, histogram) in errors.iter().zip(histograms) {
            let labels = [
                ("mcp_method_name", "tools/call"),
                ("gen_ai_operation_name", "execute_tool"),
                ("gen_ai_tool_name", tool.tool.as_str()),
                ("error_type", error),
            ];
            write_histogram(page, metric, &labels, histogram);
        }
    }
}

fn write_histogram(page: &mut Page, metric: Metric, labels: &[(&str, &str)], of: &BegunHistogram) {
    if !of.histogram.is_empty() {
        page.add(metric, labels, Sample::Histogram(of.histogram.figures()));
    }
}

fn write_costs(metrics: &Metrics, page: &mut Page) {
    metrics.tool_costs.each(|[tool, version, currency], cells| {
        for (category, cell) in COST_CATEGORIES.iter().zip(&cells.0) {
            let labels = [("tool", tool), ("version", version), ("category", category), ("currency", currency)];
            page.add_used(Metric::Cost, &labels, Sample::Micros(read(cell)));
        }
    });
    metrics.task_costs.each(|[task, currency], cells| {
        page.add_used(Metric::TaskCost, &[("task", task), ("currency", currency)], Sample::Micros(cells.total()));
    });
    metrics.caller_costs.each(|[tenant, principal, agent, currency], cells| {
        let labels = [("tenant", tenant), ("principal", principal), ("agent", agent), ("currency", currency)];
        page.add_used(Metric::CallerCost, &labels, Sample::Micros(cells.total()));
    });
}

fn write_approvals(metrics: &Metrics, page: &mut Page) {
    metrics.approval_requests.each(|[tool], count| {
        page.add(Metric::ApprovalRequests, &[("tool", tool)], Sample::Count(read(count)));
    });
    metrics.approval_resolutions.each(|[tool, resolution], histogram| {
        let labels = [("tool", tool), ("resolution", resolution)];
        page.add(Metric::ApprovalResolution, &labels, Sample::Histogram(histogram.figures()));
    });
}

/// How often an observation was not told apart, for each metric that this happened to.
fn write_folded(metrics: &Metrics, page: &mut Page) {
    for metric in Metric::ALL {
        let labelled = match metric {
            Metric::Cost => metrics.tool_costs.folded(),
            Metric::TaskCost => metrics.task_costs.folded(),
            Metric::CallerCost => metrics.caller_costs.folded(),
            Metric::ApprovalRequests => metrics.approval_requests.folded(),
            Metric::ApprovalResolution => metrics.approval_resolutions.folded(),
            _ => 0,
        };
        let folded = metrics.limits.folded(metric).saturating_add(labelled);
        page.add_used(Metric::SeriesFolded, &[("metric", metric.name())], Sample::Count(folded));
    }
}

impl CostCells {
    fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, cell| total.saturating_add(read(cell)))
    }
}

fn read(cell: &AtomicU64) -> u64 {
    cell.load(Ordering::Relaxed)
}
