//! What a finished call adds to the figures.
//!
//! Deliberately not here: how the figures are shown. A change here is on the way of every call.

use std::sync::atomic::{AtomicU64, Ordering};

use servanda_contract::{
    CallRecord, GateName, TaxonomyClass,
    record::{Decision, Outcome},
};

use super::{Metrics, catalogue::Metric, histogram::Exemplar, tool_series::ToolSeries};

const INPUT: usize = 0;
const OUTPUT: usize = 1;

/// What the verdicts of a call say together.
#[derive(Debug, Clone, Copy, Default)]
struct Passage {
    schema_valid: bool,
    semantic_valid: bool,
    own_us: u64,
    perform_us: Option<u64>,
}

/// The series of a call beside those for all others.
#[derive(Clone, Copy)]
struct SeriesOfCall<'a> {
    metrics: &'a Metrics,
    own: &'a ToolSeries,
    other: &'a ToolSeries,
}

pub(super) fn observe(metrics: &Metrics, record: &CallRecord) {
    if record.is_late_answer() {
        metrics.late_answers.fetch_add(1, Ordering::Relaxed);
        return;
    }
    let passage = passage(metrics, record);
    let own = metrics.tools.of(record.contract.as_deref());
    let series = SeriesOfCall { metrics, own: &own, other: metrics.tools.other() };
    let changes = record.contract.as_ref().is_some_and(|contract| contract.effect_class.mutates());
    let kind = match record.outcome {
        Outcome::Refused | Outcome::Previewed => 2,
        _ => usize::from(changes),
    };
    if let Some(histogram) = metrics.overhead.get(kind) {
        histogram.observe(passage.own_us, None);
    }
    outcome(series, record);
    durations(series, record, passage);
    proposal(series, record, passage, changes);
    if record.dispatched_at.is_some() {
        sending(series, record, changes);
    }
    refusal(series, record);
}

/// Adds up the verdicts, and counts each for its gate.
fn passage(metrics: &Metrics, record: &CallRecord) -> Passage {
    let mut passage = Passage::default();
    let waits_for_people = record.ticket_id.is_some() && !record.by_grant;
    for verdict in &record.verdicts {
        let gate = verdict.gate as usize;
        let decision = match verdict.decision {
            Decision::Passed => 0,
            Decision::Refused => 1,
            Decision::Skipped => 2,
        };
        if let Some(sum) = metrics.gate_us.get(gate) {
            sum.fetch_add(verdict.took_us, Ordering::Relaxed);
        }
        if let Some(count) = metrics.gate_decisions.get(gate).and_then(|counts| counts.get(decision)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        let has_passed = verdict.decision == Decision::Passed;
        match verdict.gate {
            GateName::Perform => {
                passage.perform_us = Some(passage.perform_us.unwrap_or_default().saturating_add(verdict.took_us));
                continue;
            }
            // There the call may have waited for people.
            GateName::Confirmation if waits_for_people => continue,
            GateName::Bounds => passage.schema_valid |= has_passed,
            GateName::Semantics => passage.semantic_valid |= has_passed,
            _ => {}
        }
        passage.own_us = passage.own_us.saturating_add(verdict.took_us);
    }
    passage
}

fn outcome(series: SeriesOfCall<'_>, record: &CallRecord) {
    let place = record.outcome as usize;
    series.add(Metric::Invocations, |tool| tool.outcomes.get(place), 1);
    if let Some(class) = record.class.filter(|class| *class != TaxonomyClass::Success) {
        series.add(Metric::Failures, |tool| tool.classes.get(class as usize), 1);
        match class {
            TaxonomyClass::Timeout => series.count(Metric::Timeouts),
            TaxonomyClass::CompensationRequired => series.count(Metric::CompensationsRequired),
            TaxonomyClass::CompensationFailed => series.count(Metric::CompensationsFailed),
            TaxonomyClass::IdempotencyConflict => series.count(Metric::IdempotencyConflicts),
            TaxonomyClass::SignatureMismatch if record.refused_at() == Some(GateName::Fence) => {
                series.count(Metric::IdempotencyConflicts);
            }
            _ => {}
        }
    }
    if record.outcome == Outcome::Replayed {
        series.count(Metric::Replays);
    }
    let is_withheld =
        record.outcome == Outcome::Quarantined || record.class == Some(TaxonomyClass::ObservationNormalizationFail);
    if is_withheld {
        series.count(Metric::NormalizationFailures);
        series.add(Metric::SchemaFailures, |tool| tool.schema_failures.get(OUTPUT), 1);
    }
    if is_complete(record) {
        series.count(Metric::CompleteRecords);
    }
}

fn durations(series: SeriesOfCall<'_>, record: &CallRecord, passage: Passage) {
    let is_error = match record.outcome {
        Outcome::Completed | Outcome::Replayed | Outcome::InputRequired | Outcome::TaskCreated | Outcome::Previewed => {
            0
        }
        _ => 1,
    };
    if let Some(finished_at) = record.finished_at {
        let us = finished_at.since_ms(record.received_at).saturating_mul(1_000);
        let limits = &series.metrics.limits;
        let cells = [Some(&series.own.duration), Some(&series.other.duration)];
        limits.observe(Metric::InvocationDuration, cells, us, Exemplar::new(&record.trace_id, us, finished_at));
        let cells = [series.own, series.other].map(|tool| tool.server.get(is_error));
        limits.observe(Metric::McpServerDuration, cells, us, None);
    }
    if let Some(us) = passage.perform_us {
        let error = match record.class {
            Some(TaxonomyClass::Timeout) => 2,
            Some(TaxonomyClass::DependencyUnavailable) => 3,
            _ => usize::from(record.outcome == Outcome::ToolError),
        };
        let cells = [series.own, series.other].map(|tool| tool.client.get(error));
        series.metrics.limits.observe(Metric::McpClientDuration, cells, us, None);
    }
}

/// What the call says about the agent that proposed it.
fn proposal(series: SeriesOfCall<'_>, record: &CallRecord, passage: Passage, changes: bool) {
    let is_repair = passage.semantic_valid && series.metrics.open_repairs.ended(record);
    if is_repair {
        series.count(Metric::Repairs);
    }
    if passage.schema_valid {
        series.count(Metric::SchemaValid);
        if !is_repair {
            series.count(Metric::SchemaValidFirstTry);
        }
    }
    if passage.semantic_valid {
        series.count(Metric::SemanticValid);
    }
    if changes {
        series.count(Metric::MutatingProposals);
    }
    let is_refused_there = record.refused_at() == Some(GateName::Confirmation);
    if record.ticket_id.is_some() || is_refused_there {
        series.count(Metric::ConfirmationsRequired);
    }
    if is_refused_there && record.ticket_id.is_none() {
        series.count(Metric::ConfirmationBypasses);
    }
}

fn sending(series: SeriesOfCall<'_>, record: &CallRecord, changes: bool) {
    series.count(Metric::Executions);
    if changes {
        series.count(Metric::MutatingObservations);
    }
    if series.own.facts.asks_to_verify {
        series.count(Metric::VerificationRequired);
    }
    if let Some(again) = record.attempts.map(|attempts| attempts.saturating_sub(1)).filter(|again| *again > 0) {
        series.add(Metric::Retries, |tool| tool.counter(Metric::Retries), u64::from(again));
        series.count(Metric::RetriedCalls);
        if record.outcome == Outcome::Completed {
            series.count(Metric::RetrySuccesses);
        }
    }
    cost(series, record);
}

/// Only calls that cost something look for more than their tool's series.
fn cost(series: SeriesOfCall<'_>, record: &CallRecord) {
    let Some(price) = record.price.as_deref().filter(|price| !price.is_free()) else { return };
    let (metrics, currency, caller) = (series.metrics, price.currency.as_str(), &record.caller);
    let (tool, version) = (series.own.tool.as_str(), series.own.version.as_str());
    metrics.tool_costs.with([tool, version, currency], |cells| cells.add(&price.cost));
    let agent = caller.actors.first().map_or("", |actor| actor.name.as_str());
    metrics.caller_costs.with([&caller.tenant, &caller.principal, agent, currency], |cells| cells.add(&price.cost));
    let task = record.policy.as_ref().and_then(|policy| policy.task.as_deref()).unwrap_or_default();
    metrics.task_costs.with([task, currency], |cells| cells.add(&price.cost));
}

fn refusal(series: SeriesOfCall<'_>, record: &CallRecord) {
    let Some(refusal) = &record.refusal else { return };
    if matches!(refusal.gate, GateName::Parse | GateName::Structure | GateName::Types | GateName::Bounds) {
        series.add(Metric::SchemaFailures, |tool| tool.schema_failures.get(INPUT), 1);
    }
    let Some(repair) = &refusal.repair else { return };
    if repair.attempt == 1 {
        series.count(Metric::RepairChains);
    }
    if repair.stopped.is_some() {
        series.count(Metric::RepairChainsExhausted);
        series.metrics.open_repairs.ended(record);
    } else {
        series.metrics.open_repairs.opened(record);
    }
}

/// Whether the decision can be made again from the record: it has a trace and verdicts, and a call that was sent has its contract, the
/// digest of its canonical arguments and what the policies saw.
fn is_complete(record: &CallRecord) -> bool {
    let can_be_judged = record.contract.is_some() && record.proposal_digest.is_some() && record.policy.is_some();
    !record.trace_id.is_empty() && !record.verdicts.is_empty() && (record.dispatched_at.is_none() || can_be_judged)
}

impl SeriesOfCall<'_> {
    /// Adds one to a metric that has no other label.
    fn count(self, metric: Metric) {
        self.add(metric, |tool| tool.counter(metric), 1);
    }

    fn add(self, metric: Metric, cell: impl Fn(&ToolSeries) -> Option<&AtomicU64>, count: u64) {
        self.metrics.limits.add(metric, [cell(self.own), cell(self.other)], count);
    }
}
