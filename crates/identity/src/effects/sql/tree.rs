//! The first reader of queries: sqlparser's tree, walked whole. Responsible for naming every function a query calls, wherever it
//! stands, and every part of it that changes something. A query that the parser does not know is the second reader's (`words`).

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, ObjectName, ObjectNamePart, Query, Select, SetExpr, Statement, TableFactor, Visit, Visitor,
};
use sqlparser::dialect::{GenericDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;

use crate::effects::sql::functions::{self, Called};
use crate::effects::{Dialect, Effect, Finding};

/// Why there is no answer.
pub(super) struct NotUnderstood;

/// What the query would do; `Ok(None)` is a read.
pub(super) fn judge(dialect: Dialect, query: &str, depth_max: usize) -> Result<Option<Finding>, NotUnderstood> {
    let grammar: &dyn sqlparser::dialect::Dialect = match dialect {
        Dialect::Postgres => &PostgreSqlDialect {},
        Dialect::Sqlite => &SQLiteDialect {},
        Dialect::MySql => &MySqlDialect {},
        Dialect::Generic => &GenericDialect {},
    };
    let parser = Parser::new(grammar).with_recursion_limit(depth_max).try_with_sql(query);
    let statements = parser.and_then(|mut parser| parser.parse_statements()).map_err(|_| NotUnderstood)?;
    // INVARIANT: the lexer has cut one statement out; a parser that sees two reads the text differently.
    let [statement @ Statement::Query(_)] = statements.as_slice() else { return Err(NotUnderstood) };
    let mut walk = Walk { dialect, found: None };
    let _: ControlFlow<()> = statement.visit(&mut walk);
    Ok(walk.found)
}

struct Walk {
    dialect: Dialect,
    found: Option<Finding>,
}

impl Walk {
    fn note(&mut self, finding: Finding) -> ControlFlow<()> {
        let proved = finding.effect != Effect::Unknown;
        self.found = Some(match self.found.take() {
            Some(earlier) => earlier.or_heavier(finding),
            None => finding,
        });
        if proved { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn call(&mut self, name: &ObjectName) -> ControlFlow<()> {
        let [qualifiers @ .., ObjectNamePart::Identifier(last)] = name.0.as_slice() else {
            return self.note(Finding::unknown("calls a function whose name is computed"));
        };
        let schema = match qualifiers {
            [] => None,
            [.., ObjectNamePart::Identifier(schema)] => Some(schema.value.as_str()),
            _ => Some(""),
        };
        let called = Called { schema, name: &last.value, quoted: last.quote_style.is_some() };
        match functions::judge(self.dialect, called) {
            Some(finding) => self.note(finding),
            None => ControlFlow::Continue(()),
        }
    }
}

impl Visitor for Walk {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if !query.locks.is_empty() {
            return self.note(Finding::write("SELECT … FOR UPDATE or FOR SHARE locks rows"));
        }
        let verb = match query.body.as_ref() {
            SetExpr::Insert(_) => "INSERT",
            SetExpr::Update(_) => "UPDATE",
            SetExpr::Delete(_) => "DELETE",
            SetExpr::Merge(_) => "MERGE",
            _ => return ControlFlow::Continue(()),
        };
        self.note(Finding::write(format!("{verb} inside WITH or a subquery changes rows")))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if select.into.is_some() {
            return self.note(Finding::new(Effect::Ddl, "SELECT … INTO creates a table"));
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        match statement {
            Statement::Query(_) => ControlFlow::Continue(()),
            _ => self.note(Finding::write("a statement inside a query is not a query")),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => self.call(&function.name),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Function { name, .. } | TableFactor::Table { name, args: Some(_), .. } => self.call(name),
            _ => ControlFlow::Continue(()),
        }
    }
}
