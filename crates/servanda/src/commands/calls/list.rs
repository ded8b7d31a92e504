//! A list of calls, a line each: no id is ever broken, because it is there to be copied. Where there is no room, the other columns give
//! way, and their beginnings stay.

use std::{collections::BTreeSet, io::IsTerminal as _};

use servanda_contract::{Timestamp, record::CallSummary};

/// Characters of an id that are always shown.
const ID_CHARS_MIN: usize = 17;
/// Blanks between columns.
const GAP: usize = 2;

/// The columns, in order.
const COLUMNS: [&str; 7] = ["CALL", "WHEN", "CALLER", "TOOL", "OUTCOME", "CLASS", "GATE"];
/// Which columns give way, in order, and how many characters are left of each: as much as tells its values apart, and if that is not
/// enough, less. An id and a time never do.
const GIVING_WAY: [(usize, usize); 10] =
    [(5, 8), (2, 9), (3, 14), (6, 8), (4, 9), (5, 5), (2, 6), (3, 8), (6, 5), (4, 7)];

/// A call as it is shown, by column.
type Row = [String; 7];

/// The columns there are; into a pipe a row is a whole line.
pub(super) fn width() -> usize {
    if std::io::stdout().is_terminal() { usize::from(console::Term::stdout().size().1) } else { usize::MAX }
}

/// The list. The callers are shown if one of them is not the principal of local mode.
pub(super) fn lines(calls: &[CallSummary], now: Timestamp, width: usize) -> String {
    let id_chars = id_chars(calls);
    let today = date(now);
    let head = COLUMNS.map(str::to_owned);
    let rows: Vec<Row> = std::iter::once(head).chain(calls.iter().map(|call| row(call, id_chars, &today))).collect();
    let has_callers = calls.iter().any(|call| call.caller().is_some());
    let mut widths = [0; 7];
    for (column, width) in widths.iter_mut().enumerate() {
        *width = rows.iter().filter_map(|row| row.get(column)).map(|text| chars(text)).max().unwrap_or(0);
    }
    if !has_callers && let Some(caller) = widths.get_mut(2) {
        *caller = 0;
    }
    shrink(&mut widths, width);
    let line = |row: &Row| {
        let columns = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        let columns = columns.map(|(text, width)| format!("{:width$}", cut(text, width)));
        columns.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Takes from the columns what does not fit.
fn shrink(widths: &mut [usize; 7], width: usize) {
    let gaps = widths.iter().filter(|width| **width > 0).count().saturating_sub(1) * GAP;
    let mut excess = (widths.iter().sum::<usize>() + gaps).saturating_sub(width);
    for (column, chars_min) in GIVING_WAY {
        let Some(width) = widths.get_mut(column) else { continue };
        let given = excess.min(width.saturating_sub(chars_min));
        *width -= given;
        excess -= given;
    }
}

fn row(call: &CallSummary, id_chars: usize, today: &str) -> Row {
    let day = date(Timestamp::from_unix_ms(call.received_ms));
    // The year is left out: records are not kept for so long that it would be missed.
    let when = match day.get(5..) {
        Some(day_of_year) if day != today => format!("{day_of_year} {}", call.time().get(..5).unwrap_or_default()),
        _ => call.time(),
    };
    [
        call.call_id.chars().take(id_chars).collect(),
        when,
        crate::screen::one_line(&call.caller().unwrap_or_else(|| "local".to_owned())),
        crate::screen::one_line(&call.tool),
        call.outcome.to_owned(),
        // That a completed call is a success, its outcome says.
        call.class.filter(|class| *class != "SUCCESS").unwrap_or("-").to_owned(),
        call.gate.map_or_else(|| "-".to_owned(), |gate| gate.to_string()),
    ]
}

/// How much of every id has to be shown to tell the calls apart.
fn id_chars(calls: &[CallSummary]) -> usize {
    let longest = calls.iter().map(|call| chars(&call.call_id)).max().unwrap_or(0);
    let distinct = |length: &usize| {
        let prefixes: BTreeSet<String> =
            calls.iter().map(|call| call.call_id.chars().take(*length).collect()).collect();
        prefixes.len() == calls.len()
    };
    (ID_CHARS_MIN..longest).find(distinct).unwrap_or(longest)
}

fn date(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

fn cut(text: &str, width: usize) -> String {
    if chars(text) <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

#[cfg(test)]
mod tests {
    use servanda_contract::GateName;

    use super::*;

    fn call(id: &str, tool: &str, received_ms: u64) -> CallSummary {
        CallSummary {
            call_id: format!("call_{id}"),
            received_ms,
            tenant: "local".to_owned(),
            principal: "local".to_owned(),
            agent: None,
            credential: None,
            tool: tool.to_owned(),
            outcome: "input_required",
            class: Some("OBSERVATION_NORMALIZATION_FAIL"),
            gate: Some(GateName::Confirmation),
            took_ms: None,
        }
    }

    #[test]
    fn ids_are_whole_enough_and_never_broken() {
        let now = Timestamp::from_unix_ms(1_794_735_332_007);
        let mut calls = [
            call("0193a5b2c3d4e5f60718293a4b5c6d7e", "company__get_invoice", 1_794_735_332_000),
            call("0193a5b2c3d5e5f70718293a4b5c6d7e", "a_tool_with_a_name_that_is_long", 951_782_400_000),
        ];
        for is_local in [true, false] {
            let shown = lines(&calls, now, 80);
            assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
            assert_eq!(shown.contains("CALLER"), !is_local, "{shown}");
            for (line, id, when) in [(1, "call_0193a5b2c3d4", "09:35:32   "), (2, "call_0193a5b2c3d5", "02-29 00:00")] {
                let line = shown.lines().nth(line).unwrap();
                assert!(line.starts_with(&format!("{id}  {when}  ")), "{shown}");
            }
            calls[0].tenant = "a tenant with a long name".to_owned();
        }
        let shown = lines(&calls, now, usize::MAX);
        assert!(shown.contains("a tenant with a long name/local  company__get_invoice "), "{shown}");
        assert!(shown.contains("input_required  OBSERVATION_NORMALIZATION_FAIL  confirmation"), "{shown}");
        calls[1].call_id = "call_0193a5b2c3d4e5f70718293a4b5c6d7e".to_owned();
        assert!(lines(&calls, now, usize::MAX).contains("call_0193a5b2c3d4e5f7  "), "as much as tells them apart");
    }
}
