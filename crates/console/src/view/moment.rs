//! Points in time and durations, in words.

use servanda_contract::Timestamp;

/// A point in time on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moment {
    /// For machines.
    pub(crate) machine: String,
    /// In UTC, to the minute.
    pub(crate) absolute: String,
    /// From now: `in 3 h`, `5 min ago`.
    pub(crate) relative: String,
}

impl Moment {
    /// The moment, seen from `now`.
    pub(crate) fn new(at_ms: u64, now: Timestamp) -> Self {
        let machine = Timestamp::from_unix_ms(at_ms).to_string();
        let minute = machine.get(..16).unwrap_or(&machine).replace('T', " ");
        let now_ms = now.unix_ms();
        let relative = if at_ms > now_ms {
            format!("in {}", duration_in_words(at_ms - now_ms))
        } else {
            format!("{} ago", duration_in_words(now_ms - at_ms))
        };
        Self { absolute: format!("{minute} UTC"), machine, relative }
    }
}

/// A duration in its two largest units.
pub(crate) fn duration_in_words(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = ms / 1_000;
    let mut rest = seconds;
    let mut words = Vec::new();
    for (length, unit) in UNITS {
        let count = rest / length;
        rest %= length;
        if count > 0 && words.len() < 2 && (unit != "s" || seconds < 600) {
            words.push(format!("{count} {unit}"));
        } else if !words.is_empty() {
            break;
        }
    }
    if words.is_empty() { "0 s".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (ms, expected) in [
            (0, "0 s"),
            (999, "0 s"),
            (59_000, "59 s"),
            (61_000, "1 min 1 s"),
            (600_000, "10 min"),
            (3_599_000, "59 min"),
            (3_600_000, "1 h"),
            (5_400_000, "1 h 30 min"),
            (86_400_000, "1 d"),
            (90_000_000, "1 d 1 h"),
            (86_460_000, "1 d"),
        ] {
            assert_eq!(duration_in_words(ms), expected, "{ms}");
        }
    }

    #[test]
    fn a_moment_is_seen_from_now() {
        let now = Timestamp::parse("2026-11-18T12:00:00Z").unwrap();
        let later = Moment::new(now.unix_ms() + 7_200_000, now);
        assert_eq!((later.absolute.as_str(), later.relative.as_str()), ("2026-11-18 14:00 UTC", "in 2 h"));
        assert_eq!(Moment::new(now.unix_ms() - 60_000, now).relative, "1 min ago");
    }
}
