//! Every metric with its name, its kind and what it counts. Dashboards, rules and the page are held against this one table.
//!
//! Deliberately not here: rates and ratios. Several gateways' counters add up, their ratios do not, so those are recording rules.

/// What kind of figure a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Only grows. Its name ends in `_total`.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by size, with a sum.
    Histogram,
}

macro_rules! metrics {
    ($($metric:ident $kind:ident $name:literal $help:literal;)*) => {
        /// One metric.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Metric {
            $(#[doc = $help] $metric,)*
        }

        impl Metric {
            /// Every metric, in the order of the page.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$metric),*];

            /// The name on the page.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$metric => $name,)* }
            }

            /// The kind.
            pub const fn kind(self) -> MetricKind {
                match self { $(Self::$metric => MetricKind::$kind,)* }
            }

            /// What it counts, in a sentence.
            pub const fn help(self) -> &'static str {
                match self { $(Self::$metric => $help,)* }
            }
        }
    };
}

metrics! {
    Invocations Counter "servanda_tool_invocations_total" "Calls that ended, by how they ended.";
    InvocationDuration Histogram "servanda_tool_invocation_duration_seconds" "Time from the door to the answer.";
    Cost Counter "servanda_tool_cost_total" "The most that calls which were sent cost by their contracts, in units of the currency.";
    TaskCost Counter "servanda_task_cost_total" "The same by the task that the client named.";
    CallerCost Counter "servanda_caller_cost_total" "The same by caller.";
    Retries Counter "servanda_tool_retries_total" "How often calls were sent again.";
    Timeouts Counter "servanda_tool_timeouts_total" "Calls whose answer did not come within the deadline.";
    Replays Counter "servanda_tool_idempotency_replays_total" "Calls that got the stored answer of the same operation.";
    ApprovalsPending Gauge "servanda_tool_approvals_pending" "Tickets that wait for a decision, by the group that may decide; the newest 200 are looked at.";
    ApprovalResolution Histogram "servanda_tool_approval_resolution_seconds" "Time from the opening of a ticket to its decision.";
    SchemaFailures Counter "servanda_tool_schema_failures_total" "Calls whose arguments (phase input) or answer (phase output) broke the contract.";
    SchemaValid Counter "servanda_tool_schema_valid_total" "Calls whose arguments passed gates 1 to 4.";
    SchemaValidFirstTry Counter "servanda_tool_schema_valid_first_try_total" "Those that repaired no refused call.";
    SemanticValid Counter "servanda_tool_semantic_valid_total" "Calls whose arguments passed gate 5 too.";
    Failures Counter "servanda_tool_failures_total" "Calls that were refused or failed, by taxonomy class.";
    RepairChains Counter "servanda_tool_repair_chains_total" "Refusals that asked for a repair and began a chain.";
    RepairChainsExhausted Counter "servanda_tool_repair_chains_exhausted_total" "Repair chains that were told to stop.";
    Repairs Counter "servanda_tool_repairs_total" "Repair chains that ended with a call that passed gate 5.";
    MutatingProposals Counter "servanda_tool_mutating_proposals_total" "Calls of tools that may change something.";
    MutatingObservations Counter "servanda_tool_mutating_observations_total" "Such calls that were sent.";
    ConfirmationsRequired Counter "servanda_tool_confirmations_required_total" "Calls that need a person's approval.";
    ConfirmationBypasses Counter "servanda_tool_confirmation_bypass_attempts_total" "Calls that gate 10 refused and for which no ticket is open: without a valid approval, and none is to be had.";
    ApprovalRequests Counter "servanda_tool_approval_requests_total" "Tickets that were opened.";
    IdempotencyConflicts Counter "servanda_tool_idempotency_conflicts_total" "Calls that used a key of an operation that is under way, unknown or another.";
    RetriedCalls Counter "servanda_tool_retried_calls_total" "Calls that were sent more than once.";
    RetrySuccesses Counter "servanda_tool_retry_successes_total" "Those that completed.";
    RetriesRefused Counter "servanda_retries_refused_total" "Repeats that were not made: unsafe for the tool, or blind by the caller.";
    Executions Counter "servanda_tool_executions_total" "Calls that were sent to the upstream.";
    NormalizationFailures Counter "servanda_tool_normalization_failures_total" "Answers that break the contract and were withheld.";
    VerificationRequired Counter "servanda_tool_verification_required_total" "Sent calls whose contract asks to verify afterwards.";
    CompensationsRequired Counter "servanda_tool_compensations_required_total" "Calls that ended in a state that has to be compensated.";
    CompensationsFailed Counter "servanda_tool_compensations_failed_total" "Compensations that failed.";
    CompleteRecords Counter "servanda_tool_complete_records_total" "Calls whose record has all that a replay of the decision needs.";
    LateAnswers Counter "servanda_late_answers_total" "Answers that came after their call's deadline.";
    McpServerDuration Histogram "mcp_server_operation_duration_seconds" "MCP requests of agents, by the semantic conventions; tools/call only.";
    McpClientDuration Histogram "mcp_client_operation_duration_seconds" "MCP requests to upstreams, by the semantic conventions; tools/call only.";
    Overhead Histogram "servanda_gateway_overhead_seconds" "Time of a call in the gateway's own gates and stages, without the upstream and without waiting for people.";
    GateSeconds Counter "servanda_gate_seconds_total" "Time in a gate or stage.";
    GateDecisions Counter "servanda_gate_decisions_total" "Decisions of a gate or stage.";
    DoorRejections Counter "servanda_door_rejections_total" "Requests that the HTTP door rejected before they became calls.";
    UnknownEffects Gauge "servanda_unknown_effects" "Effects whose outcome is unknown and wait to be settled; counted up to 1000.";
    LogLeaves Gauge "servanda_log_leaves" "Leaves in the tree of the verifiable log.";
    LogLeavesUnsigned Gauge "servanda_log_leaves_unsigned" "Leaves in the tree that no signed checkpoint covers.";
    LogSigningFailures Counter "servanda_log_signing_failures_total" "Attempts to sign the verifiable log that failed.";
    StoreWrites Gauge "servanda_store_takes_writes" "1 if the ledger took the last write, else 0.";
    RecordsLost Counter "servanda_records_lost_total" "Records of calls that could not be stored.";
    UpstreamUp Gauge "servanda_upstream_up" "1 if the upstream answered when it was last asked, else 0.";
    SpansDropped Counter "servanda_telemetry_dropped_spans_total" "Spans that were not exported.";
    SeriesFolded Counter "servanda_metric_series_folded_total" "Observations that went to the series `other`, because the metric had too many series.";
    BuildInfo Gauge "servanda_build_info" "1, with the version of the gateway.";
    StartTime Gauge "servanda_start_time_seconds" "When the gateway started, in seconds since 1970.";
}

impl Metric {
    /// The place in [`Self::ALL`].
    pub(super) const fn index(self) -> usize {
        self as usize
    }

    /// The names that samples of this metric have on the page.
    pub fn sample_names(self) -> Vec<String> {
        match self.kind() {
            MetricKind::Counter | MetricKind::Gauge => vec![self.name().to_owned()],
            MetricKind::Histogram => ["_bucket", "_sum", "_count"].map(|end| format!("{}{end}", self.name())).into(),
        }
    }
}
