//! Which calls are exported: all about which something is remarkable, and a share of the rest.

use servanda_contract::{CallRecord, record::Outcome, trace::ParentSpan};

/// The digits of a trace id by which the share is decided: the first of those that W3C's second level says are random. Others who sample by
/// the same digits keep the same traces.
const RANDOM_DIGITS: std::ops::Range<usize> = 18..26;

/// The rules.
#[derive(Debug, Clone, Copy)]
pub(super) struct SamplingRules {
    /// The share of the rest, from 0 to 1.
    pub(super) share: f64,
    /// From this on, a call is slow.
    pub(super) slow_ms: u64,
}

impl SamplingRules {
    /// Whether the spans of a call are exported. The caller's decision counts where it made one, the share where it made none.
    pub(super) fn keeps(&self, record: &CallRecord) -> bool {
        let parent = record.trace.parent;
        self.is_remarkable(record)
            || parent.map_or_else(|| self.samples_trace(&record.trace_id), ParentSpan::is_sampled)
    }

    /// Whether a trace is in the share.
    pub(super) fn samples_trace(&self, trace_id: &str) -> bool {
        let digits = trace_id.get(RANDOM_DIGITS).and_then(|digits| u32::from_str_radix(digits, 16).ok());
        digits.is_some_and(|random| f64::from(random) >= (1.0 - self.share) * (f64::from(u32::MAX) + 1.0))
    }

    /// Refusals, approvals, errors, what is unknown, and what was slow.
    fn is_remarkable(&self, record: &CallRecord) -> bool {
        let is_plain = match record.outcome {
            Outcome::Completed
            | Outcome::InputRequired
            | Outcome::TaskCreated
            | Outcome::Replayed
            | Outcome::Previewed => record.refusal.is_none(),
            Outcome::Refused
            | Outcome::Dispatching
            | Outcome::ToolError
            | Outcome::NotExecuted
            | Outcome::Quarantined
            | Outcome::Unknown => false,
        };
        let took_ms = record.finished_at.map(|at| at.since_ms(record.received_at));
        !is_plain || record.ticket_id.is_some() || took_ms.is_some_and(|took_ms| took_ms >= self.slow_ms)
    }
}

#[cfg(test)]
mod tests {
    use servanda_contract::{Timestamp, trace::TraceStanding};

    use super::*;
    use crate::traces::testing::{TRACE, completed};

    const NEVER: SamplingRules = SamplingRules { share: 0.0, slow_ms: 1_000 };

    #[test]
    fn every_remarkable_call_is_kept() {
        for outcome in Outcome::ALL {
            let record = CallRecord { outcome, ..completed() };
            let plain = [
                Outcome::Completed,
                Outcome::InputRequired,
                Outcome::TaskCreated,
                Outcome::Replayed,
                Outcome::Previewed,
            ];
            assert_eq!(NEVER.keeps(&record), !plain.contains(&outcome), "{outcome:?}");
        }
        assert!(NEVER.keeps(&CallRecord { ticket_id: Some("apr_1".to_owned()), ..completed() }));
        let ending = |ms| CallRecord {
            finished_at: Some(Timestamp::from_unix_ms(completed().received_at.unix_ms() + ms)),
            ..completed()
        };
        assert!(!NEVER.keeps(&ending(999)));
        assert!(NEVER.keeps(&ending(1_000)));
    }

    #[test]
    fn the_callers_decision_comes_before_the_share() {
        let called = |flags: &str| {
            let parent = ParentSpan::parse(&format!("00-{TRACE}-b7ad6b7169203331-{flags}"));
            CallRecord { trace: TraceStanding { parent, ..TraceStanding::default() }, ..completed() }
        };
        let always = SamplingRules { share: 1.0, ..NEVER };
        for rules in [NEVER, always] {
            assert!(rules.keeps(&called("01")));
            assert!(!rules.keeps(&called("00")));
            assert!(rules.keeps(&CallRecord { outcome: Outcome::Unknown, ..called("00") }));
        }
        assert!(always.keeps(&completed()));
        assert!(!NEVER.keeps(&completed()));
    }

    #[test]
    fn the_share_is_decided_by_the_random_digits_of_the_trace() {
        let trace = |random: &str| format!("ffffffffffffffffff{random}ffffff");
        let table = [
            ("00000000", 1.0, true),
            ("00000000", 0.999, false),
            ("ffffffff", 0.000_1, true),
            ("ffffffff", 0.0, false),
            ("7fffffff", 0.5, false),
            ("80000000", 0.5, true),
        ];
        for (random, share, kept) in table {
            assert_eq!(SamplingRules { share, ..NEVER }.samples_trace(&trace(random)), kept, "{random} {share}");
        }
        assert!(!SamplingRules { share: 0.9, ..NEVER }.samples_trace("short"));
    }
}
