//! A list of calls as a table for spreadsheets: RFC 4180, a call on a line, whatever its names contain.
//!
//! A spreadsheet takes some cells for formulas, and agents and clients choose names. Such a cell begins with a quote, which spreadsheets take
//! for the mark of a text. Deliberately not here: sessions, which some clients can be continued with.

use servanda_contract::{Timestamp, record::CallSummary};

use crate::screen::one_line;

const HEAD: [&str; 14] = [
    "call_id",
    "received_at",
    "tenant",
    "principal",
    "agent",
    "credential",
    "tool",
    "outcome",
    "class",
    "gate",
    "took_ms",
    "trace",
    "late_answer_of",
    "grant",
];

/// What a formula begins with. The wide forms are the same to some spreadsheets.
const BEGINS_A_FORMULA: [char; 11] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// The table. Its last line ends with a carriage return, to which the screen adds the line feed.
pub(super) fn table(calls: &[CallSummary]) -> String {
    let lines = std::iter::once(HEAD.join(",")).chain(calls.iter().map(line));
    let mut table = lines.collect::<Vec<_>>().join("\r\n");
    table.push('\r');
    table
}

fn line(call: &CallSummary) -> String {
    let given = |text: &Option<String>| text.clone().unwrap_or_default();
    let cells = [
        call.call_id.clone(),
        Timestamp::from_unix_ms(call.received_ms).to_string(),
        call.tenant.clone(),
        call.principal.clone(),
        given(&call.agent),
        given(&call.credential),
        call.tool.clone(),
        call.outcome.to_owned(),
        call.class.unwrap_or_default().to_owned(),
        call.gate.map(|gate| gate.to_string()).unwrap_or_default(),
        call.took_ms.map(|took_ms| took_ms.to_string()).unwrap_or_default(),
        call.trace.clone(),
        given(&call.late_answer_of),
        given(&call.grant),
    ];
    cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(",")
}

/// A cell. Line ends become blanks and what does not show is spelled out, so that a call is one line and no terminal is controlled.
fn cell(text: &str) -> String {
    let mark = if text.trim_start_matches(' ').starts_with(BEGINS_A_FORMULA) { "'" } else { "" };
    let text = one_line(text);
    if mark.is_empty() && !text.contains([',', '"', ' ', '\'']) {
        return text;
    }
    format!("\"{mark}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn no_cell_is_a_formula_or_more_than_a_cell() {
        let table = [
            ("company__pay", "company__pay"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"hi\"", "\"say \"\"hi\"\"\""),
            ("=1+1", "\"'=1+1\""),
            ("+1", "\"'+1\""),
            ("-1", "\"'-1\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("  =1", "\"'  =1\""),
            ("\t=1", "\"' =1\""),
            ("\u{ff1d}1", "\"'\u{ff1d}1\""),
            ("=\"a\",b", "\"'=\"\"a\"\",b\""),
        ];
        for (text, expected) in table {
            assert_eq!(cell(text), expected, "{text:?}");
        }
        for text in ["\r\n=1", "a\r\n=1,2", "a\nb", "\u{1b}[2J", "x\u{202e}y", "\u{feff}=1"] {
            let cell = cell(text);
            assert!(!cell.chars().any(|one| one.is_control() || one == '\u{202e}'), "{cell:?}");
            assert!(!cell.trim_start_matches('"').starts_with(['=', '+', '-', '@', '\u{feff}']), "{cell:?}");
        }
    }
}
