//! Reports: what happened, in numbers.
//!
//! Reads only. Contains the one honest tool that reports progress, the count that proves which effects were real, and
//! the beta tool that can be shown and hidden.

use std::thread;
use std::time::Duration;

use rusqlite::params;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::SampleError;
use crate::arguments::{Arguments, decode};
use crate::call::SampleCall;
use crate::company::{Company, CompanyEffect};
use crate::failure::SampleToolOutcome;
use crate::formats::Month;
use crate::schema;
use crate::session::SampleSession;
use crate::tool::{Hints, SampleTool, ToolRunner};

/// Long enough for a client to see the steps apart, short enough for a test.
const STEP_PAUSE: Duration = Duration::from_millis(15);

pub(super) const TOOLS: &[SampleTool] = &[
    SampleTool {
        name: "monthly_report",
        title: "Monthly report",
        description: "Sum up the invoices issued in one month, per currency. Takes a moment and reports \
            progress. Does not save or send the report, and does not convert currencies.",
        input: || {
            schema::full_object(json!({
                "month": { "type": "string", "pattern": r"^\d{4}-\d{2}$", "description": "The month, e.g. 2026-10." },
            }))
        },
        output: Some(report_schema),
        hints: Hints::Reads,
        run: ToolRunner::Background(monthly_report),
    },
    SampleTool {
        name: "count_effects",
        title: "Count effects",
        description: "Count what really happened since the company was set up: payments, mails, writes \
            and so on. Counts completed effects only, never attempts. Changes nothing.",
        input: schema::no_properties,
        output: Some(|| {
            let mut counts: Map<String, Value> =
                CompanyEffect::ALL.iter().map(|effect| (effect.as_str().into(), count_schema())).collect();
            counts.insert("total".into(), count_schema());
            schema::full_object(Value::Object(counts))
        }),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(count_effects),
    },
];

pub(super) const BETA_TOOLS: &[SampleTool] = &[SampleTool {
    name: "beta_outstanding_total",
    title: "Outstanding total (beta)",
    description: "Sum up what customers still owe on open invoices, per currency. Listed only while \
        beta tools are on. Does not remind anyone.",
    input: schema::no_properties,
    output: Some(|| schema::full_object(json!({ "by_currency": schema::list(amounts_schema()) }))),
    hints: Hints::Reads,
    run: ToolRunner::AtOnce(beta_outstanding_total),
}];

/// One figure of the monthly report.
struct ReportFigure {
    name: &'static str,
    measure: fn(&Company, &str) -> SampleToolOutcome,
}

const STEPS: [ReportFigure; 5] = [
    ReportFigure { name: "invoices_issued", measure: |company, month| count_invoices(company, month, None) },
    ReportFigure { name: "invoices_open", measure: |company, month| count_invoices(company, month, Some("open")) },
    ReportFigure { name: "invoices_paid", measure: |company, month| count_invoices(company, month, Some("paid")) },
    ReportFigure { name: "invoices_void", measure: |company, month| count_invoices(company, month, Some("void")) },
    ReportFigure {
        name: "by_currency",
        measure: |company, month| {
            let condition = "status <> 'void' AND SUBSTR(issued, 1, 7) = ?1";
            amounts(company, condition, month)
        },
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct MonthlyReport {
    month: Month,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

fn monthly_report(session: &SampleSession, call: &SampleCall) -> Result<(), SampleError> {
    let MonthlyReport { month } = match decode(call.arguments.clone()) {
        Ok(arguments) => arguments,
        Err(failure) => return session.answer_call(call, Err(failure)),
    };
    let month = month.as_str();
    let mut report = Map::from_iter([("month".into(), month.into())]);
    let total = STEPS.len();
    for (done, step) in (1_usize..).zip(STEPS) {
        match (step.measure)(&session.company, month) {
            Ok(figure) => report.insert(step.name.into(), figure),
            Err(failure) => return session.answer_call(call, Err(failure)),
        };
        thread::sleep(STEP_PAUSE);
        if let Some(token) = &call.progress_token {
            let params = json!({
                "progressToken": token, "progress": done, "total": total, "message": step.name,
            });
            session.output.notify("notifications/progress", &params)?;
        }
    }
    session.answer_call(call, Ok(Value::Object(report)))
}

fn count_invoices(company: &Company, month: &str, status: Option<&str>) -> SampleToolOutcome {
    company.read(|connection| {
        let count: i64 = connection.query_row(
            "SELECT COUNT(*) FROM invoices
              WHERE SUBSTR(issued, 1, 7) = ?1 AND (?2 IS NULL OR status = ?2)",
            params![month, status],
            |row| row.get(0),
        )?;
        Ok(count.into())
    })
}

/// Sums per currency over the invoices that a condition of this module selects.
fn amounts(company: &Company, condition: &'static str, argument: &str) -> SampleToolOutcome {
    company.read(|connection| {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT currency, SUM(total_cents), SUM(paid_cents) FROM invoice_summaries
              WHERE {condition} GROUP BY currency ORDER BY currency"
        ))?;
        let rows = statement.query_map([argument], |row| {
            Ok(json!({
                "currency": row.get::<_, String>(0)?,
                "invoiced_cents": row.get::<_, i64>(1)?,
                "paid_cents": row.get::<_, i64>(2)?,
            }))
        })?;
        let amounts = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
        Ok(amounts.into())
    })
}

fn count_effects(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let NoArguments {} = decode(arguments)?;
    company.read(|connection| {
        let mut statement = connection.prepare_cached("SELECT COUNT(*) FROM effects WHERE kind = ?1")?;
        let mut counts = Map::new();
        let mut total = 0;
        for effect in CompanyEffect::ALL {
            let count: i64 = statement.query_row([effect.as_str()], |row| row.get(0))?;
            total += count;
            counts.insert(effect.as_str().into(), count.into());
        }
        counts.insert("total".into(), total.into());
        Ok(Value::Object(counts))
    })
}

fn beta_outstanding_total(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let NoArguments {} = decode(arguments)?;
    let by_currency = amounts(company, "status = ?1", "open")?;
    Ok(json!({ "by_currency": by_currency }))
}

fn report_schema() -> Value {
    schema::full_object(json!({
        "month": { "type": "string" },
        "invoices_issued": count_schema(),
        "invoices_open": count_schema(),
        "invoices_paid": count_schema(),
        "invoices_void": count_schema(),
        "by_currency": schema::list(amounts_schema()),
    }))
}

fn amounts_schema() -> Value {
    schema::full_object(json!({
        "currency": schema::currency(),
        "invoiced_cents": schema::cents("Sum of the invoices."),
        "paid_cents": schema::cents("Paid on them so far."),
    }))
}

fn count_schema() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}
