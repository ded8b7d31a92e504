//! What is counted about calls, by minute and by hour: how they ended, which stage refused them, how long they took, and what they may have
//! cost. Pure: a record in, counts out. A store adds them up in the transaction that writes the record.
//!
//! A call is counted when a record of its end is written, at the time at which it was received. A call that the upstream turns into a task is
//! counted as such, and again when it has ended. A call under way is not counted.

use std::fmt;

use servanda_contract::{CallRecord, GateName, record::Outcome};

/// Characters of a currency that are counted apart.
const CURRENCY_CHARS_MAX: usize = 32;

/// How long the time is that one count covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountWidth {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

/// What is counted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallMeasure {
    /// Calls that ended so.
    Outcome(Outcome),
    /// Calls that this stage refused, or that failed there.
    RefusedAt(GateName),
    /// Calls that were sent and took so long, from their receipt to their answer.
    Took(LatencyBucket),
    /// The most that the calls that were sent may cost by their contracts, in millionths of this currency.
    Spend(String),
}

/// A range of durations: whole milliseconds up to four, then four ranges from each power of two to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LatencyBucket(u16);

/// What a count is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallCountKey {
    /// The tenant.
    pub tenant: String,
    /// How long the time is.
    pub width: CountWidth,
    /// When it begins, in milliseconds since the epoch.
    pub start_ms: u64,
    /// What is counted.
    pub measure: CallMeasure,
}

/// A count of one tenant's calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallCount {
    /// When its time begins, in milliseconds since the epoch.
    pub start_ms: u64,
    /// What is counted.
    pub measure: CallMeasure,
    /// How many, or how much.
    pub amount: u64,
}

/// Which counts to read: those of times that begin within a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountsQuery {
    /// The tenant.
    pub tenant: String,
    /// How long each time is.
    pub width: CountWidth,
    /// Not before this time, in milliseconds since the epoch.
    pub from_ms: u64,
    /// Before this time.
    pub until_ms: u64,
}

/// What a record adds to the counts.
pub fn counted(record: &CallRecord) -> impl Iterator<Item = (CallCountKey, u64)> + '_ {
    let received_ms = record.received_at.unix_ms();
    measured(record).flat_map(move |(measure, amount)| {
        let key = move |width: CountWidth| CallCountKey {
            tenant: record.caller.tenant.clone(),
            width,
            start_ms: width.start_of(received_ms),
            measure: measure.clone(),
        };
        CountWidth::ALL.into_iter().map(move |width| (key(width), amount))
    })
}

/// What is counted of a record, for its minute and for its hour alike. Asks for no memory, unless the call has a price.
pub fn measured(record: &CallRecord) -> impl Iterator<Item = (CallMeasure, u64)> {
    let mut measures = [None, None, None, None];
    if record.outcome != Outcome::Dispatching {
        let [outcome, refused_at, took, spent] = &mut measures;
        *outcome = Some((CallMeasure::Outcome(record.outcome), 1));
        *refused_at = record.refused_at().map(|gate| (CallMeasure::RefusedAt(gate), 1));
        let is_sent = record.dispatched_at.is_some() && record.outcome != Outcome::NotExecuted;
        if is_sent && !record.is_late_answer() {
            let bucket = record.finished_at.map(|at| LatencyBucket::of_ms(at.since_ms(record.received_at)));
            *took = bucket.map(|bucket| (CallMeasure::Took(bucket), 1));
            *spent = spend(record);
        }
    }
    measures.into_iter().flatten()
}

fn spend(record: &CallRecord) -> Option<(CallMeasure, u64)> {
    let price = record.price.as_ref().filter(|price| !price.is_free())?;
    let currency = price.currency.chars().filter(|one| !one.is_control()).take(CURRENCY_CHARS_MAX).collect();
    Some((CallMeasure::Spend(currency), price.cost.total_micros().unwrap_or(u64::MAX)))
}

impl CountWidth {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Minute, Self::Hour];

    /// Its length.
    pub const fn ms(self) -> u64 {
        match self {
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
        }
    }

    /// When the time that a moment falls into begins.
    pub const fn start_of(self, at_ms: u64) -> u64 {
        at_ms - at_ms % self.ms()
    }
}

/// The text form in stores.
impl fmt::Display for CallMeasure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Outcome(outcome) => write!(formatter, "outcome.{}", outcome.name()),
            Self::RefusedAt(gate) => write!(formatter, "gate.{gate}"),
            Self::Took(bucket) => write!(formatter, "took.{}", bucket.0),
            Self::Spend(currency) => write!(formatter, "spend.{currency}"),
        }
    }
}

impl CallMeasure {
    /// The measure of that text. None if this version does not know it.
    pub fn from_stored(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once('.')?;
        match kind {
            "outcome" => Outcome::from_name(rest).map(Self::Outcome),
            "gate" => GateName::ALL.into_iter().find(|gate| gate.to_string() == rest).map(Self::RefusedAt),
            "took" => rest.parse().ok().map(|number| Self::Took(LatencyBucket(number))),
            "spend" => Some(Self::Spend(rest.to_owned())),
            _ => None,
        }
    }
}

impl LatencyBucket {
    /// The range of a duration.
    pub fn of_ms(ms: u64) -> Self {
        let Some(power) = ms.checked_ilog2().filter(|power| *power >= 2) else {
            return Self(u16::try_from(ms).unwrap_or_default());
        };
        let quarter = (ms >> (power - 2)) & 3;
        Self(u16::try_from(u64::from(power - 1) * 4 + quarter).unwrap_or(u16::MAX))
    }

    /// The longest duration of the range.
    pub fn ms_max(self) -> u64 {
        let number = u64::from(self.0);
        if number < 4 {
            return number;
        }
        let (power, quarter) = (number / 4 + 1, number % 4);
        let next = u128::from(5 + quarter) << (power.min(63) - 2);
        u64::try_from(next - 1).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_are_read_as_they_are_written() {
        let outcomes = Outcome::ALL.into_iter().map(CallMeasure::Outcome);
        let gates = GateName::ALL.into_iter().map(CallMeasure::RefusedAt);
        let took = [0, 3, 4, 999, u64::MAX].into_iter().map(|ms| CallMeasure::Took(LatencyBucket::of_ms(ms)));
        let spend = ["EUR", "", "a.b"].into_iter().map(|currency| CallMeasure::Spend(currency.to_owned()));
        for measure in outcomes.chain(gates).chain(took).chain(spend) {
            assert_eq!(CallMeasure::from_stored(&measure.to_string()), Some(measure));
        }
        for text in ["", "outcome", "outcome.x", "gate.x", "took.x", "later.1"] {
            assert_eq!(CallMeasure::from_stored(text), None, "{text}");
        }
    }

    #[test]
    fn every_duration_is_in_the_range_that_ends_next() {
        let mut before: Option<LatencyBucket> = None;
        for ms in 0..70_000 {
            let bucket = LatencyBucket::of_ms(ms);
            assert!(bucket.ms_max() >= ms, "{ms}");
            assert!(bucket.ms_max() <= ms + ms / 4, "{ms}: {}", bucket.ms_max());
            if let Some(before) = before.filter(|before| *before != bucket) {
                assert_eq!(before.ms_max() + 1, ms, "ranges have no gap");
                assert!(before < bucket);
            }
            before = Some(bucket);
        }
        assert_eq!(LatencyBucket::of_ms(u64::MAX).ms_max(), u64::MAX);
    }

    #[test]
    fn times_begin_on_the_minute_and_the_hour() {
        assert_eq!(CountWidth::Minute.start_of(3_659_999), 3_600_000);
        assert_eq!(CountWidth::Hour.start_of(7_199_999), 3_600_000);
    }
}
