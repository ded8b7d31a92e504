//! The formats of the company's arguments: calendar dates, moments, months, e-mail addresses.
//!
//! Responsible for refusing, while arguments are decoded, text that only looks like one of them. Reads no clock and
//! knows no time zone database: a moment has its own offset.

use serde::Deserialize;

/// A day that exists, written `2026-11-16`. Compares as the calendar does.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Date(String);

/// A month that exists, written `2026-11`.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Month(String);

/// A moment as RFC 3339 writes it, with an offset.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct DateTime {
    text: String,
    seconds: i64,
}

/// An address to which mail could be sent.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct EmailAddress(String);

impl Date {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl Month {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl DateTime {
    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_after(&self, other: &Self) -> bool {
        self.seconds > other.seconds
    }
}

impl EmailAddress {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Date {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match (text.len(), days_since_epoch(&text)) {
            (10, Some(_)) => Ok(Self(text)),
            _ => Err("expected a calendar date like 2026-11-16"),
        }
    }
}

impl TryFrom<String> for Month {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match days_since_epoch(&format!("{text}-01")) {
            Some(_) if text.len() == 7 => Ok(Self(text)),
            _ => Err("expected a month like 2026-11"),
        }
    }
}

impl TryFrom<String> for DateTime {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        match seconds_since_epoch(&text) {
            Some(seconds) => Ok(Self { text, seconds }),
            None => Err("expected a moment like 2026-11-16T09:30:00+01:00"),
        }
    }
}

impl TryFrom<String> for EmailAddress {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let plausible = text.split_once('@').is_some_and(|(local, domain)| {
            !local.is_empty()
                && domain.contains('.')
                && !domain.starts_with('.')
                && !domain.ends_with('.')
                && !domain.contains('@')
        });
        if plausible && text.len() <= 254 && !text.contains(|c: char| c.is_whitespace()) {
            Ok(Self(text))
        } else {
            Err("expected an e-mail address like name@example.com")
        }
    }
}

/// Reads a fixed-width decimal field; `None` if it has anything but digits.
fn field(text: &str, start: usize, width: usize) -> Option<i64> {
    let digits = text.get(start..start + width)?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

fn field_up_to(text: &str, start: usize, max: i64) -> Option<i64> {
    field(text, start, 2).filter(|value| *value <= max)
}

/// The day at the start of the text, counted from 1970-01-01.
fn days_since_epoch(text: &str) -> Option<i64> {
    let (year, month, day) = (field(text, 0, 4)?, field(text, 5, 2)?, field(text, 8, 2)?);
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let separated = text.get(4..5)? == "-" && text.get(7..8)? == "-";
    if !separated || !(1..=month_days).contains(&day) {
        return None;
    }
    // Counting years from March puts the leap day last, so month lengths follow one formula.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before_year = 365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    Some(before_year + (153 * month + 2) / 5 + day - 1 - 719_468)
}

fn seconds_since_epoch(text: &str) -> Option<i64> {
    let days = days_since_epoch(text)?;
    let hour = field_up_to(text, 11, 23)?;
    let minute = field_up_to(text, 14, 59)?;
    let second = field_up_to(text, 17, 60)?;
    let separated = text.get(10..11)?.eq_ignore_ascii_case("t") && text.get(13..14)? == ":" && text.get(16..17)? == ":";
    let rest = text.get(19..).filter(|_| separated)?;
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => {
            let zone = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
            (zone.len() < fraction.len()).then_some(zone)?
        }
        None => rest,
    };
    Some(days * 86_400 + hour * 3_600 + minute * 60 + second - offset_seconds(zone)?)
}

fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.eq_ignore_ascii_case("z") {
        return Some(0);
    }
    let sign = match zone.get(0..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let shaped = zone.len() == 6 && zone.get(3..4)? == ":";
    let hours = field_up_to(zone, 1, 23).filter(|_| shaped)?;
    let minutes = field_up_to(zone, 4, 59)?;
    Some(sign * (hours * 3_600 + minutes * 60))
}
