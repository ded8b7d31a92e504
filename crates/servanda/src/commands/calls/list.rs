//! A list of calls. Nothing is cut off, because ids, callers and tools are there to be copied: what does not fit goes to an indented line
//! below. A success takes one line; the error of a call goes below it if there is no room beside it.

use servanda_contract::{
    Timestamp,
    record::{CallSummary, ID_CHARS_MIN},
};

use crate::screen::{distinct_chars, one_line};

/// Blanks between columns.
const GAP: usize = 2;
/// The minimal width of the caller and tool columns, so that short names align.
const NAME_CHARS_MIN: usize = 8;

/// The columns, in order. The last two are shown only if they fit.
const HEAD: [&str; 7] = ["CALL", "WHEN", "CALLER", "TOOL", "OUTCOME", "TOOK", "WHY"];
const CALLER: usize = 2;
const TOOL: usize = 3;
const TOOK: usize = 5;
const WHY: usize = 6;

/// A call as it is shown, by column.
type Row = [String; 7];

/// The list. The callers are shown if one of them is not the principal of local mode.
pub(super) fn lines(calls: &[CallSummary], now: Timestamp, room: usize) -> String {
    let id_chars = distinct_chars(calls.iter().map(|call| call.call_id.as_str()), ID_CHARS_MIN);
    let today = date(now);
    let head = HEAD.map(str::to_owned);
    let mut rows: Vec<Row> =
        std::iter::once(head).chain(calls.iter().map(|call| row(call, id_chars, &today))).collect();
    if calls.iter().all(|call| call.caller().is_none()) {
        clear(&mut rows, CALLER);
    }
    if calls.iter().all(|call| call.detail().is_none()) {
        clear(&mut rows, WHY);
    }
    let mut widths = widths(&rows);
    // Errors are either beside every call, if all fit, or below each.
    let is_beside = total(&widths) <= room;
    let details: Vec<String> = if is_beside { Vec::new() } else { clear(&mut rows, WHY) };
    if !is_beside {
        widths[WHY] = 0;
        if total(&widths) > room {
            clear(&mut rows, TOOK);
            widths[TOOK] = 0;
        }
        narrow(&mut widths, room);
    }
    let mut shown: Vec<String> = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let indent = " ".repeat(widths[0] + GAP);
        shown.extend(flowing(row, &widths, room, &indent));
        // Errors below the calls need no heading.
        shown.extend(
            details.get(number).filter(|detail| number > 0 && !detail.is_empty()).map(|detail| indent + detail),
        );
    }
    shown.join("\n")
}

/// Empties a column; returns what was in it.
fn clear(rows: &mut [Row], column: usize) -> Vec<String> {
    rows.iter_mut().filter_map(|row| row.get_mut(column)).map(std::mem::take).collect()
}

fn widths(rows: &[Row]) -> [usize; 7] {
    std::array::from_fn(|column| {
        rows.iter().filter_map(|row| row.get(column)).map(|text| chars(text)).max().unwrap_or(0)
    })
}

/// The width of a line that has every column.
fn total(widths: &[usize; 7]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    shown.clone().sum::<usize>() + shown.count().saturating_sub(1) * GAP
}

/// Narrows the name columns so that lines fit. A longer name pushes what follows to the right, or onto the next line.
fn narrow(widths: &mut [usize; 7], room: usize) {
    let mut excess = total(widths).saturating_sub(room);
    for column in [TOOL, CALLER] {
        let Some(width) = widths.get_mut(column) else { continue };
        let given = excess.min(width.saturating_sub(NAME_CHARS_MIN));
        *width -= given;
        excess -= given;
    }
}

/// A row on as many lines as it needs: one, unless its names are long.
fn flowing(row: &Row, widths: &[usize; 7], room: usize, indent: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut start) = (String::new(), 0);
    for (text, width) in row.iter().zip(widths).filter(|(_, width)| **width > 0) {
        let used = chars(line.trim_end());
        let blanks = if used == 0 { 0 } else { start.max(used + GAP) - used };
        if used > chars(indent) && used + blanks + chars(text) > room {
            // An earlier name was too long: the text may still fit directly beside it.
            if used + GAP + chars(text) <= room {
                line = format!("{}{}{text}", line.trim_end(), " ".repeat(GAP));
            } else {
                lines.push(line.trim_end().to_owned());
                line = format!("{indent}{text}");
            }
        } else {
            line = format!("{}{}{text}", line.trim_end(), " ".repeat(blanks));
        }
        start += width + GAP;
    }
    lines.push(line.trim_end().to_owned());
    lines
}

fn row(call: &CallSummary, id_chars: usize, today: &str) -> Row {
    let day = date(Timestamp::from_unix_ms(call.received_ms));
    // The year is left out, because records are not kept that long.
    let when = match day.get(5..) {
        Some(day_of_year) if day != today => format!("{day_of_year} {}", call.time().get(..5).unwrap_or_default()),
        _ => call.time(),
    };
    [
        call.call_id.chars().take(id_chars).collect(),
        when,
        one_line(&call.caller().unwrap_or_else(|| "local".to_owned())),
        one_line(&call.tool),
        call.ended.to_owned(),
        call.took_ms.filter(|_| call.late_answer_of.is_none()).map_or_else(String::new, |ms| format!("{ms} ms")),
        call.detail().unwrap_or_default(),
    ]
}

fn date(at: Timestamp) -> String {
    at.to_string().chars().take(10).collect()
}

fn chars(text: &str) -> usize {
    console::measure_text_width(text)
}

#[cfg(test)]
mod tests {
    use servanda_contract::GateName;

    use super::*;

    const NOW_MS: u64 = 1_794_735_332_007;

    fn call(id: &str, tool: &str, received_ms: u64) -> CallSummary {
        CallSummary {
            call_id: format!("call_{id}"),
            received_ms,
            tenant: "local".to_owned(),
            principal: "local".to_owned(),
            agent: None,
            credential: None,
            trace: "0af7651916cd43dd8448eb211c80319c".to_owned(),
            tool: tool.to_owned(),
            outcome: "completed",
            ended: "completed",
            class: Some("SUCCESS"),
            gate: None,
            took_ms: Some(12),
            late_answer_of: None,
            grant: None,
        }
    }

    fn calls() -> [CallSummary; 4] {
        let mut calls = [
            call("0193a5b2c3d4e5f60718293a4b5c6d7e", "company__get_invoice", NOW_MS),
            call("0193a5b2c3d5e5f70718293a4b5c6d7e", "company__a_tool_with_a_name_that_is_long", 951_782_400_000),
            call("0193a5b2c3d6e5f70718293a4b5c6d7e", "company__pay_invoice", NOW_MS),
            call("0193a5b2c3d7e5f70718293a4b5c6d7e", "company__pay_invoice", NOW_MS),
        ];
        (calls[2].ended, calls[2].class, calls[2].gate) = ("refused", Some("POLICY_VIOLATION"), Some(GateName::Policy));
        calls[3].late_answer_of = Some("call_0193a5b2c3d6e5f70718293a4b5c6d7e".to_owned());
        calls
    }

    #[test]
    fn callers_and_tools_are_whole_and_lines_fit() {
        let now = Timestamp::from_unix_ms(NOW_MS);
        let mut calls = calls();
        for caller in ["local", "acme", "a tenant with quite a long name"] {
            for call in &mut calls[..3] {
                caller.clone_into(&mut call.tenant);
            }
            for room in [60, 80, 100, 120, 200] {
                let shown = lines(&calls, now, room);
                assert!(shown.lines().all(|line| chars(line) <= room), "{room}:\n{shown}");
                assert_eq!(shown.contains("CALLER"), caller != "local", "{shown}");
                for call in &calls {
                    assert!(shown.contains(&call.tool), "{room}:\n{shown}");
                    assert!(call.caller().is_none_or(|caller| shown.contains(&caller)), "{room}:\n{shown}");
                }
                assert!(shown.contains("POLICY_VIOLATION at policy"), "{room}:\n{shown}");
                assert!(shown.contains("the late answer of call_0193a5b2c3d6"), "{room}:\n{shown}");
            }
        }
        for call in &mut calls {
            "acme".clone_into(&mut call.tenant);
        }
        insta::assert_snapshot!("calls_of_80_columns", lines(&calls, now, 80));
        insta::assert_snapshot!("calls_of_140_columns", lines(&calls, now, 140));
    }

    #[test]
    fn ids_are_whole_enough() {
        let now = Timestamp::from_unix_ms(NOW_MS);
        let mut calls = calls();
        assert!(lines(&calls, now, 80).contains("call_0193a5b2c3d4  09:35:32"), "{}", lines(&calls, now, 80));
        calls[1].call_id = "call_0193a5b2c3d4e5f70718293a4b5c6d7e".to_owned();
        assert!(lines(&calls, now, usize::MAX).contains("call_0193a5b2c3d4e5f7  "), "as much as tells them apart");
    }
}
