//! Queries, by sqlparser's tree. A query is a read when every part of its tree is listed here and every function, type and operator in
//! it is one of the engine's own that changes nothing. A part that is not listed is `unknown`, and so is a query that the parser does not
//! understand, because its words alone prove nothing.
//!
//! It does not know the contents of the database: a view, a policy, a user's own cast or operator may do anything.

use std::ops::ControlFlow;

use sqlparser::ast::{
    AccessExpr, BinaryOperator, DataType, Expr, Function, FunctionArg, FunctionArgOperator, FunctionArgumentClause,
    FunctionArguments, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Statement, TableAlias, TableFactor, UnaryOperator, Visit, Visitor,
};
use sqlparser::dialect::{GenericDialect, MySqlDialect, PostgreSqlDialect, SQLiteDialect};
use sqlparser::parser::Parser;
use sqlparser::tokenizer::Token;

use crate::effects::sql::{
    self,
    functions::{self, FunctionCall},
    rows_of_functions::{FunctionRowSources, rows_of_functions},
    skipped_words, types,
};
use crate::effects::{EffectFinding, ProgramEffect, SqlDialect, shown};

/// How deep the parser may go by its own count: a subquery counts three or four times.
const PARSER_DEPTH_MAX: usize = 50;
/// Stack for what the parser counts, in builds without optimisation too.
const STACK_BYTES_MIN: usize = 16 * 1024 * 1024;
/// Stack for each word beside that: joins and chains of operators nest without being counted, and take at least a word each.
const STACK_BYTES_PER_TOKEN: usize = 16 * 1024;

/// What the query would do.
pub(super) fn judge(query: sql::SqlStatement<'_>) -> EffectFinding {
    let stack_bytes = STACK_BYTES_MIN + query.tokens.len() * STACK_BYTES_PER_TOKEN;
    // Parsing, walking, writing and dropping a tree all go as deep as it is.
    stacker::maybe_grow(stack_bytes, stack_bytes, || judge_here(query))
}

/// The parser's rules for a dialect.
pub(super) fn grammar(dialect: SqlDialect) -> &'static dyn sqlparser::dialect::Dialect {
    match dialect {
        SqlDialect::Postgres => &PostgreSqlDialect {},
        SqlDialect::Sqlite => &SQLiteDialect {},
        SqlDialect::MySql => &MySqlDialect {},
        SqlDialect::Generic => &GenericDialect {},
    }
}

fn judge_here(query: sql::SqlStatement<'_>) -> EffectFinding {
    let parser = Parser::new(grammar(query.dialect)).with_recursion_limit(PARSER_DEPTH_MAX);
    let parsed = parser.try_with_sql(query.source()).and_then(|mut parser| {
        let statement = parser.parse_statement()?;
        // INVARIANT: the parser has read the whole text. It would take `END` for the end of a block and leave the rest unread.
        parser.expect_token(&Token::EOF)?;
        Ok(statement)
    });
    let Ok(statement) = parsed else { return EffectFinding::unknown("the parser does not understand this query") };
    if !matches!(statement, Statement::Query(_)) {
        return EffectFinding::unknown("the parser does not take this for a query");
    }
    // Only PostgreSQL reads `a.b` as a call of the function `b`.
    let of_functions = match query.dialect {
        SqlDialect::Postgres | SqlDialect::Generic => rows_of_functions(&statement),
        SqlDialect::Sqlite | SqlDialect::MySql => FunctionRowSources::default(),
    };
    let mut walk = SqlTreeWalk { dialect: query.dialect, found: None, of_functions };
    let _: ControlFlow<()> = statement.visit(&mut walk);
    if let Some(found) = walk.found {
        return found;
    }
    match skipped_words::missing(query, &statement.to_string()) {
        Some(word) => EffectFinding::unknown(format!("the parser read past `{}`", shown(&word))),
        None => EffectFinding::read("a query, and every part of it is known to change nothing"),
    }
}

struct SqlTreeWalk {
    dialect: SqlDialect,
    found: Option<EffectFinding>,
    of_functions: FunctionRowSources,
}

impl SqlTreeWalk {
    fn note(&mut self, finding: EffectFinding) -> ControlFlow<()> {
        let proved = finding.effect != ProgramEffect::Unknown;
        self.found = Some(match self.found.take() {
            Some(earlier) => earlier.or_heavier(finding),
            None => finding,
        });
        if proved { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn allow(&mut self, allowed: bool, what: &str) -> ControlFlow<()> {
        if allowed {
            return ControlFlow::Continue(());
        }
        self.note(EffectFinding::unknown(format!("{what} is not known to change nothing")))
    }

    fn call(&mut self, name: &ObjectName, has_arguments: bool) -> ControlFlow<()> {
        let [qualifiers @ .., ObjectNamePart::Identifier(last)] = name.0.as_slice() else {
            return self.note(EffectFinding::unknown("calls a function whose name is computed"));
        };
        let schema = match qualifiers {
            [] => None,
            [ObjectNamePart::Identifier(schema)] if schema.quote_style.is_none() => Some(schema.value.as_str()),
            // With quotes its case counts, so it may be a user's schema.
            _ => Some(""),
        };
        let called = FunctionCall { schema, name: &last.value, quoted: last.quote_style.is_some(), has_arguments };
        match functions::judge(self.dialect, called) {
            Some(finding) => self.note(finding),
            None => ControlFlow::Continue(()),
        }
    }

    fn function(&mut self, function: &Function) -> ControlFlow<()> {
        let Function {
            name,
            uses_odbc_syntax,
            parameters,
            args,
            within_group: _,
            filter: _,
            null_treatment: _,
            over: _,
        } = function;
        self.allow(!uses_odbc_syntax, "a call in braces")?;
        self.allow(matches!(parameters, FunctionArguments::None), "a function with two lists of arguments")?;
        let has_arguments = match args {
            FunctionArguments::None => false,
            FunctionArguments::Subquery(_) => true,
            FunctionArguments::List(list) => {
                list.clauses.iter().try_for_each(|clause| self.clause_of_call(clause))?;
                list.args.iter().try_for_each(|argument| self.argument(argument))?;
                !list.args.is_empty()
            }
        };
        self.call(name, has_arguments)
    }

    /// `name => value` names an argument. `@a := value` would set a variable of MySQL's.
    fn argument(&mut self, argument: &FunctionArg) -> ControlFlow<()> {
        let plain = match argument {
            FunctionArg::Unnamed(_) => true,
            FunctionArg::Named { operator, .. } => *operator == FunctionArgOperator::RightArrow,
            FunctionArg::ExprNamed { name, operator, .. } => {
                *operator == FunctionArgOperator::RightArrow && matches!(name, Expr::Identifier(_))
            }
        };
        self.allow(plain, "an argument with an operator")
    }

    fn clause_of_call(&mut self, clause: &FunctionArgumentClause) -> ControlFlow<()> {
        match clause {
            FunctionArgumentClause::JsonReturningClause(returning) => self.cast(&returning.data_type),
            FunctionArgumentClause::IgnoreOrRespectNulls(_)
            | FunctionArgumentClause::Where(_)
            | FunctionArgumentClause::OrderBy(_)
            | FunctionArgumentClause::Limit(_)
            | FunctionArgumentClause::OnOverflow(_)
            | FunctionArgumentClause::Separator(_)
            | FunctionArgumentClause::JsonNullClause(_) => ControlFlow::Continue(()),
            FunctionArgumentClause::Having(_) => self.allow(false, "a clause in a call"),
        }
    }

    /// Types may stand behind the columns of a function's rows: `json_to_record('{}') AS r(a int)`.
    fn alias(&mut self, alias: Option<&TableAlias>) -> ControlFlow<()> {
        alias.map_or(ControlFlow::Continue(()), |alias| self.name_given(&alias.name))?;
        let columns = alias.map(|alias| alias.columns.as_slice()).unwrap_or_default();
        columns.iter().filter_map(|column| column.data_type.as_ref()).try_for_each(|kind| self.cast(kind))
    }

    /// PostgreSQL knows no strings as aliases: what the parser takes for one, `document 'x'`, is a value of that type.
    fn name_given(&mut self, alias: &Ident) -> ControlFlow<()> {
        let is_text = alias.quote_style == Some('\'');
        let plain = !(is_text && matches!(self.dialect, SqlDialect::Postgres | SqlDialect::Generic));
        self.allow(plain, "a string in the place of an alias, which may be a value of a user's type,")
    }

    /// A name in FROM without parentheses. SQLite's functions that give rows are tables too: to read `pragma_optimize` is to run it.
    fn table(&mut self, name: &ObjectName) -> ControlFlow<()> {
        self.allow(
            !is_acting_view_of_mysql(self.dialect, name),
            "a view of MySQL's that does something when it is read",
        )?;
        let is_function = match name.0.last() {
            Some(ObjectNamePart::Identifier(last))
                if matches!(self.dialect, SqlDialect::Sqlite | SqlDialect::Generic) =>
            {
                functions::is_acting_table_of_sqlite(&last.value)
            }
            _ => false,
        };
        self.allow(!is_function, "a table of SQLite's that does something when it is read")
    }

    /// `s.nextval` is a call if `s` has no such column.
    fn name_of_column(&mut self, name: &Ident) -> ControlFlow<()> {
        if functions::changes(&name.value) {
            return self
                .note(EffectFinding::unknown(format!("`.{}` may call the function of that name", shown(&name.value))));
        }
        ControlFlow::Continue(())
    }

    /// `t.column`. If `t` is a call, a column that its rows do not have is a call too.
    fn qualified(&mut self, parts: &[Ident]) -> ControlFlow<()> {
        parts.iter().skip(1).try_for_each(|name| self.name_of_column(name))?;
        let is_column = parts.windows(2).all(|pair| match pair {
            [source, column] => self.of_functions.has(source, column),
            _ => true,
        });
        self.allow(is_column, "a column that a call is not known to have, and that may be a call,")
    }

    /// `t.column[1]` is a part of a column; `(expression).name` and `a[1].name` may call the function of that name.
    fn field(&mut self, root: &Expr, chain: &[AccessExpr]) -> ControlFlow<()> {
        let names = chain.iter().take_while(|access| matches!(access, AccessExpr::Dot(_))).count();
        let of_column = names == 0 || matches!(root, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        let subscripts = chain.iter().skip(names).all(|access| matches!(access, AccessExpr::Subscript(_)));
        self.allow(of_column && subscripts, "a field of an expression, which may call a function,")?;
        let mut parts = match root {
            Expr::Identifier(name) => vec![name.clone()],
            Expr::CompoundIdentifier(names) => names.clone(),
            _ => Vec::new(),
        };
        for access in chain.iter().take(names) {
            let AccessExpr::Dot(Expr::Identifier(name)) = access else {
                return self.allow(false, "a field of an expression");
            };
            parts.push(name.clone());
        }
        self.qualified(&parts)
    }

    fn cast(&mut self, kind: &DataType) -> ControlFlow<()> {
        let is_own = types::is_engines_own(self.dialect, kind);
        self.allow(is_own, "a conversion to a type that is not the engine's own")
    }
}

impl Visitor for SqlTreeWalk {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Query {
            with,
            body,
            order_by: _,
            limit_clause: _,
            fetch: _,
            locks,
            for_clause,
            settings,
            format_clause,
            pipe_operators,
        } = query;
        if !locks.is_empty() {
            return self.note(EffectFinding::write("SELECT … FOR UPDATE or FOR SHARE locks rows"));
        }
        let named = with.iter().flat_map(|with| &with.cte_tables);
        named.map(|named| &named.alias).try_for_each(|alias| self.alias(Some(alias)))?;
        let verb = match body.as_ref() {
            SetExpr::Insert(_) => "INSERT",
            SetExpr::Update(_) => "UPDATE",
            SetExpr::Delete(_) => "DELETE",
            SetExpr::Merge(_) => "MERGE",
            SetExpr::Select(_)
            | SetExpr::Query(_)
            | SetExpr::SetOperation { .. }
            | SetExpr::Values(_)
            | SetExpr::Table(_) => {
                let plain =
                    for_clause.is_none() && settings.is_none() && format_clause.is_none() && pipe_operators.is_empty();
                return self.allow(plain, "a clause behind the query");
            }
        };
        self.note(EffectFinding::write(format!("{verb} inside WITH or a subquery changes rows")))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<()> {
        if select.into.is_some() {
            return self.note(EffectFinding::new(ProgramEffect::Ddl, "SELECT … INTO creates a table"));
        }
        for item in &select.projection {
            if let SelectItem::ExprWithAlias { alias, .. } = item {
                self.name_given(alias)?;
            }
            let plain = match item {
                SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. } | SelectItem::Wildcard(_) => true,
                SelectItem::QualifiedWildcard(kind, _) => {
                    matches!(kind, SelectItemQualifiedWildcardKind::ObjectName(_))
                }
                SelectItem::ExprWithAliases { .. } => false,
            };
            self.allow(plain, "a column list")?;
        }
        let foreign = select.optimizer_hints.is_empty()
            && select.top.is_none()
            && select.exclude.is_none()
            && select.lateral_views.is_empty()
            && select.prewhere.is_none()
            && select.connect_by.is_empty()
            && select.cluster_by.is_empty()
            && select.distribute_by.is_empty()
            && select.sort_by.is_empty()
            && select.qualify.is_none()
            && select.value_table_mode.is_none();
        self.allow(foreign, "a clause that none of the engines has")
    }

    fn pre_visit_statement(&mut self, statement: &Statement) -> ControlFlow<()> {
        match statement {
            Statement::Query(_) => ControlFlow::Continue(()),
            _ => self.note(EffectFinding::write("a statement inside a query is not a query")),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) => self.function(function),
            Expr::CompoundIdentifier(parts) => self.qualified(parts),
            Expr::CompoundFieldAccess { root, access_chain } => self.field(root, access_chain),
            Expr::BinaryOp { op, .. } => self.allow(is_own_operator(op), "an operator"),
            Expr::UnaryOp { op, .. } => self.allow(
                matches!(
                    op,
                    UnaryOperator::Plus
                        | UnaryOperator::Minus
                        | UnaryOperator::Not
                        | UnaryOperator::BitwiseNot
                        | UnaryOperator::PGAbs
                        | UnaryOperator::PGSquareRoot
                        | UnaryOperator::PGCubeRoot
                ),
                "an operator",
            ),
            Expr::AnyOp { compare_op, .. } | Expr::AllOp { compare_op, .. } => {
                self.allow(is_own_operator(compare_op), "an operator")
            }
            Expr::Cast { data_type, .. } => self.cast(data_type),
            Expr::TypedString(typed) => self.cast(&typed.data_type),
            Expr::Convert { data_type, .. } => match data_type {
                Some(data_type) => self.cast(data_type),
                None => ControlFlow::Continue(()),
            },
            other => self.allow(is_plain(other), "an expression"),
        }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Function { name, alias, .. } => {
                self.alias(alias.as_ref())?;
                self.call(name, true)
            }
            TableFactor::Table {
                name,
                args,
                with_hints,
                version,
                json_path,
                sample,
                partitions: _,
                alias,
                with_ordinality: _,
                index_hints: _,
            } => {
                let plain = with_hints.is_empty() && version.is_none() && json_path.is_none() && sample.is_none();
                self.allow(plain, "a clause behind a table")?;
                self.alias(alias.as_ref())?;
                if args.is_some() { self.call(name, true) } else { self.table(name) }
            }
            TableFactor::Derived { sample, alias, .. } => {
                self.allow(sample.is_none(), "a clause behind a table")?;
                self.alias(alias.as_ref())
            }
            TableFactor::UNNEST { alias, .. } | TableFactor::NestedJoin { alias, .. } => self.alias(alias.as_ref()),
            TableFactor::TableFunction { .. }
            | TableFactor::JsonTable { .. }
            | TableFactor::OpenJsonTable { .. }
            | TableFactor::Pivot { .. }
            | TableFactor::Unpivot { .. }
            | TableFactor::UnpivotExpr { .. }
            | TableFactor::MatchRecognize { .. }
            | TableFactor::XmlTable { .. }
            | TableFactor::SemanticView { .. } => self.allow(false, "a source of rows"),
        }
    }
}

/// Whether an expression by itself does nothing: its parts are visited on their own.
fn is_plain(expression: &Expr) -> bool {
    match expression {
        Expr::Identifier(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::IsJson { .. }
        | Expr::IsNormalized { .. }
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Between { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::SimilarTo { .. }
        | Expr::RLike { .. }
        | Expr::AtTimeZone { .. }
        | Expr::Extract { .. }
        | Expr::Ceil { .. }
        | Expr::Floor { .. }
        | Expr::Position { .. }
        | Expr::Substring { .. }
        | Expr::Trim { .. }
        | Expr::Overlay { .. }
        | Expr::Collate { .. }
        | Expr::Nested(_)
        | Expr::Value(_)
        | Expr::Case { .. }
        | Expr::Exists { .. }
        | Expr::Subquery(_)
        | Expr::GroupingSets(_)
        | Expr::Cube(_)
        | Expr::Rollup(_)
        | Expr::Tuple(_)
        | Expr::Array(_)
        | Expr::Interval(_)
        | Expr::MatchAgainst { .. }
        | Expr::Wildcard(_)
        | Expr::QualifiedWildcard(..) => true,
        // Judged elsewhere by the names in them, or no expression of these engines.
        Expr::Function(_)
        | Expr::CompoundIdentifier(_)
        | Expr::CompoundFieldAccess { .. }
        | Expr::BinaryOp { .. }
        | Expr::UnaryOp { .. }
        | Expr::AnyOp { .. }
        | Expr::AllOp { .. }
        | Expr::Cast { .. }
        | Expr::TypedString(_)
        | Expr::Convert { .. }
        | Expr::JsonAccess { .. }
        | Expr::InUnnest { .. }
        | Expr::Prefixed { .. }
        | Expr::Struct { .. }
        | Expr::Named { .. }
        | Expr::Dictionary(_)
        | Expr::Map(_)
        | Expr::OuterJoin(_)
        | Expr::Prior(_)
        | Expr::Lambda(_)
        | Expr::MemberOf(_) => false,
    }
}

fn is_own_operator(operator: &BinaryOperator) -> bool {
    !matches!(
        operator,
        BinaryOperator::Custom(_) | BinaryOperator::PGCustomBinaryOperator(_) | BinaryOperator::Assignment
    )
}

/// Views of `sys` set variables of the session; some of `information_schema` set counters to zero.
fn is_acting_view_of_mysql(dialect: SqlDialect, name: &ObjectName) -> bool {
    if !matches!(dialect, SqlDialect::MySql | SqlDialect::Generic) {
        return false;
    }
    let is = |part: Option<&ObjectNamePart>, fits: fn(&str) -> bool| {
        part.and_then(ObjectNamePart::as_ident).is_some_and(|name| fits(&name.value.to_ascii_lowercase()))
    };
    let (last, schema) = (name.0.last(), name.0.iter().rev().nth(1));
    is(schema, |schema| schema == "sys") || is(last, |name| name.ends_with("_reset"))
}
