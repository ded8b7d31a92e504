//! `servanda tools --latency`: how long recorded calls took, tool by tool, and which time limits do not fit (seed 001 §13.7.5).
//!
//! A time is counted from the moment the gateway sent the call until it had the answer. Only answered calls count; a call that timed out
//! tells only that its tool may take longer than its limit.

use std::{collections::BTreeMap, ops::ControlFlow};

use serde::Serialize;
use servanda_config::LoadedConfig;
use servanda_contract::{CallRecord, TaxonomyClass, ToolContract, record::Outcome, tool::TimeoutClass};
use servanda_ledger::{CallFilter, LOOKED_AT_MAX};

use crate::{
    configuration,
    contracts::{
        self,
        reading::{ContractFolder, LocatedContract},
    },
    failure::CommandFailure,
    screen::{Screen, TextStyle, lines, paint, table},
};

/// How many calls are needed to judge a tool.
const ANSWERED_MIN: usize = 20;
/// How many calls of one tool are counted, the latest.
const ANSWERED_MAX: usize = 5_000;
/// A suggested limit is this many times what nearly every call takes.
const ROOM: u64 = 2;
/// Limits that a person would write, in milliseconds.
const ROUND_MS: [u64; 14] = [
    500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_200_000, 1_800_000,
    3_600_000,
];

/// What the records say about one tool.
#[derive(Debug, Default)]
struct ToolTimings {
    /// How long each answered call took, the latest first.
    took_ms: Vec<u64>,
    timed_out: usize,
}

/// How long calls of one tool take, and what its limit should be.
#[derive(Debug, Serialize)]
struct ToolLatency {
    tool: String,
    contract: String,
    answered: usize,
    timed_out: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_ms: Option<u64>,
    /// The current limit.
    limit_ms: u64,
    /// The class that fits the times, if there are enough calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    fits_class: Option<TimeoutClass>,
    /// The limit that should be used instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    suggested: Option<TimeoutSuggestion>,
}

/// A limit to write into a contract.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct TimeoutSuggestion {
    timeout_ms: u64,
    /// The class that allows this limit, if the current one does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_class: Option<TimeoutClass>,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// What to write and where, as text.
    #[serde(skip)]
    to_write: Option<String>,
}

pub(super) async fn run(loaded: &LoadedConfig, screen: Screen) -> Result<(), CommandFailure> {
    let (seen, stopped) = read(loaded).await?;
    let catalog = crate::wiring::remembered_names::catalog(loaded, contracts::load(loaded)?).await?;
    let written = ContractFolder::read(loaded).map(|folder| folder.written).unwrap_or_default();
    let latencies: Vec<ToolLatency> = catalog
        .entries()
        .filter_map(|(name, entry)| {
            let contract = entry.contract.contract();
            let mut latency = latency(name, contract, seen.get(&contract.identity.name)?);
            if let Some(suggested) = &mut latency.suggested {
                let place = written.iter().find(|one| one.contract.identity.name == contract.identity.name);
                suggested.file = place.map(|one| one.place.file.display().to_string());
                suggested.to_write = place.map(|one| to_write(suggested, one));
            }
            Some(latency)
        })
        .collect();
    if screen.json {
        return screen.json(&latencies);
    }
    if latencies.is_empty() {
        screen.say("no recorded call reached its server");
        return Ok(());
    }
    let mut shown = table(&["tool", "answered", "p50", "p95", "p99", "timed out", "limit"]);
    for one in &latencies {
        let ms = |ms: Option<u64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
        let timed_out = one.timed_out.to_string();
        shown.add_row([
            one.tool.clone(),
            one.answered.to_string(),
            ms(one.p50_ms),
            ms(one.p95_ms),
            ms(one.p99_ms),
            if one.timed_out > 0 { paint(&timed_out, TextStyle::Bad) } else { timed_out },
            super::timeout(one.limit_ms),
        ]);
    }
    screen.data(lines(&shown))?;
    if stopped {
        screen.say(format_args!("note: the newest {LOOKED_AT_MAX} records were looked at"));
    }
    for one in &latencies {
        say(one, screen);
    }
    if latencies.iter().all(|one| one.suggested.is_none()) {
        screen.say(format_args!(
            "no limit has to change; a tool is judged once {ANSWERED_MIN} of its calls were answered or one timed out"
        ));
    } else {
        screen.hint("write what fits, then `servanda check`");
    }
    Ok(())
}

fn say(one: &ToolLatency, screen: Screen) {
    let Some(suggested) = &one.suggested else { return };
    let why = match one.p99_ms {
        _ if one.timed_out > 0 => format!("{} of {} calls timed out", one.timed_out, one.answered + one.timed_out),
        Some(p99_ms) => format!("1 of 100 calls takes {p99_ms} ms or longer"),
        None => return,
    };
    let to_write = suggested.to_write.as_deref().unwrap_or("raise it in its contract");
    screen.say(format_args!("note: {}: {why}; the limit is {}: {to_write}", one.tool, super::timeout(one.limit_ms)));
}

/// The text to paste into a contract, and where: below the tool's entry in a server's file, or as a member of a whole contract.
fn to_write(suggested: &TimeoutSuggestion, written: &LocatedContract) -> String {
    let file = written.place.file.display();
    let limit = ("runtime", format!("timeout_ms: {}", suggested.timeout_ms));
    let class = suggested.timeout_class.map(|class| ("execution", format!("timeout_class: {}", class.word())));
    let members = std::iter::once(limit).chain(class);
    let Some((tool, composed)) = written.place.tool.as_ref().zip(written.composed.as_ref()) else {
        let set: Vec<String> = members.map(|(section, member)| format!("`{section}.{member}`")).collect();
        return format!("set {} in {file}", set.join(" and "));
    };
    let entry: serde_json::Map<String, serde_json::Value> = composed.entry.clone().into();
    let pasted = members.map(|(section, member)| match entry.get(section) {
        // An existing section must not be written a second time.
        Some(_) => format!("`{member}` in its `{section}`"),
        None => format!("`{section}: {{ {member} }}`"),
    });
    format!("write {} below `{tool}:` in {file}", pasted.collect::<Vec<_>>().join(" and "))
}

/// The newest records by contract, and whether there are more.
async fn read(loaded: &LoadedConfig) -> Result<(BTreeMap<String, ToolTimings>, bool), CommandFailure> {
    let place = configuration::ledger_place(loaded)?;
    if place.is_missing() {
        return Err(super::super::calls::nothing_yet(&place));
    }
    let mut seen: BTreeMap<String, ToolTimings> = BTreeMap::new();
    let mut count = |record: CallRecord| {
        add(&mut seen, &record);
        ControlFlow::Continue(())
    };
    let stopped = place.read().await?.ended(&CallFilter::default(), &mut count).await?;
    Ok((seen, stopped.is_some()))
}

fn add(seen: &mut BTreeMap<String, ToolTimings>, record: &CallRecord) {
    let (Some(contract), Some(sent), Some(ended)) = (&record.contract, record.dispatched_at, record.finished_at) else {
        return;
    };
    let answered = matches!(record.outcome, Outcome::Completed | Outcome::ToolError | Outcome::Quarantined);
    let timed_out = record.class == Some(TaxonomyClass::Timeout);
    if !answered && !timed_out {
        return;
    }
    let of_tool = seen.entry(contract.name.clone()).or_default();
    if timed_out {
        of_tool.timed_out += 1;
    } else if of_tool.took_ms.len() < ANSWERED_MAX {
        of_tool.took_ms.push(ended.since_ms(sent));
    }
}

fn latency(tool: &str, contract: &ToolContract, seen: &ToolTimings) -> ToolLatency {
    let mut took_ms = seen.took_ms.clone();
    took_ms.sort_unstable();
    let p99_ms = percentile(&took_ms, 99);
    let limit_ms = contract.timeout_ms();
    let is_enough = took_ms.len() >= ANSWERED_MIN;
    let suggested = suggested_ms(limit_ms, p99_ms.filter(|_| is_enough), seen.timed_out);
    let class_now = contract.execution.as_ref().map(|execution| execution.timeout_class);
    ToolLatency {
        tool: tool.to_owned(),
        contract: contract.identity.name.clone(),
        answered: took_ms.len(),
        timed_out: seen.timed_out,
        p50_ms: percentile(&took_ms, 50),
        p95_ms: percentile(&took_ms, 95),
        p99_ms,
        limit_ms,
        fits_class: p99_ms.filter(|_| is_enough).map(class_of),
        suggested: suggested.map(|timeout_ms| TimeoutSuggestion {
            timeout_ms,
            timeout_class: class_now
                .filter(|class| class.timeout_ms_max() < timeout_ms)
                .map(|_| class_of(timeout_ms.saturating_sub(1))),
            file: None,
            to_write: None,
        }),
    }
}

/// A longer limit, if the current one is too short: calls time out, or nearly do.
fn suggested_ms(limit_ms: u64, p99_ms: Option<u64>, timed_out: usize) -> Option<u64> {
    let wanted_ms = match p99_ms {
        _ if timed_out > 0 => limit_ms.max(p99_ms.unwrap_or(0)).saturating_mul(ROOM),
        Some(p99_ms) if p99_ms.saturating_mul(5) > limit_ms.saturating_mul(4) => p99_ms.saturating_mul(ROOM),
        _ => return None,
    };
    let round_ms = ROUND_MS.into_iter().find(|round_ms| *round_ms >= wanted_ms).unwrap_or(wanted_ms);
    (round_ms > limit_ms).then_some(round_ms)
}

/// The timeout class for what nearly every call takes.
const fn class_of(p99_ms: u64) -> TimeoutClass {
    match p99_ms {
        0..500 => TimeoutClass::Interactive,
        500..5_000 => TimeoutClass::Standard,
        5_000..300_000 => TimeoutClass::LongRunning,
        _ => TimeoutClass::Async,
    }
}

/// A percentile of sorted times: the least time that this many percent of the calls do not exceed.
fn percentile(sorted_ms: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted_ms.len() * percent).div_ceil(100).max(1);
    sorted_ms.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_calls_that_were_made() {
        let times: Vec<u64> = (1..=200).collect();
        assert_eq!(
            [50, 95, 99, 100].map(|percent| percentile(&times, percent)),
            [Some(100), Some(190), Some(198), Some(200)]
        );
        assert_eq!([50, 99].map(|percent| percentile(&[7], percent)), [Some(7), Some(7)]);
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn a_limit_is_raised_only_where_calls_come_near_it() {
        // Limit, 99th percentile, number of timeouts, and the suggested limit.
        let table = [
            (5_000, Some(1_200), 0, None),
            (5_000, Some(4_000), 0, None),
            (5_000, Some(4_001), 0, Some(10_000)),
            (5_000, Some(4_900), 0, Some(10_000)),
            (5_000, Some(900), 1, Some(10_000)),
            (5_000, None, 3, Some(10_000)),
            (30_000, Some(29_000), 2, Some(60_000)),
            (30_000, None, 0, None),
            (3_600_000, Some(3_599_000), 1, Some(7_200_000)),
        ];
        for (limit_ms, p99_ms, timed_out, expected) in table {
            assert_eq!(suggested_ms(limit_ms, p99_ms, timed_out), expected, "{limit_ms} {p99_ms:?} {timed_out}");
        }
    }

    #[test]
    fn classes_are_those_of_the_seed() {
        let table =
            [(499, "interactive"), (500, "standard"), (4_999, "standard"), (5_000, "long_running"), (300_000, "async")];
        for (p99_ms, expected) in table {
            assert_eq!(class_of(p99_ms).word(), expected);
        }
    }
}
