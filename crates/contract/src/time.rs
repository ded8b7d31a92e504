//! Points in time as values. No code in this crate reads a clock; callers hand in the time.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Milliseconds since the Unix epoch, UTC. Shown and stored as RFC 3339 where people or the observation schema read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(u64);

/// The source of the present time; tests pass a fixed one.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present time.
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

    /// Parses RFC 3339 in UTC, in the form in which it is shown. A date alone means its first moment, and seconds may be left
    /// out. `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (date, time) = match text.split_once('T') {
            Some((date, time)) => (date, time.strip_suffix('Z')?),
            None => (text, "00:00"),
        };
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let (clock, ms) = match time.split_once('.') {
            Some((clock, fraction)) => (clock, numbers(fraction, '.', [3])?[0]),
            None => (time, 0),
        };
        let [hour, minute, second] = match clock.len() {
            5 => numbers(clock, ':', [2, 2]).map(|[hour, minute]| [hour, minute, 0])?,
            _ => numbers(clock, ':', [2, 2, 2])?,
        };
        let days = days_from_civil(year, month, day)?;
        let is_time = hour < 24 && minute < 60 && second < 60;
        is_time.then(|| Self((days * 86_400 + hour * 3_600 + minute * 60 + second) * 1_000 + ms))
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
    /// RFC 3339 with milliseconds, in UTC. Written by hand because every answer has one, and the formatter takes ten times as long.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, day_ms) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = civil_from_days(days);
        let (hour, minute) = (day_ms / 3_600_000, day_ms / 60_000 % 60);
        let (second, ms) = (day_ms / 1000 % 60, day_ms % 1000);
        if year > 9999 {
            return write!(formatter, "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z");
        }
        let fields = [(year, 4, b'-'), (month, 2, b'-'), (day, 2, b'T'), (hour, 2, b':'), (minute, 2, b':')];
        let mut text = [0; "1970-01-01T00:00:00.000Z".len()];
        let mut places = text.iter_mut();
        for (number, digits, end) in fields.into_iter().chain([(second, 2, b'.'), (ms, 3, b'Z')]) {
            let digits =
                (0..digits).rev().map(|place| b'0' + u8::try_from(number / 10_u64.pow(place) % 10).unwrap_or(0));
            for (byte, place) in digits.chain([end]).zip(places.by_ref()) {
                *place = byte;
            }
        }
        formatter.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

/// A point in time that a document holds as RFC 3339 text.
pub(crate) mod rfc3339 {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use super::Timestamp;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    pub(crate) fn serialize<S: Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(time)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Timestamp, D::Error> {
        let text = String::deserialize(deserializer)?;
        Timestamp::parse(&text)
            .ok_or_else(|| D::Error::custom("a time is RFC 3339 in UTC, such as 1970-01-01T00:00:00.000Z"))
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

/// The inverse. `None` for a day that does not exist, and before 1970.
fn days_from_civil(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || year < 1970 {
        return None;
    }
    let from_march = (month + 9) % 12;
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * from_march + 2) / 5 + day.checked_sub(1)?;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = (era * 146_097 + day_of_era).checked_sub(719_468)?;
    // A day that the month does not have converts back to a day of the next month.
    (civil_from_days(days).2 == day).then_some(days)
}

/// Decimal numbers with the given number of digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[u64; N]> {
    let mut parts = text.split(between);
    let mut found = [0; N];
    for (number, digits) in found.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        *number = if is_number { part.parse().ok()? } else { return None };
    }
    parts.next().is_none().then_some(found)
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
    fn what_is_shown_is_read_again_and_nothing_else() {
        let every = 86_400_000 * 17 + 3_723_004;
        for unix_ms in (0..9_000_000_000_000_u64).step_by(every) {
            let time = Timestamp::from_unix_ms(unix_ms);
            assert_eq!(Timestamp::parse(&time.to_string()), Some(time), "{time}");
        }
        let day_ms = 1_709_164_800_000;
        for (text, unix_ms) in [
            ("2024-02-29", day_ms),
            ("2024-02-29T00:00Z", day_ms),
            ("2024-02-29T09:30Z", day_ms + 34_200_000),
            ("2024-02-29T09:30:05Z", day_ms + 34_205_000),
        ] {
            assert_eq!(Timestamp::parse(text).map(Timestamp::unix_ms), Some(unix_ms), "{text}");
        }
        for text in [
            "",
            "2024",
            "2024-2-29",
            "2023-02-29",
            "2024-04-31",
            "2024-13-01",
            "2024-00-10",
            "2024-01-00",
            "1969-12-31",
            "2024-02-29T",
            "2024-02-29T09:30",
            "2024-02-29T24:00Z",
            "2024-02-29T09:60Z",
            "2024-02-29T09:30:60Z",
            "2024-02-29T09:30:05.1Z",
            "2024-02-29T09:30+01:00",
            "2024-02-29 09:30Z",
            "+024-02-29",
            "2024-02-29T9:300Z",
        ] {
            assert_eq!(Timestamp::parse(text), None, "{text}");
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
