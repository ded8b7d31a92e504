//! Queries: runs any SQL on the company's own books.
//!
//! Careless on purpose, as many servers are: `read_query` does not check what it runs, so only a gateway in front of it
//! keeps a `DELETE` from being called as a read. Both tools take the same argument. A query that changed something is
//! counted like any effect.

use rusqlite::{Connection, types::ValueRef};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::arguments::{Arguments, check_length, decode};
use crate::company::{Company, CompanyEffect, record_effect};
use crate::failure::{SampleToolFailure, SampleToolOutcome};
use crate::schema;
use crate::tool::{Hints, SampleTool, ToolRunner};

const QUERY_LENGTH_MAX: usize = 4_000;
const ROWS_MAX: usize = 100;

pub(super) const TOOLS: &[SampleTool] = &[
    SampleTool {
        name: "read_query",
        title: "Read with SQL",
        description: "Run a SELECT query on the company's SQLite database and return its rows, at most 100 of them.",
        input: query_schema,
        output: Some(|| schema::full_object(json!({ "rows": schema::list(json!({ "type": "object" })) }))),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(read_query),
    },
    SampleTool {
        name: "write_query",
        title: "Write with SQL",
        description: "Run an INSERT, UPDATE or DELETE statement on the company's SQLite database and return how many \
            rows it changed. Nothing keeps what was there before.",
        input: query_schema,
        output: Some(|| schema::full_object(json!({ "rows_changed": { "type": "integer", "minimum": 0 } }))),
        hints: Hints::Absent,
        run: ToolRunner::AtOnce(write_query),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QueryArguments {
    query: String,
}

/// The result of a statement.
struct QueryResult {
    rows: Vec<Value>,
    rows_changed: u64,
}

fn read_query(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    run(company, arguments).map(|ran| json!({ "rows": ran.rows }))
}

fn write_query(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    run(company, arguments).map(|ran| json!({ "rows_changed": ran.rows_changed }))
}

fn run(company: &Company, arguments: Arguments) -> Result<QueryResult, SampleToolFailure> {
    let QueryArguments { query } = decode(arguments)?;
    check_length("query", &query, QUERY_LENGTH_MAX)?;
    company.change(|transaction| {
        let before = transaction.total_changes();
        let (rows, reads_only) = rows(transaction, &query)?;
        let rows_changed = transaction.total_changes().saturating_sub(before);
        if !reads_only {
            record_effect(transaction, CompanyEffect::SqlChange, &query)?;
        }
        Ok(QueryResult { rows, rows_changed })
    })
}

/// The rows of a statement, run to its end, and whether SQLite itself says that it only reads.
fn rows(connection: &Connection, query: &str) -> Result<(Vec<Value>, bool), SampleToolFailure> {
    let mut statement = connection.prepare(query)?;
    let reads_only = statement.readonly();
    let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let mut found = Vec::new();
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        if found.len() == ROWS_MAX {
            break;
        }
        let mut shown = Map::new();
        for (position, name) in names.iter().enumerate() {
            shown.insert(name.clone(), value(row.get_ref(position)?));
        }
        found.push(Value::Object(shown));
    }
    Ok((found, reads_only))
}

fn value(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned().into(),
        ValueRef::Blob(bytes) => format!("({} bytes)", bytes.len()).into(),
    }
}

fn query_schema() -> Value {
    schema::full_object(json!({ "query": schema::text(QUERY_LENGTH_MAX, "The SQL to run.") }))
}
