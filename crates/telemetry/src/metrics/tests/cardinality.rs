//! However many tools, tasks and callers there are, a metric has as many series as the configuration allows, and one for the others.

use std::{collections::BTreeMap, sync::Arc};

use servanda_contract::{
    Caller, Digest,
    cost::{Cost, Price},
    digest::DigestDomain,
    record::{ContractReference, PolicyRecord},
    tool::EffectClass,
};

use super::{completed, metrics, text, value};

const SERIES_MAX: usize = 20;

/// How many series each metric has: buckets of a histogram are one.
fn series(page: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in
        page.lines().filter(|line| !line.starts_with('#') && !line.contains("_bucket{") && !line.contains("_sum{"))
    {
        *counts.entry(line.split(['{', ' ']).next().unwrap().to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_flood_of_names_is_folded_and_counted() {
    let metrics = metrics(SERIES_MAX);
    for number in 0..500 {
        let mut record = completed(&format!("company.tool_{number}"), EffectClass::K);
        record.price = Some(Box::new(Price {
            currency: "EUR".to_owned(),
            cost: Cost { compute_micros: 1_000_000, ..Cost::default() },
        }));
        record.caller = Arc::new(Caller::named("acme", &format!("user-{number}")));
        record.policy = Some(PolicyRecord { task: Some(format!("task-{number}")), ..PolicyRecord::default() });
        metrics.call_ended(&record);
        metrics.approval_requested(&format!("company.tool_{number}"));
        metrics.approval_resolved(&format!("company.tool_{number}"), "denied", 1_000);
    }
    assert!(metrics.tools.all().len() <= SERIES_MAX + 2, "tools that have no series take no memory");
    let page = text(&metrics);
    for (metric, count) in series(&page) {
        let bound = if metric.starts_with("servanda_gate") || metric == "servanda_metric_series_folded_total" {
            60
        } else {
            SERIES_MAX + 1
        };
        assert!(count <= bound, "{metric} has {count} series");
    }
    for (other, expected) in [
        ("servanda_tool_executions_total{tool=\"other\",version=\"\"}", "480"),
        ("servanda_metric_series_folded_total{metric=\"servanda_tool_executions_total\"}", "480"),
        ("servanda_task_cost_total{task=\"other\",currency=\"other\"}", "480"),
        ("servanda_metric_series_folded_total{metric=\"servanda_caller_cost_total\"}", "480"),
        ("servanda_tool_approval_requests_total{tool=\"other\"}", "480"),
    ] {
        assert_eq!(value(&page, other).as_deref(), Some(expected), "{other}\n{page}");
    }
}

/// A tool may have a series for one status and none for another: the limit is for each metric, whichever label it grows by.
#[test]
fn the_limit_is_for_every_metric() {
    let metrics = metrics(SERIES_MAX);
    for number in 0..SERIES_MAX {
        for outcome in servanda_contract::record::Outcome::ALL {
            let mut record = completed(&format!("company.tool_{number}"), EffectClass::R);
            record.outcome = outcome;
            metrics.call_ended(&record);
        }
    }
    let counts = series(&text(&metrics));
    let invocations = counts["servanda_tool_invocations_total"];
    assert!(
        (SERIES_MAX..=SERIES_MAX + servanda_contract::record::Outcome::ALL.len()).contains(&invocations),
        "{invocations}"
    );
    assert_eq!(counts["servanda_tool_executions_total"], SERIES_MAX, "other metrics have room");
}

/// A contract that changes without a new version has the same series.
#[test]
fn many_contracts_of_one_version_are_one_series() {
    let metrics = metrics(SERIES_MAX);
    for number in 0_u32..1_000 {
        let mut record = completed("company.get_invoice", EffectClass::R);
        let digest = Digest::compute(DigestDomain::Contract, &[&number.to_be_bytes()]);
        let of: ContractReference = (**record.contract.as_ref().unwrap()).clone();
        record.contract = Some(Arc::new(ContractReference { digest, ..of }));
        metrics.call_ended(&record);
    }
    let page = text(&metrics);
    let sample = "servanda_tool_executions_total{tool=\"company.get_invoice\",version=\"1.2.0\"}";
    assert_eq!(value(&page, sample).as_deref(), Some("1000"));
    assert!(!page.contains("series_folded"), "{page}");
    assert!(metrics.tools.contracts_known() <= SERIES_MAX * 4, "digests are forgotten");
}

/// The names that agents choose for tools that do not exist are no labels.
#[test]
fn tools_that_do_not_exist_share_one_series() {
    let metrics = metrics(SERIES_MAX);
    for number in 0..100 {
        let mut record = completed(&format!("made.up_{number}"), EffectClass::R);
        (record.contract, record.dispatched_at) = (None, None);
        metrics.call_ended(&record);
    }
    let page = text(&metrics);
    assert!(!page.contains("made.up"), "{page}");
    let sample = "servanda_tool_invocations_total{tool=\"none\",version=\"\",status=\"completed\",mutation_class=\"\"}";
    assert_eq!(value(&page, sample).as_deref(), Some("100"), "{page}");
}
