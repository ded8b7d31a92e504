//! Qualified names in queries whose source of rows is a call: `FROM text('x') AS g`. PostgreSQL reads `g.f` as a call of the function `f`
//! on the result, unless the result has a column `f`. So in a query with such a source, a qualified name passes only if its qualifier is a
//! table, a subquery or a named query, or if the column stands in the source's own list of columns.
//!
//! Names are compared over the whole query: if two sources share a name, the stricter rule holds.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use sqlparser::ast::{Ident, ObjectName, Query, Statement, TableAlias, TableFactor, Visit, Visitor};

/// Functions of PostgreSQL whose rows have columns of these names.
const KEYED: &str = " json_each jsonb_each json_each_text jsonb_each_text each ";
const KEYED_COLUMNS: [&str; 2] = ["key", "value"];
/// Words that PostgreSQL reads as a value in the place of a table.
const VALUES: &str = " current_user session_user user current_role current_catalog current_schema current_date current_time current_timestamp \
    localtime localtimestamp system_user ";

/// The sources of a statement.
#[derive(Debug, Default)]
pub(super) struct FunctionRowSources {
    /// By the name of each call, the columns that every call of that name in the query has.
    calls: BTreeMap<String, BTreeSet<String>>,
    /// Names of tables, subqueries and named queries.
    tables: BTreeSet<String>,
}

/// Every source of the statement.
pub(super) fn rows_of_functions(statement: &Statement) -> FunctionRowSources {
    let mut sources = FunctionRowSources::default();
    let _: ControlFlow<()> = statement.visit(&mut sources);
    sources
}

impl FunctionRowSources {
    /// Whether `source.column` is a column, as far as the query tells. Without calls among its sources it always is.
    pub(super) fn has(&self, source: &Ident, column: &Ident) -> bool {
        let (source, column) = (source.value.to_lowercase(), column.value.to_lowercase());
        match self.calls.get(&source) {
            Some(columns) => columns.contains(&column),
            None => self.calls.is_empty() || self.tables.contains(&source),
        }
    }

    fn add_call(&mut self, alias: Option<&TableAlias>, called: &str) {
        let name = alias.map_or(called, |alias| alias.name.value.as_str()).to_lowercase();
        let listed = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
        let columns: BTreeSet<String> = if !listed.is_empty() {
            listed.iter().map(|column| column.name.value.to_lowercase()).collect()
        } else if KEYED.split(' ').any(|known| known.eq_ignore_ascii_case(called)) {
            KEYED_COLUMNS.map(str::to_owned).into()
        } else {
            // A call that gives one value has one column, with the name of the source.
            [name.clone()].into()
        };
        match self.calls.get_mut(&name) {
            Some(others) => others.retain(|column| columns.contains(column)),
            None => drop(self.calls.insert(name, columns)),
        }
    }

    fn add_table(&mut self, alias: Option<&TableAlias>, name: Option<&ObjectName>) {
        let last = name.and_then(|name| name.0.last()).and_then(|last| last.as_ident());
        let name = alias.map(|alias| &alias.name).or(last);
        self.tables.extend(name.map(|name| name.value.to_lowercase()));
    }
}

impl Visitor for FunctionRowSources {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        for named in query.with.iter().flat_map(|with| &with.cte_tables) {
            self.add_table(Some(&named.alias), None);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Function { name, alias, .. } => self.add_call(alias.as_ref(), last_of(name)),
            TableFactor::Table { name, alias, args, .. } if args.is_some() || is_value(name) => {
                self.add_call(alias.as_ref(), last_of(name));
            }
            TableFactor::Table { name, alias, .. } => self.add_table(alias.as_ref(), Some(name)),
            TableFactor::UNNEST { alias, .. } => self.add_call(alias.as_ref(), "unnest"),
            TableFactor::Derived { alias, .. } | TableFactor::NestedJoin { alias, .. } => {
                self.add_table(alias.as_ref(), None);
            }
            // No other source passes.
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn last_of(name: &ObjectName) -> &str {
    name.0.last().and_then(|last| last.as_ident()).map_or("", |last| last.value.as_str())
}

fn is_value(name: &ObjectName) -> bool {
    let [part] = name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|name| VALUES.split(' ').any(|known| name.value.eq_ignore_ascii_case(known)))
}
