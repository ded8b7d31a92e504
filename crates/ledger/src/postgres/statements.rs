//! The statements of the writers, prepared once a connection. What writes is put together of parts that each say one thing
//! once: a batch writes some of them, and a statement that does less is cheaper to start.

use tokio_postgres::{Client, Statement};

use crate::LedgerError;

/// The database's time.
const CLOCK: &str = "(extract(epoch from clock_timestamp()) * 1000)::bigint";

const NEW: Part = Part { name: "new", sql: include_str!("../../sql/postgres/new_effects.sql"), parameters: 16 };
const CHANGED: Part =
    Part { name: "changed", sql: include_str!("../../sql/postgres/changed_effects.sql"), parameters: 14 };
const CALLS: Part = Part { name: "recorded", sql: include_str!("../../sql/postgres/calls_beside.sql"), parameters: 10 };
const QUARANTINE: Part =
    Part { name: "kept", sql: include_str!("../../sql/postgres/quarantine_beside.sql"), parameters: 4 };

/// The statements.
#[derive(Debug)]
pub(super) struct Statements {
    pub(super) clock: Statement,
    pub(super) lock_effects: Statement,
    pub(super) find_twins: Statement,
    /// New and changed effects, records, answers that were kept back, in this order.
    pub(super) write_batch: Statement,
    /// New effects and records.
    pub(super) write_new: Statement,
    /// Changed effects and records.
    pub(super) write_changed: Statement,
}

/// A part of a statement that writes; its parameters count from one.
struct Part {
    name: &'static str,
    sql: &'static str,
    parameters: usize,
}

impl Statements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, LedgerError> {
        Ok(Self {
            clock: client.prepare(&format!("select {CLOCK}")).await?,
            lock_effects: client.prepare(include_str!("../../sql/postgres/lock_effects.sql")).await?,
            find_twins: client.prepare(include_str!("../../sql/postgres/find_twins.sql")).await?,
            write_batch: client.prepare(&writing(&[NEW, CHANGED], &[CALLS, QUARANTINE])).await?,
            write_new: client.prepare(&writing(&[NEW], &[CALLS])).await?,
            write_changed: client.prepare(&writing(&[CHANGED], &[CALLS])).await?,
        })
    }
}

/// One statement that writes effects, and beside those that were written, the rest. It returns which were, and the time.
fn writing(effects: &[Part], beside: &[Part]) -> String {
    let mut first = 0;
    let mut clause = |part: &Part| {
        let clause = format!("{} as (\n{})", part.name, shifted(part.sql, first));
        first += part.parameters;
        clause
    };
    let mut clauses: Vec<String> = effects.iter().map(&mut clause).collect();
    let written: Vec<String> = effects.iter().map(|part| format!("select effect_id from {}", part.name)).collect();
    clauses.push(format!("written as ({})", written.join(" union all ")));
    clauses.extend(beside.iter().map(&mut clause));
    format!("with {}\nselect effect_id, {CLOCK} as clock_ms from written", clauses.join(",\n"))
}

/// The same with every parameter so much further on.
fn shifted(sql: &str, by: usize) -> String {
    let mut pieces = sql.split('$');
    let mut shifted = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(|character: char| !character.is_ascii_digit()).unwrap_or(piece.len());
        let (number, rest) = piece.split_at(end);
        let number = number.parse::<usize>().map_or_else(|_| number.to_owned(), |number| (number + by).to_string());
        shifted.extend(["$", &number, rest]);
    }
    shifted
}

#[cfg(test)]
mod tests {
    use super::{CALLS, CHANGED, NEW, Part, QUARANTINE, shifted, writing};

    #[test]
    fn parameters_count_on_from_part_to_part() {
        assert_eq!(shifted("a $1::text, $12, $x $", 18), "a $19::text, $30, $x $");
        for Part { name, sql, parameters } in [NEW, CHANGED, CALLS, QUARANTINE] {
            let mentions = |number: usize| sql.contains(&format!("${number}::"));
            assert!((1..=parameters).all(mentions) && !mentions(parameters + 1), "{name}");
        }
        let all = writing(&[NEW, CHANGED], &[CALLS, QUARANTINE]);
        assert!((1..=44).all(|number| all.matches(&format!("${number}::")).count() == 1), "{all}");
        assert!(all.contains("written as (select effect_id from new union all select effect_id from changed)"));
    }
}
