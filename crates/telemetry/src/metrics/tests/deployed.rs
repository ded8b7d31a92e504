//! What is delivered beside the gateway uses no metric that does not exist: rules, alerts, their tests, the dashboard and the document.

use std::{collections::BTreeSet, fs, path::PathBuf};

use crate::metrics::Metric;

/// Read from the tree, relative to its root.
const FILES: [&str; 6] = [
    "deploy/prometheus/recording-rules.yaml",
    "deploy/prometheus/alerts.yaml",
    "deploy/prometheus/alerts-test.yaml",
    "deploy/grafana/servanda.json",
    "docs/telemetry.md",
    "trials/telemetry/run",
];
/// Names in them that are no metrics.
const NOT_METRICS: [&str; 2] = ["mcp_method_name", "servanda:metrics"];

fn read(file: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Words of lower-case letters, digits, `_` and `:` that begin like ours.
fn names(text: &str) -> BTreeSet<&str> {
    let is_part = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | ':');
    let words = text.split(|character| !is_part(character));
    words.filter(|word| ["servanda_", "servanda:", "mcp_"].iter().any(|begin| word.starts_with(begin))).collect()
}

#[test]
fn every_name_in_a_panel_a_rule_or_the_document_exists() {
    let rules = read(FILES[0]);
    let recorded: BTreeSet<&str> = rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).collect();
    assert!(recorded.len() >= 29, "the nine and the twenty have their rates: {recorded:?}");
    let samples: BTreeSet<String> = Metric::ALL.iter().flat_map(|metric| metric.sample_names()).collect();
    for file in FILES {
        let text = read(file);
        let found = names(&text);
        assert!(!found.is_empty(), "{file} names no metric");
        for name in found {
            let is_family = file.starts_with("docs/") && Metric::ALL.iter().any(|metric| metric.name() == name);
            let is_known =
                samples.contains(name) || recorded.contains(name) || NOT_METRICS.contains(&name) || is_family;
            assert!(is_known, "{file} names `{name}`, which does not exist");
        }
    }
}

#[test]
fn every_metric_is_in_the_document_and_every_alert_has_a_test() {
    let (document, tests) = (read("docs/telemetry.md"), read("deploy/prometheus/alerts-test.yaml"));
    for metric in Metric::ALL {
        assert!(
            document.contains(&format!("`{}`", metric.name())),
            "docs/telemetry.md does not name {}",
            metric.name()
        );
    }
    let alerts = read("deploy/prometheus/alerts.yaml");
    for alert in alerts.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname: {alert}\n")), "{alert} has no test");
        assert!(document.contains(alert), "docs/telemetry.md does not name {alert}");
    }
}
