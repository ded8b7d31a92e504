//! The statements of the writers, prepared once per connection. A writing statement is composed of parts that
//! each state one thing once. A batch uses only the parts it needs, because a statement that does less is
//! cheaper to start.

use tokio::sync::OnceCell;
use tokio_postgres::{Client, Statement};

use crate::LedgerError;

/// What a batch may write, in the order of its parameters: effects, and what is written beside them.
const PARTS: [StatementPart; 7] = [
    StatementPart {
        name: "new",
        sql: include_str!("../../sql/postgres/new_effects.sql"),
        or: include_str!("../../sql/postgres/or_first_key.sql"),
        returning: "returning effects.effect_id",
    },
    StatementPart {
        name: "changed",
        sql: include_str!("../../sql/postgres/changed_effects.sql"),
        or: "",
        returning: "returning effects.effect_id",
    },
    StatementPart {
        name: "recorded",
        sql: include_str!("../../sql/postgres/calls_beside.sql"),
        or: include_str!("../../sql/postgres/or_end_call.sql"),
        returning: "",
    },
    StatementPart {
        name: "kept",
        sql: include_str!("../../sql/postgres/quarantine_beside.sql"),
        or: "on conflict (call_id) do nothing",
        returning: "",
    },
    // Rows of these two exist already as a rule, so both always say what to do then.
    StatementPart { name: "found_by", sql: include_str!("../../sql/postgres/terms_beside.sql"), or: "", returning: "" },
    StatementPart {
        name: "counted_as",
        sql: include_str!("../../sql/postgres/counts_beside.sql"),
        or: "",
        returning: "",
    },
    StatementPart { name: "logged", sql: include_str!("../../sql/postgres/leaves_beside.sql"), or: "", returning: "" },
];

/// What a statement does about a row that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConflictHandling {
    /// It fails, and the whole batch with it. This costs less for rows that are expected to be new.
    Fail,
    /// It accepts the row that exists.
    Settle,
}

/// The statements.
#[derive(Debug)]
pub(super) struct PreparedStatements {
    pub(super) clock: Statement,
    pub(super) lock_effects: Statement,
    pub(super) find_twins: Statement,
    pub(super) make_turns: Statement,
    pub(super) lock_turns: Statement,
    pub(super) find_holders: Statement,
    /// Prepared when first needed.
    budgets: OnceCell<BudgetStatements>,
    tickets: OnceCell<TicketStatements>,
    /// One for every combination of parts, prepared when first needed: those that fail and those that settle
    /// conflicts.
    writing: [[OnceCell<Statement>; 1 << PARTS.len()]; 2],
}

/// The statements of budgets.
#[derive(Debug)]
pub(super) struct BudgetStatements {
    pub(super) lock_holds: Statement,
    pub(super) make_standings: Statement,
    pub(super) lock_standings: Statement,
    pub(super) change_standings: Statement,
    pub(super) put_holds: Statement,
}

/// The statements of tickets.
#[derive(Debug)]
pub(super) struct TicketStatements {
    pub(super) lock_keys: Statement,
    pub(super) lock_tickets: Statement,
    pub(super) run_decisions: Statement,
    pub(super) change_tickets: Statement,
    pub(super) put_tickets: Statement,
}

/// A part of a writing statement; its one parameter is `$1`.
struct StatementPart {
    name: &'static str,
    sql: &'static str,
    /// How it settles conflicts.
    or: &'static str,
    /// What it returns, if it writes effects: which ones.
    returning: &'static str,
}

impl PreparedStatements {
    pub(super) async fn prepare(client: &Client) -> Result<Self, LedgerError> {
        Ok(Self {
            clock: client.prepare(include_str!("../../sql/postgres/read_clock.sql")).await?,
            lock_effects: client.prepare(include_str!("../../sql/postgres/lock_effects.sql")).await?,
            find_twins: client.prepare(include_str!("../../sql/postgres/find_twins.sql")).await?,
            make_turns: client.prepare(include_str!("../../sql/postgres/make_turns.sql")).await?,
            lock_turns: client.prepare(include_str!("../../sql/postgres/lock_turns.sql")).await?,
            find_holders: client.prepare(include_str!("../../sql/postgres/find_holders.sql")).await?,
            budgets: OnceCell::new(),
            tickets: OnceCell::new(),
            writing: std::array::from_fn(|_| std::array::from_fn(|_| OnceCell::new())),
        })
    }

    /// The statements of budgets.
    pub(super) async fn budgets(&self, client: &Client) -> Result<&BudgetStatements, tokio_postgres::Error> {
        let prepare = || async {
            Ok(BudgetStatements {
                lock_holds: client.prepare(include_str!("../../sql/postgres/lock_holds.sql")).await?,
                make_standings: client.prepare(include_str!("../../sql/postgres/make_standings.sql")).await?,
                lock_standings: client.prepare(include_str!("../../sql/postgres/lock_standings.sql")).await?,
                change_standings: client.prepare(include_str!("../../sql/postgres/change_standings.sql")).await?,
                put_holds: client.prepare(include_str!("../../sql/postgres/put_holds.sql")).await?,
            })
        };
        self.budgets.get_or_try_init(prepare).await
    }

    /// The statements of tickets.
    pub(super) async fn tickets(&self, client: &Client) -> Result<&TicketStatements, tokio_postgres::Error> {
        let prepare = || async {
            Ok(TicketStatements {
                lock_keys: client.prepare(include_str!("../../sql/postgres/lock_ticket_keys.sql")).await?,
                lock_tickets: client.prepare(include_str!("../../sql/postgres/lock_tickets.sql")).await?,
                run_decisions: client.prepare(include_str!("../../sql/postgres/run_decisions.sql")).await?,
                change_tickets: client.prepare(include_str!("../../sql/postgres/change_tickets.sql")).await?,
                put_tickets: client.prepare(include_str!("../../sql/postgres/put_tickets.sql")).await?,
            })
        };
        self.tickets.get_or_try_init(prepare).await
    }

    /// The statement that writes some parts.
    pub(super) async fn writing(
        &self,
        client: &Client,
        parts: [bool; PARTS.len()],
        conflicts: ConflictHandling,
    ) -> Result<Statement, tokio_postgres::Error> {
        let index = parts.iter().fold(0, |index, is_there| index * 2 + usize::from(*is_there));
        let prepare = || async { client.prepare(&writing(parts, conflicts)).await };
        let [failing, settling] = &self.writing;
        match if conflicts == ConflictHandling::Fail { failing } else { settling }.get(index) {
            Some(kept) => kept.get_or_try_init(prepare).await.cloned(),
            None => prepare().await,
        }
    }
}

/// One statement that writes effects, and the rest only beside effects that were written. It returns which were
/// written.
fn writing(parts: [bool; PARTS.len()], conflicts: ConflictHandling) -> String {
    let there = || PARTS.iter().zip(parts).filter(|(_, is_there)| *is_there).map(|(part, _)| part);
    let effects: Vec<String> = there()
        .filter(|part| !part.returning.is_empty())
        .map(|part| format!("select effect_id from {}", part.name))
        .collect();
    let written = match &effects[..] {
        [] => "select null::text as effect_id where false".to_owned(),
        effects => effects.join(" union all "),
    };
    let clause = |(parameter, part): (usize, &StatementPart)| {
        let sql = part.sql.replace("$1", &format!("${parameter}"));
        let or = if conflicts == ConflictHandling::Settle { part.or } else { "" };
        format!("{} as (\n{sql}{or}{})", part.name, part.returning)
    };
    let mut clauses: Vec<String> = (1..).zip(there()).map(clause).collect();
    clauses.insert(effects.len(), format!("written as ({written})"));
    format!("with {}\nselect effect_id from written", clauses.join(",\n"))
}

/// Every combination of parts.
#[cfg(test)]
pub(super) fn all_written() -> Vec<String> {
    let choices = (1..1usize << PARTS.len()).map(|choice| std::array::from_fn(|part| choice & (1 << part) != 0));
    choices
        .flat_map(|parts| [ConflictHandling::Fail, ConflictHandling::Settle].map(|conflicts| writing(parts, conflicts)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{ConflictHandling, PARTS, writing};

    #[test]
    fn every_part_has_the_parameter_of_its_place() {
        for part in &PARTS {
            assert_eq!(part.sql.matches('$').count(), 1, "{}", part.name);
        }
        let all = writing([true; 7], ConflictHandling::Settle);
        for parameter in 1..=7 {
            assert_eq!(all.matches(&format!("${parameter}::")).count(), 1, "{all}");
        }
        assert!(
            all.contains("written as (select effect_id from new union all select effect_id from changed)"),
            "{all}"
        );
        assert_eq!(all.matches("on conflict").count(), 5, "{all}");
        let settled = writing([false, true, true, false, false, false, false], ConflictHandling::Fail);
        assert!(settled.contains("$1::changed_effect") && settled.contains("$2::call_beside"), "{settled}");
        assert!(!settled.contains("new as") && !settled.contains("kept as"), "{settled}");
        assert_eq!(settled.matches("on conflict").count(), 0, "{settled}");
        assert!(
            writing([false, false, true, false, false, false, false], ConflictHandling::Fail).contains("where false"),
            "records by themselves"
        );
    }
}
