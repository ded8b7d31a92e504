//! Counts of calls, added up by slot and over the whole time. Pure.

use std::collections::BTreeMap;

use servanda_contract::{GateName, record::Outcome};
use servanda_effects::call_history::{CallCount, CallMeasure, LatencyBucket};

use super::range::OverviewSlots;

/// How calls ended, as the plot groups it.
pub(super) const GROUPS: [OutcomeGroup; 5] = [
    OutcomeGroup { name: "completed", style: "good", outcomes: &[Outcome::Completed, Outcome::Replayed] },
    OutcomeGroup { name: "refused", style: "warn", outcomes: &[Outcome::Refused] },
    OutcomeGroup { name: "failed", style: "bad", outcomes: &[Outcome::ToolError, Outcome::NotExecuted] },
    OutcomeGroup { name: "unknown or kept back", style: "grave", outcomes: &[Outcome::Unknown, Outcome::Quarantined] },
    OutcomeGroup {
        name: "goes on, or dry run",
        style: "waiting",
        outcomes: &[Outcome::InputRequired, Outcome::TaskCreated, Outcome::Previewed],
    },
];

/// The percentiles that are shown, in hundredths.
pub(super) const PERCENTILES: [(u64, &str); 3] = [(50, "p50"), (95, "p95"), (99, "p99")];

/// Outcomes that are plotted together.
pub(super) struct OutcomeGroup {
    pub(super) name: &'static str,
    pub(super) style: &'static str,
    outcomes: &'static [Outcome],
}

/// Durations of calls, by range.
#[derive(Debug, Clone, Default)]
pub(super) struct Latencies(BTreeMap<LatencyBucket, u64>);

/// The sums of a time, by slot and whole.
#[derive(Debug)]
pub(super) struct OverviewSums {
    /// By slot, how many calls of each group.
    pub(super) groups: Vec<[u64; GROUPS.len()]>,
    /// By slot, how long calls took.
    pub(super) latencies: Vec<Latencies>,
    /// All calls, by outcome.
    pub(super) outcomes: BTreeMap<&'static str, u64>,
    /// How long all of them took.
    pub(super) all_latencies: Latencies,
    /// Calls that were refused or failed, by stage.
    pub(super) gates: BTreeMap<GateName, u64>,
    /// By currency, by slot, in millionths.
    pub(super) spend: BTreeMap<String, Vec<u64>>,
}

impl OverviewSums {
    /// Adds counts up.
    pub(super) fn new(slots: &OverviewSlots, counts: Vec<CallCount>) -> Self {
        let mut sums = Self {
            groups: vec![[0; GROUPS.len()]; slots.count],
            latencies: vec![Latencies::default(); slots.count],
            outcomes: BTreeMap::new(),
            all_latencies: Latencies::default(),
            gates: BTreeMap::new(),
            spend: BTreeMap::new(),
        };
        for CallCount { start_ms, measure, amount } in counts {
            if let Some(slot) = slots.slot_of(start_ms) {
                sums.add(slot, slots.count, measure, amount);
            }
        }
        sums
    }

    /// How many calls ended.
    pub(super) fn total(&self) -> u64 {
        self.outcomes.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    fn add(&mut self, slot: usize, slots: usize, measure: CallMeasure, amount: u64) {
        match measure {
            CallMeasure::Outcome(outcome) => {
                add(self.outcomes.entry(outcome.name()).or_default(), amount);
                let group = GROUPS.iter().position(|group| group.outcomes.contains(&outcome));
                let sums = self.groups.get_mut(slot);
                if let Some(sum) = sums.zip(group).and_then(|(sums, group)| sums.get_mut(group)) {
                    add(sum, amount);
                }
            }
            CallMeasure::RefusedAt(gate) => add(self.gates.entry(gate).or_default(), amount),
            CallMeasure::Took(bucket) => {
                self.all_latencies.add(bucket, amount);
                if let Some(latencies) = self.latencies.get_mut(slot) {
                    latencies.add(bucket, amount);
                }
            }
            CallMeasure::Spend(currency) => {
                let sums = self.spend.entry(currency).or_insert_with(|| vec![0; slots]);
                if let Some(sum) = sums.get_mut(slot) {
                    add(sum, amount);
                }
            }
        }
    }
}

impl Latencies {
    fn add(&mut self, bucket: LatencyBucket, amount: u64) {
        add(self.0.entry(bucket).or_default(), amount);
    }

    /// The longest duration of the range that so many hundredths of the calls are in or below. None without calls.
    pub(super) fn percentile(&self, hundredths: u64) -> Option<u64> {
        let total: u128 = self.0.values().map(|count| u128::from(*count)).sum();
        let needed = (total * u128::from(hundredths)).div_ceil(100);
        let mut seen = 0;
        self.0.iter().find_map(|(bucket, count)| {
            seen += u128::from(*count);
            (seen >= needed && total > 0).then(|| bucket.ms_max())
        })
    }
}

fn add(sum: &mut u64, amount: u64) {
    *sum = sum.saturating_add(amount);
}

#[cfg(test)]
mod tests {
    use servanda_contract::{Timestamp, record::Outcome};
    use servanda_effects::call_history::{CallCount, CallMeasure, LatencyBucket};

    use super::{GROUPS, OverviewSums};
    use crate::pages::overview::range::OverviewRange;

    #[test]
    fn every_outcome_that_ends_a_call_is_in_one_group() {
        for outcome in Outcome::ALL {
            let groups = GROUPS.iter().filter(|group| group.outcomes.contains(&outcome)).count();
            assert_eq!(groups, usize::from(outcome != Outcome::Dispatching), "{outcome:?}");
        }
    }

    #[test]
    fn percentiles_are_the_ends_of_ranges() {
        let slots = OverviewRange::Hour.slots(Timestamp::from_unix_ms(86_400_000));
        let took = |ms: u64, amount: u64| CallCount {
            start_ms: slots.from_ms,
            measure: CallMeasure::Took(LatencyBucket::of_ms(ms)),
            amount,
        };
        let sums = OverviewSums::new(&slots, vec![took(3, 94), took(100, 4), took(5_000, 2)]);
        let at = |hundredths| sums.all_latencies.percentile(hundredths);
        assert_eq!((at(50), at(94)), (Some(3), Some(3)));
        assert_eq!((at(95), at(98)), (Some(111), Some(111)));
        assert_eq!(at(99), Some(LatencyBucket::of_ms(5_000).ms_max()));
        assert_eq!(sums.latencies[0].percentile(50), Some(3));
        assert_eq!(sums.latencies[1].percentile(50), None);
    }

    #[test]
    fn counts_outside_the_time_do_not_count() {
        let slots = OverviewRange::Hour.slots(Timestamp::from_unix_ms(86_400_000));
        let one = |start_ms: u64| CallCount { start_ms, measure: CallMeasure::Outcome(Outcome::Refused), amount: 1 };
        let sums =
            OverviewSums::new(&slots, vec![one(slots.from_ms - 60_000), one(slots.from_ms), one(slots.until_ms())]);
        assert_eq!(sums.total(), 1);
        assert_eq!(sums.groups[0], [0, 1, 0, 0, 0]);
    }
}
