//! `Retry-LostConnection`, in both forms that HTTP has: seconds, or a date. A date is by the server's clock, so it is read against the
//! `Date` of the same answer, which is by the same clock; without one it says nothing.

use hyper::header::{DATE, HeaderMap, RETRY_AFTER};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How long the server wants to be left alone.
pub fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let written = text(RETRY_AFTER)?;
    if let Ok(sec) = written.parse::<u64>() {
        return Some(sec.saturating_mul(1_000));
    }
    let (until_sec, said_sec) = (unix_sec(written)?, unix_sec(text(DATE)?)?);
    Some(until_sec.saturating_sub(said_sec).saturating_mul(1_000))
}

/// An HTTP date, in the form that is to be written or one of the two that are still to be read, as seconds since the epoch.
fn unix_sec(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let (day, month, year, time) = match words.as_slice() {
        // Sunday, 06-Nov-94 08:49:37 GMT
        [_, date, time, "GMT"] => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, number(parts.next()?)?);
            // Two digits: nobody asks to be left alone for decades.
            (day, month, if year < 70 { 2_000 + year } else { 1_900 + year }, *time)
        }
        // Sun, 06 Nov 1994 08:49:37 GMT, and Sun Nov  6 08:49:37 1994
        [_, day, month, year, time, "GMT"] | [_, month, day, time, year] => (*day, *month, number(year)?, *time),
        _ => return None,
    };
    let month = MONTHS.iter().position(|name| *name == month)? as u64 + 1;
    let mut clock = time.split(':').map(number);
    let (hour, minute, second) = (clock.next()??, clock.next()??, clock.next()??);
    let day = number(day)?;
    let in_range =
        (1_970..10_000).contains(&year) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second <= 60;
    in_range.then(|| days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days from 1970-01-01, by years that begin in March so that the leap day comes last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    (year * 365 + year / 4 - year / 100 + year / 400 + day_of_year).saturating_sub(719_468)
}

fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use hyper::header::{DATE, HeaderMap, RETRY_AFTER};

    use super::{retry_after_ms, unix_sec};

    #[test]
    fn the_three_forms_of_a_date_are_one_instant() {
        let table = [
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777)),
            ("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777)),
            ("Sun Nov  6 08:49:37 1994", Some(784_111_777)),
            ("Thu, 01 Jan 1970 00:00:00 GMT", Some(0)),
            ("Thu, 29 Feb 2024 23:59:59 GMT", Some(1_709_251_199)),
            ("Sun, 06 Nov 1994 08:49:37 CET", None),
            ("Sun, 06 Nev 1994 08:49:37 GMT", None),
            ("Sun, 06 Nov 1994 24:49:37 GMT", None),
            ("Sun, 06 Nov 1994 08:49 GMT", None),
            ("Sun, 00 Nov 1994 08:49:37 GMT", None),
            ("soon", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(unix_sec(text), expected, "{text}");
        }
    }

    #[test]
    fn seconds_and_dates_are_read_and_a_date_only_against_the_servers_own_clock() {
        let date = "Sun, 06 Nov 1994 08:49:37 GMT";
        let table = [
            (Some("7"), None, Some(7_000)),
            (Some(" 0 "), None, Some(0)),
            (Some("-1"), None, None),
            (Some("Sun, 06 Nov 1994 08:50:07 GMT"), Some(date), Some(30_000)),
            (Some("Sun, 06 Nov 1994 08:00:00 GMT"), Some(date), Some(0)),
            (Some("Sun, 06 Nov 1994 08:50:07 GMT"), None, None),
            (Some("soon"), Some(date), None),
            (None, Some(date), None),
        ];
        for (written, said, expected) in table {
            let mut headers = HeaderMap::new();
            headers.extend(written.map(|written| (RETRY_AFTER, written.parse().unwrap())));
            headers.extend(said.map(|said| (DATE, said.parse().unwrap())));
            assert_eq!(retry_after_ms(&headers), expected, "{written:?} {said:?}");
        }
    }
}
