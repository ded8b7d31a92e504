//! Points in time as values. Reading a clock is the caller's business: nothing in this crate does.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC. Shown and stored as RFC 3339 where people or the observation schema read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

/// Where the present comes from; tests hand in a fixed one.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present.
    fn now(&self) -> Timestamp;
}

impl Timestamp {
    /// A point in time from milliseconds since the epoch.
    pub const fn from_unix_ms(unix_ms: u64) -> Self {
        Self(unix_ms)
    }

    /// Milliseconds since the epoch.
    pub const fn unix_ms(self) -> u64 {
        self.0
    }

    /// Milliseconds from `earlier` to this, zero if a clock went backwards.
    pub const fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The first moment of its month, in UTC.
    #[must_use]
    pub fn month_start(self) -> Self {
        let days = self.0 / 86_400_000;
        let (_, _, day) = civil_from_days(days);
        Self((days + 1).saturating_sub(day).saturating_mul(86_400_000))
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 with milliseconds, in UTC.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, day_ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute) = (day_ms / 3_600_000, day_ms / 60_000 % 60);
        let (second, ms) = (day_ms / 1000 % 60, day_ms % 1000);
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
    }
}

/// Days since 1970-01-01 to a Gregorian date, by 400-year eras counted from March so that the leap day comes last.
fn civil_from_days(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::Timestamp;

    #[test]
    fn months_start_on_their_first_day() {
        let cases = [
            (0, 0),
            (951_782_400_000, 949_363_200_000),
            (1_709_251_199_999, 1_706_745_600_000),
            (1_709_251_200_000, 1_709_251_200_000),
        ];
        for (unix_ms, start_ms) in cases {
            assert_eq!(Timestamp::from_unix_ms(unix_ms).month_start().unix_ms(), start_ms, "{unix_ms}");
        }
    }

    #[test]
    fn known_instants_print_as_rfc_3339() {
        let cases = [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199_999, "2024-02-29T23:59:59.999Z"),
            (1_794_735_332_007, "2026-11-15T09:35:32.007Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        ];
        for (unix_ms, text) in cases {
            assert_eq!(Timestamp::from_unix_ms(unix_ms).to_string(), text);
        }
    }
}
