//! The result of a run, by function and tier.

use std::{collections::BTreeMap, fmt};

use serde_json::Value;

/// The result of a run.
#[derive(Default)]
pub(crate) struct Report {
    functions: BTreeMap<(String, String), Tally>,
}

#[derive(Default)]
struct Tally {
    passed: usize,
    failures: Vec<(String, String)>,
}

impl Report {
    /// Adds the result of a vector.
    pub(crate) fn add(&mut self, vector: &Value, outcome: Result<(), String>) {
        let text = |member| vector.get(member).and_then(Value::as_str).unwrap_or("?").to_owned();
        let tally = self.functions.entry((text("tier"), text("function"))).or_default();
        match outcome {
            Ok(()) => tally.passed += 1,
            Err(why) => tally.failures.push((text("id"), why)),
        }
    }

    /// Whether anything but reference vectors failed.
    pub(crate) fn core_failed(&self) -> bool {
        self.functions.iter().any(|((tier, _), tally)| tier != "reference" && !tally.failures.is_empty())
    }

    /// How many passed and failed.
    pub(crate) fn totals(&self) -> (usize, usize) {
        let passed = self.functions.values().map(|tally| tally.passed).sum();
        (passed, self.functions.values().map(|tally| tally.failures.len()).sum())
    }

    /// How many of a tier failed, by function.
    #[cfg_attr(not(test), expect(dead_code, reason = "the test of this crate asks"))]
    pub(crate) fn failed(&self, of_tier: &str) -> BTreeMap<&str, usize> {
        let failed = self.functions.iter().filter(|((tier, _), tally)| tier == of_tier && !tally.failures.is_empty());
        failed.map(|((_, function), tally)| (function.as_str(), tally.failures.len())).collect()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((tier, function), tally) in self.functions.iter().filter(|(_, tally)| !tally.failures.is_empty()) {
            writeln!(formatter, "{tier} {function}: {} passed, {} failed", tally.passed, tally.failures.len())?;
            for (id, why) in &tally.failures {
                writeln!(formatter, "    {id}: {why}")?;
            }
        }
        let tiers: std::collections::BTreeSet<&String> = self.functions.keys().map(|(tier, _)| tier).collect();
        for tier in tiers {
            let of_tier = || self.functions.iter().filter(|((of, _), _)| of == tier).map(|(_, tally)| tally);
            let passed: usize = of_tier().map(|tally| tally.passed).sum();
            let failed: usize = of_tier().map(|tally| tally.failures.len()).sum();
            writeln!(formatter, "{tier}: {passed} passed, {failed} failed")?;
        }
        let (passed, failed) = self.totals();
        write!(formatter, "{passed} passed, {failed} failed")
    }
}
