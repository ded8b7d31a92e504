//! What calls add to the page, what the page looks like, and what must not get onto it.

mod cardinality;
mod deployed;
mod injection;

use std::sync::Arc;

use servanda_contract::{
    CallId, CallRecord, Caller, CallerActor, Digest, GateName, TaxonomyClass, Timestamp,
    cost::{Cost, Price},
    digest::DigestDomain,
    record::{ContractReference, Decision, Outcome, PolicyRecord, Verdict},
    tool::EffectClass,
};

use super::{ContractFactSource, ContractFacts, Metric, Metrics, PageFormat, PendingApprovals, Surroundings};

/// The fields of a record that no test looks at.
const PLAIN: &str = r#"{"record_version":1,"call_id":"","trace_id":"","caller":{"tenant":"","principal":""},"tool":"","contract":null,
    "arguments_digest":"sha256:0000000000000000000000000000000000000000000000000000000000000000","proposal_digest":null,"received_at":0,
    "dispatched_at":null,"finished_at":null,"deadline_ms":5000,"verdicts":[],"outcome":"completed","class":null,"refusal":null,
    "answer_digest":null}"#;

/// A catalog that knows what one tool promises.
#[derive(Debug)]
struct Facts;

impl ContractFactSource for Facts {
    fn facts(&self, contract: &ContractReference) -> Option<ContractFacts> {
        (contract.name == "company.pay_invoice").then_some(ContractFacts {
            mutation_class: "write_irreversible",
            timeout_class: "standard",
            asks_to_verify: true,
        })
    }
}

fn metrics(series_max: usize) -> Metrics {
    Metrics::new(series_max, Arc::new(Facts))
}

fn text(metrics: &Metrics) -> String {
    metrics.page(&Surroundings::default(), PageFormat::Text)
}

/// The value of one sample.
fn value(page: &str, sample: &str) -> Option<String> {
    page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' ').map(str::to_owned))
}

fn verdict(gate: GateName, decision: Decision, took_us: u64) -> Verdict {
    Verdict { gate, decision, took_us }
}

fn contract(name: &str, effect_class: EffectClass) -> ContractReference {
    ContractReference {
        name: name.to_owned(),
        version: "1.2.0".to_owned(),
        digest: Digest::compute(DigestDomain::Contract, &[name.as_bytes()]),
        upstream: "company".to_owned(),
        upstream_tool: name.to_owned(),
        effect_class,
    }
}

/// A call that passed every gate and was answered after 30 ms, 20 of them at the upstream.
fn completed(name: &str, effect_class: EffectClass) -> CallRecord {
    let passed =
        |gate: &GateName| verdict(*gate, Decision::Passed, if *gate == GateName::Perform { 20_000 } else { 10 });
    let digest = Digest::compute(DigestDomain::Arguments, &[b"{}"]);
    CallRecord {
        call_id: CallId::from("call".to_owned()),
        trace_id: "0af7651916cd43dd8448eb211c80319c".to_owned(),
        caller: Arc::new(Caller::named("acme", "ada")),
        tool: name.replace('.', "__"),
        contract: Some(Arc::new(contract(name, effect_class))),
        proposal_digest: Some(digest),
        received_at: Timestamp::from_unix_ms(1_700_000_000_000),
        dispatched_at: Some(Timestamp::from_unix_ms(1_700_000_000_001)),
        finished_at: Some(Timestamp::from_unix_ms(1_700_000_000_030)),
        verdicts: GateName::ALL.iter().map(passed).collect(),
        class: Some(TaxonomyClass::Success),
        answer_digest: Some(digest),
        policy: Some(PolicyRecord::default()),
        ..serde_json::from_str(PLAIN).unwrap()
    }
}

#[test]
fn a_call_is_counted_once_by_everything_that_it_is() {
    let metrics = metrics(100);
    metrics.call_ended(&completed("company.get_invoice", EffectClass::R));
    let page = text(&metrics);
    let plain = "{tool=\"company.get_invoice\",version=\"1.2.0\"}";
    for (sample, expected) in [
        ("servanda_tool_invocations_total{tool=\"company.get_invoice\",version=\"1.2.0\",status=\"completed\",mutation_class=\"read_only\"}".to_owned(), "1"),
        (format!("servanda_tool_schema_valid_total{plain}"), "1"),
        (format!("servanda_tool_schema_valid_first_try_total{plain}"), "1"),
        (format!("servanda_tool_semantic_valid_total{plain}"), "1"),
        (format!("servanda_tool_executions_total{plain}"), "1"),
        (format!("servanda_tool_complete_records_total{plain}"), "1"),
        ("servanda_gateway_overhead_seconds_sum{kind=\"read\"}".to_owned(), "0.000140"),
        ("servanda_gateway_overhead_seconds_count{kind=\"read\"}".to_owned(), "1"),
        ("servanda_gate_decisions_total{gate=\"perform\",decision=\"passed\"}".to_owned(), "1"),
        ("servanda_gate_seconds_total{gate=\"perform\"}".to_owned(), "0.020000"),
        ("servanda_late_answers_total".to_owned(), "0"),
    ] {
        assert_eq!(value(&page, &sample).as_deref(), Some(expected), "{sample}\n{page}");
    }
    let mcp = "mcp_method_name=\"tools/call\",gen_ai_operation_name=\"execute_tool\",gen_ai_tool_name=\"company.get_invoice\",error_type=\"\"";
    assert_eq!(
        value(&page, &format!("mcp_server_operation_duration_seconds_sum{{{mcp}}}")).as_deref(),
        Some("0.030000")
    );
    assert_eq!(
        value(&page, &format!("mcp_client_operation_duration_seconds_sum{{{mcp}}}")).as_deref(),
        Some("0.020000")
    );
    let bucket = |le: &str| format!("mcp_client_operation_duration_seconds_bucket{{{mcp},le=\"{le}\"}}");
    assert_eq!(value(&page, &bucket("0.01")).as_deref(), Some("0"));
    assert_eq!(value(&page, &bucket("0.02")).as_deref(), Some("1"));
    assert_eq!(value(&page, &bucket("+Inf")).as_deref(), Some("1"));
    for absent in [
        "servanda_tool_mutating",
        "servanda_tool_failures",
        "servanda_tool_cost",
        "servanda_tool_timeouts",
        "\"other\"",
    ] {
        assert!(!page.contains(absent), "{absent}: {page}");
    }
}

#[test]
fn what_a_change_cost_and_how_often_it_was_sent_is_counted_by_tool_task_and_caller() {
    let metrics = metrics(100);
    let mut record = completed("company.pay_invoice", EffectClass::K);
    let cost = Cost { compute_micros: 250_000, external_api_micros: 2_000_001, ..Cost::default() };
    record.price = Some(Box::new(Price { currency: "EUR".to_owned(), cost }));
    record.attempts = Some(3);
    record.policy = Some(PolicyRecord { task: Some("invoices".to_owned()), ..PolicyRecord::default() });
    let actors = vec![CallerActor { name: "planner".to_owned(), proven: true }];
    record.caller = Arc::new(Caller { actors, ..Caller::named("acme", "ada") });
    metrics.call_ended(&record);
    // A call that was refused costs nothing.
    metrics.call_ended(&CallRecord { dispatched_at: None, outcome: Outcome::Refused, ..record });
    let page = text(&metrics);
    let plain = "{tool=\"company.pay_invoice\",version=\"1.2.0\"}";
    for (sample, expected) in [
        ("servanda_tool_cost_total{tool=\"company.pay_invoice\",version=\"1.2.0\",category=\"external_api\",currency=\"EUR\"}".to_owned(), "2.000001"),
        ("servanda_tool_cost_total{tool=\"company.pay_invoice\",version=\"1.2.0\",category=\"compute\",currency=\"EUR\"}".to_owned(), "0.250000"),
        ("servanda_task_cost_total{task=\"invoices\",currency=\"EUR\"}".to_owned(), "2.250001"),
        ("servanda_caller_cost_total{tenant=\"acme\",principal=\"ada\",agent=\"planner\",currency=\"EUR\"}".to_owned(), "2.250001"),
        (format!("servanda_tool_retries_total{plain}"), "2"),
        (format!("servanda_tool_retried_calls_total{plain}"), "1"),
        (format!("servanda_tool_retry_successes_total{plain}"), "1"),
        (format!("servanda_tool_mutating_proposals_total{plain}"), "2"),
        (format!("servanda_tool_mutating_observations_total{plain}"), "1"),
        (format!("servanda_tool_verification_required_total{plain}"), "1"),
        ("servanda_tool_invocation_duration_seconds_count{tool=\"company.pay_invoice\",version=\"1.2.0\",timeout_class=\"standard\"}".to_owned(), "2"),
    ] {
        assert_eq!(value(&page, &sample).as_deref(), Some(expected), "{sample}\n{page}");
    }
}

/// Each end of a call, and what it counts as.
#[test]
fn every_end_has_its_counter() {
    type Change = fn(&mut CallRecord);
    let table: [(&str, Change); 9] = [
        ("servanda_tool_timeouts_total", |record| {
            (record.outcome, record.class) = (Outcome::Unknown, Some(TaxonomyClass::Timeout));
        }),
        ("servanda_tool_idempotency_replays_total", |record| record.outcome = Outcome::Replayed),
        ("servanda_tool_idempotency_conflicts_total", |record| {
            (record.outcome, record.class) = (Outcome::Refused, Some(TaxonomyClass::IdempotencyConflict));
        }),
        ("servanda_tool_normalization_failures_total", |record| record.outcome = Outcome::Quarantined),
        ("servanda_tool_schema_failures_total", |record| record.outcome = Outcome::Quarantined),
        ("servanda_tool_confirmations_required_total", |record| record.ticket_id = Some("tkt_1".to_owned())),
        ("servanda_tool_compensations_required_total", |record| {
            record.class = Some(TaxonomyClass::CompensationRequired);
        }),
        ("servanda_tool_compensations_failed_total", |record| record.class = Some(TaxonomyClass::CompensationFailed)),
        ("servanda_tool_failures_total", |record| record.class = Some(TaxonomyClass::PermissionDenied)),
    ];
    for (name, change) in table {
        let metrics = metrics(100);
        let plain = completed("company.pay_invoice", EffectClass::K);
        metrics.call_ended(&plain);
        assert!(!text(&metrics).contains(name), "{name} counts a call that completed");
        let mut record = plain;
        change(&mut record);
        metrics.call_ended(&record);
        assert!(text(&metrics).contains(&format!("\n{name}{{")), "{name}");
    }
}

#[test]
fn both_forms_say_the_same_and_only_open_metrics_has_examples() {
    let metrics = metrics(100);
    metrics.call_ended(&completed("company.get_invoice", EffectClass::R));
    metrics.approval_requested("company.pay_invoice");
    metrics.approval_resolved("company.pay_invoice", "denied", 61_000);
    metrics.door_rejected("malformed");
    let around = Surroundings {
        pending_approvals: Some(vec![PendingApprovals {
            tool: "company.pay_invoice".to_owned(),
            group: "treasury".to_owned(),
            count: 2,
        }]),
        unknown_effects: Some(1),
        log_leaves: Some(10),
        log_leaves_unsigned: Some(2),
        store_takes_writes: true,
        upstreams: vec![("company".to_owned(), true), ("broken".to_owned(), false)],
        version: "0.1.0",
        started_at: Some(Timestamp::from_unix_ms(1_700_000_000_000)),
        ..Surroundings::default()
    };
    let (plain, open) = (metrics.page(&around, PageFormat::Text), metrics.page(&around, PageFormat::OpenMetrics));
    for line in [
        "servanda_tool_approvals_pending{tool=\"company.pay_invoice\",approver_group=\"treasury\"} 2",
        "servanda_tool_approval_requests_total{tool=\"company.pay_invoice\"} 1",
        "servanda_tool_approval_resolution_seconds_bucket{tool=\"company.pay_invoice\",resolution=\"denied\",le=\"300.0\"} 1",
        "servanda_door_rejections_total{reason=\"malformed\"} 1",
        "servanda_upstream_up{upstream=\"broken\"} 0",
        "servanda_unknown_effects 1",
        "servanda_log_leaves_unsigned 2",
        "servanda_start_time_seconds 1700000000",
        "servanda_build_info{version=\"0.1.0\"} 1",
    ] {
        assert!(plain.contains(&format!("\n{line}\n")), "{line}\n{plain}");
        assert!(open.contains(&format!("\n{line}\n")), "{line}\n{open}");
    }
    let samples = |page: &str| -> Vec<String> {
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| line.split(" # ").next().unwrap().to_owned()).collect()
    };
    assert_eq!(samples(&plain), samples(&open));
    assert!(!plain.contains("trace_id") && !plain.contains("# EOF"), "{plain}");
    assert!(plain.contains("# TYPE servanda_tool_invocations_total counter"), "{plain}");
    assert!(open.contains("# TYPE servanda_tool_invocations counter") && open.ends_with("\n# EOF\n"), "{open}");
    let example = "le=\"0.05\"} 1 # {trace_id=\"0af7651916cd43dd8448eb211c80319c\"} 0.030000 1700000000.030";
    assert!(open.contains(example), "{open}");
}

/// A repaired call is no first try; the chain ends with it.
#[test]
fn a_call_after_a_refusal_is_a_repair() {
    let metrics = metrics(100);
    let passed = completed("company.get_invoice", EffectClass::R);
    metrics.open_repairs.opened(&passed);
    metrics.call_ended(&passed);
    metrics.call_ended(&passed);
    let page = text(&metrics);
    let plain = "{tool=\"company.get_invoice\",version=\"1.2.0\"}";
    assert_eq!(value(&page, &format!("servanda_tool_repairs_total{plain}")).as_deref(), Some("1"));
    assert_eq!(value(&page, &format!("servanda_tool_schema_valid_total{plain}")).as_deref(), Some("2"));
    assert_eq!(value(&page, &format!("servanda_tool_schema_valid_first_try_total{plain}")).as_deref(), Some("1"));
}

/// Half a minute that people take is not the gateway's.
#[test]
fn waiting_for_people_is_no_overhead() {
    let metrics = metrics(100);
    let mut record = completed("company.pay_invoice", EffectClass::K);
    record.ticket_id = Some("tkt_1".to_owned());
    for verdict in record.verdicts.iter_mut().filter(|verdict| verdict.gate == GateName::Confirmation) {
        verdict.took_us = 30_000_000;
    }
    metrics.call_ended(&record);
    let page = text(&metrics);
    let sum = value(&page, "servanda_gateway_overhead_seconds_sum{kind=\"change\"}");
    assert_eq!(sum.as_deref(), Some("0.000130"), "{page}");
    assert_eq!(value(&page, "servanda_gate_seconds_total{gate=\"confirmation\"}").as_deref(), Some("30"));
}

#[test]
fn a_late_answer_is_no_call() {
    let metrics = metrics(100);
    let mut record = completed("company.get_invoice", EffectClass::R);
    record.continues = Some(CallId::from("first".to_owned()));
    let client = Some(servanda_contract::record::LATE_ANSWER_CLIENT.to_owned());
    record.caller = Arc::new(Caller { client, ..Caller::named("acme", "ada") });
    metrics.call_ended(&record);
    let page = text(&metrics);
    assert_eq!(value(&page, "servanda_late_answers_total").as_deref(), Some("1"));
    assert!(!page.contains("servanda_tool_"), "{page}");
}

#[test]
fn names_are_what_monitors_accept() {
    for metric in Metric::ALL {
        let name = metric.name();
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        let is_counter = metric.kind() == super::MetricKind::Counter;
        assert_eq!(name.ends_with("_total"), is_counter, "{name}");
        assert!(!metric.help().contains(['\n', '\\']), "{name}");
    }
    let mut names = Metric::ALL.map(Metric::name).to_vec();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), Metric::ALL.len());
}
