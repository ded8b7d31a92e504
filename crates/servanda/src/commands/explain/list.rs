//! The latest calls, a line each: no id is ever broken, because it is there to be copied.

use std::{collections::BTreeSet, io::IsTerminal as _};

use servanda_contract::Timestamp;
use servanda_ledger::CallSummary;

/// Characters of an id that are always shown.
const ID_CHARS_MIN: usize = 17;
/// Columns that are left of a class when there is no room; its beginning is still told apart.
const CLASS_CHARS_MIN: usize = 8;
/// The same of a tool's name.
const TOOL_CHARS_MIN: usize = 12;
/// Blanks between columns.
const GAP: usize = 2;

/// A call as it is shown.
struct Row {
    id: String,
    when: String,
    tool: String,
    outcome: String,
    class: String,
}

/// The columns there are; into a pipe a row is a whole line.
pub(super) fn width() -> usize {
    if std::io::stdout().is_terminal() { usize::from(console::Term::stdout().size().1) } else { usize::MAX }
}

/// The list.
pub(super) fn lines(calls: &[CallSummary], now: Timestamp, width: usize) -> String {
    let id_chars = id_chars(calls);
    let today = date(now);
    let rows: Vec<Row> =
        std::iter::once(Row::head()).chain(calls.iter().map(|call| Row::of(call, id_chars, &today))).collect();
    let longest = |column: fn(&Row) -> &String| rows.iter().map(|row| chars(column(row))).max().unwrap_or(0);
    let (id, when, outcome) = (longest(|row| &row.id), longest(|row| &row.when), longest(|row| &row.outcome));
    let (mut tool, mut class) = (longest(|row| &row.tool), longest(|row| &row.class));
    let mut excess = (id + when + tool + outcome + class + 4 * GAP).saturating_sub(width);
    for (column, chars_min) in [(&mut class, CLASS_CHARS_MIN), (&mut tool, TOOL_CHARS_MIN)] {
        let given = excess.min(column.saturating_sub(chars_min));
        *column -= given;
        excess -= given;
    }
    let line = |row: &Row| {
        let (name, ending) = (cut(&row.tool, tool), cut(&row.class, class));
        let line = format!("{:id$}  {:when$}  {name:tool$}  {:outcome$}  {ending}", row.id, row.when, row.outcome);
        line.trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Row {
    fn head() -> Self {
        let [id, when, tool, outcome, class] = ["CALL", "WHEN", "TOOL", "OUTCOME", "CLASS"].map(str::to_owned);
        Self { id, when, tool, outcome, class }
    }

    fn of(call: &CallSummary, id_chars: usize, today: &str) -> Self {
        let at = Timestamp::from_unix_ms(u64::try_from(call.received_ms).unwrap_or_default());
        let time: String = at.to_string().chars().skip(11).take(8).collect();
        Self {
            id: call.call_id.chars().take(id_chars).collect(),
            when: if date(at) == today { time } else { format!("{} {time}", date(at)) },
            tool: crate::screen::one_line(&call.tool),
            outcome: call.outcome.clone(),
            class: call.class.clone().unwrap_or_default(),
        }
    }
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
    use super::*;

    fn call(id: &str, tool: &str, received_ms: i64) -> CallSummary {
        CallSummary {
            call_id: format!("call_{id}"),
            tool: tool.to_owned(),
            outcome: "not_executed".to_owned(),
            class: Some("UPSTREAM_UNAVAILABLE_OR_SO".to_owned()),
            received_ms,
        }
    }

    #[test]
    fn ids_are_whole_enough_and_never_broken() {
        let now = Timestamp::from_unix_ms(1_794_735_332_007);
        let calls = [
            call("0193a5b2c3d4e5f60718293a4b5c6d7e", "company__get_invoice", 1_794_735_332_000),
            call("0193a5b2c3d4e5f70718293a4b5c6d7e", "a_tool_with_a_name_that_is_long", 951_782_400_000),
        ];
        let shown = lines(&calls, now, 80);
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
        for (line, id, when) in
            [(1, "call_0193a5b2c3d4e5f6", "09:35:32"), (2, "call_0193a5b2c3d4e5f7", "2000-02-29 00:00:00")]
        {
            let line = shown.lines().nth(line).unwrap();
            assert!(line.starts_with(&format!("{id}  {when}  ")), "{shown}");
        }
        assert!(shown.contains("not_executed  UPSTREA…"), "the class gives way first: {shown}");
        let shown = lines(&calls[..1], now, usize::MAX);
        assert!(
            shown.contains(
                "call_0193a5b2c3d4  09:35:32  company__get_invoice  not_executed  UPSTREAM_UNAVAILABLE_OR_SO"
            ),
            "{shown}"
        );
    }
}
