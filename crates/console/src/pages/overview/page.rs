//! The page of the overview.

use askama::Template;
use http::StatusCode;
use servanda_contract::{Timestamp, legibility, record::Outcome};
use servanda_doors::http::PageRequest;
use servanda_effects::call_history::CountsQuery;

use super::{
    chart::{self, ChartRow, ChartSeries, TimeChart},
    range::{OverviewRange, OverviewSlots},
    sums::{GROUPS, OverviewSums, PERCENTILES},
};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form,
    reply::ConsoleReply,
    routing::{CALLS, HOME, INBOX},
    view::PageFrame,
};

/// Waiting tickets that are counted.
const WAITING_MAX: u32 = 1_000;
/// Currencies that are plotted.
const CURRENCIES_MAX: usize = 3;
/// The colours of percentiles.
const PERCENTILE_STYLES: [&str; 3] = ["good", "warn", "bad"];

#[derive(Template)]
#[template(path = "overview.html")]
struct OverviewPage {
    frame: PageFrame,
    ranges: Vec<RangeLink>,
    /// How many tickets wait; none for a person who sees only some of them.
    waiting: Option<String>,
    inbox: &'static str,
    calls: String,
    /// None for a person without a role.
    numbers: Option<OverviewNumbers>,
}

/// What the overview shows about a tenant.
struct OverviewNumbers {
    is_empty: bool,
    total: String,
    outcomes: Vec<NumberRow>,
    outcome_chart: TimeChart,
    percentiles: Vec<NumberRow>,
    latency_chart: TimeChart,
    gates: Vec<NumberRow>,
    spend: Vec<SpendChart>,
}

struct RangeLink {
    href: String,
    label: &'static str,
    is_chosen: bool,
}

/// A name and a number, with the calls that it is about.
struct NumberRow {
    name: String,
    value: String,
    href: Option<String>,
    /// The bar beside it, in parts of the drawing's width.
    level: u64,
}

struct SpendChart {
    currency: String,
    total: String,
    chart: TimeChart,
}

/// Shows the overview.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let range = OverviewRange::read(form::parameter(request.uri.query(), "within").as_deref());
    let (waiting, numbers) = if viewer.has_role() {
        (Some(waiting(context, &viewer).await?), Some(numbers(context, &viewer, range).await?))
    } else {
        // Counts are of the whole tenant.
        (None, None)
    };
    let link = |one: OverviewRange| RangeLink {
        href: format!("{HOME}?within={}", one.word()),
        label: one.label(),
        is_chosen: one == range,
    };
    let page = OverviewPage {
        frame: PageFrame::of("Overview", &viewer.signed_in),
        ranges: OverviewRange::EVERY.map(link).into(),
        waiting,
        inbox: INBOX,
        calls: format!("{CALLS}?within={}", range.word()),
        numbers,
    };
    Ok(ConsoleReply::page(StatusCode::OK, &page))
}

async fn waiting(context: &ConsoleContext, viewer: &ConsoleViewer) -> Result<String, PageFault> {
    let tickets = context.approvals().tickets();
    let count = tickets.count_pending(Some(viewer.tenant().to_owned()), WAITING_MAX + 1).await?;
    Ok(if count > WAITING_MAX { "1,000+".to_owned() } else { count.to_string() })
}

async fn numbers(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    range: OverviewRange,
) -> Result<OverviewNumbers, PageFault> {
    let slots = range.slots(context.now());
    let (from_ms, until_ms) = (slots.from_ms, slots.until_ms());
    let query = CountsQuery { tenant: viewer.tenant().to_owned(), width: slots.width, from_ms, until_ms };
    let sums = OverviewSums::new(&slots, context.history.call_counts(query).await?);
    let calls = |field: &str, value: &str| Some(format!("{CALLS}?{field}={value}&within={}", range.word()));
    let row = |name: String, count: u64, top: u64, href| NumberRow {
        name,
        value: grouped(count),
        href,
        level: chart::level(count, top),
    };
    let top = sums.outcomes.values().copied().max().unwrap_or_default();
    let outcome = |outcome: Outcome| {
        let count = sums.outcomes.get(outcome.name()).copied()?;
        Some(row(outcome.name().replace('_', " "), count, top, calls("outcome", outcome.name())))
    };
    let top_gate = sums.gates.values().copied().max().unwrap_or_default();
    let gates = sums.gates.iter();
    Ok(OverviewNumbers {
        is_empty: sums.total() == 0,
        total: grouped(sums.total()),
        outcomes: Outcome::ALL.into_iter().filter_map(outcome).collect(),
        outcome_chart: outcome_chart(&slots, &sums),
        percentiles: percentiles(&sums),
        latency_chart: latency_chart(&slots, &sums),
        gates: gates
            .map(|(gate, count)| row(gate.to_string(), *count, top_gate, calls("gate", &gate.to_string())))
            .collect(),
        spend: sums
            .spend
            .iter()
            .take(CURRENCIES_MAX)
            .map(|(currency, by_slot)| spend(&slots, currency, by_slot))
            .collect(),
    })
}

fn outcome_chart(slots: &OverviewSlots, sums: &OverviewSums) -> TimeChart {
    let values: Vec<Vec<u64>> = sums.groups.iter().map(|groups| groups.to_vec()).collect();
    let most = values.iter().map(|groups| groups.iter().sum::<u64>()).max().unwrap_or_default();
    let series = GROUPS.iter().map(|group| ChartSeries { name: group.name.to_owned(), style: group.style });
    TimeChart {
        bars: chart::stacked(&values, &GROUPS.map(|group| group.style)),
        rows: rows(
            slots,
            values.iter().map(|groups| groups.iter().map(|count| Some(*count).filter(|count| *count > 0)).collect()),
            grouped,
        ),
        series: series.collect(),
        ..empty_chart(
            slots,
            format!("{} calls by outcome over time; at most {} in one bar", grouped(sums.total()), grouped(most)),
            grouped(most),
        )
    }
}

fn percentiles(sums: &OverviewSums) -> Vec<NumberRow> {
    let top = sums.all_latencies.percentile(99).unwrap_or_default();
    let row = |(hundredths, name): (u64, &str)| {
        let ms = sums.all_latencies.percentile(hundredths)?;
        let (name, value) = (name.to_owned(), format!("≤ {}", duration(ms)));
        Some(NumberRow { name, value, href: None, level: chart::level(ms, top) })
    };
    PERCENTILES.into_iter().filter_map(row).collect()
}

fn latency_chart(slots: &OverviewSlots, sums: &OverviewSums) -> TimeChart {
    let of = |one: &super::sums::Latencies| PERCENTILES.map(|(hundredths, _)| one.percentile(hundredths)).to_vec();
    let values: Vec<Vec<Option<u64>>> = sums.latencies.iter().map(of).collect();
    let most = values.iter().flatten().flatten().copied().max().unwrap_or_default();
    let series = PERCENTILES.iter().zip(PERCENTILE_STYLES);
    TimeChart {
        steps: chart::steps(&values, &PERCENTILE_STYLES),
        rows: rows(slots, values.iter().cloned(), duration),
        series: series.map(|((_, name), style)| ChartSeries { name: (*name).to_owned(), style }).collect(),
        ..empty_chart(
            slots,
            format!("Percentiles of how long calls took over time; at most {}", duration(most)),
            duration(most),
        )
    }
}

fn spend(slots: &OverviewSlots, currency: &str, by_slot: &[u64]) -> SpendChart {
    let values: Vec<Vec<u64>> = by_slot.iter().map(|micros| vec![*micros]).collect();
    let total = by_slot.iter().fold(0, |sum: u64, micros| sum.saturating_add(*micros));
    let most = by_slot.iter().copied().max().unwrap_or_default();
    let currency = legibility::one_line(currency);
    let chart = TimeChart {
        bars: chart::stacked(&values, &["waiting"]),
        rows: rows(slots, by_slot.iter().map(|micros| vec![Some(*micros).filter(|micros| *micros > 0)]), money),
        series: vec![ChartSeries { name: currency.clone(), style: "waiting" }],
        ..empty_chart(slots, format!("At most {} {currency} over time", money(total)), money(most))
    };
    SpendChart { total: money(total), currency, chart }
}

fn empty_chart(slots: &OverviewSlots, summary: String, top: String) -> TimeChart {
    let (from, until) = (label(slots, 0), label(slots, slots.count));
    TimeChart { summary, top, from, until, series: Vec::new(), bars: Vec::new(), steps: Vec::new(), rows: Vec::new() }
}

/// The slots that have a value, the newest first.
fn rows(
    slots: &OverviewSlots,
    values: impl Iterator<Item = Vec<Option<u64>>>,
    shown: fn(u64) -> String,
) -> Vec<ChartRow> {
    let row = |(slot, values): (usize, Vec<Option<u64>>)| {
        let values = values.into_iter().map(|value| value.map_or_else(|| "–".to_owned(), shown)).collect();
        ChartRow { label: label(slots, slot), values }
    };
    let mut rows: Vec<ChartRow> =
        values.enumerate().filter(|(_, values)| values.iter().any(Option::is_some)).map(row).collect();
    rows.reverse();
    rows
}

/// When a slot begins: `11-19 03:40`.
fn label(slots: &OverviewSlots, slot: usize) -> String {
    let text = Timestamp::from_unix_ms(slots.start_ms(slot)).to_string();
    text.get(5..16).unwrap_or(&text).replace('T', " ")
}

/// A number with commas between its thousands.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn duration(ms: u64) -> String {
    if ms < 10_000 { format!("{} ms", grouped(ms)) } else { format!("{} s", grouped(ms / 1_000)) }
}

/// Millionths as an amount with two digits, rounded up.
fn money(micros: u64) -> String {
    let cents = micros.div_ceil(10_000);
    format!("{}.{:02}", grouped(cents / 100), cents % 100)
}

#[cfg(test)]
mod tests {
    use super::{duration, grouped, money};

    #[test]
    fn numbers_as_people_read_them() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 9_999, 10_000, 3_600_000].map(duration), ["0 ms", "9,999 ms", "10 s", "3,600 s"]);
        assert_eq!([0, 1, 250_000, 1_234_560_000].map(money), ["0.00", "0.01", "0.25", "1,234.56"]);
    }
}
