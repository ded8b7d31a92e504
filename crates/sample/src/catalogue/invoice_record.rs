//! An invoice as it is read and described, by every tool that returns one.
//!
//! Responsible for the one shape of an invoice. Changes nothing: drafting and voiding are `invoices`,
//! paying is `payments`.

use rusqlite::{Connection, OptionalExtension, Row};
use serde_json::{Value, json};

use crate::failure::{SampleToolFailure, SampleToolOutcome};
use crate::schema;

pub(super) const DESCRIPTION_LENGTH_MAX: usize = 200;
pub(super) const QUANTITY_MAX: i64 = 100_000;
pub(super) const UNIT_CENTS_MAX: i64 = 100_000_000;
pub(super) const STATUSES: [&str; 4] = ["draft", "open", "paid", "void"];

/// Reads one invoice with its lines, or declines if there is none.
pub(super) fn invoice(connection: &Connection, invoice_id: &str) -> SampleToolOutcome {
    let mut invoice = connection
        .prepare_cached("SELECT * FROM invoice_summaries WHERE invoice_id = ?1")?
        .query_row([invoice_id], summary_from_row)
        .optional()?
        .ok_or_else(|| SampleToolFailure::declined(format!("no such invoice: `{invoice_id}`")))?;
    let mut statement = connection.prepare_cached(
        "SELECT description, quantity, unit_cents FROM invoice_lines
          WHERE invoice_id = ?1 ORDER BY position",
    )?;
    let rows = statement.query_map([invoice_id], |row| {
        Ok(json!({
            "description": row.get::<_, String>(0)?,
            "quantity": row.get::<_, i64>(1)?,
            "unit_cents": row.get::<_, i64>(2)?,
        }))
    })?;
    let lines = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
    schema::set(&mut invoice, "lines", lines.into());
    Ok(invoice)
}

/// An invoice with its lines, as `get_invoice` and every changing tool return it.
pub(super) fn invoice_schema() -> Value {
    let mut properties = summary_properties();
    schema::set(&mut properties, "lines", schema::list(line_schema()));
    schema::full_object(properties)
}

pub(super) fn summary_from_row(row: &Row<'_>) -> rusqlite::Result<Value> {
    Ok(json!({
        "invoice_id": row.get::<_, String>("invoice_id")?,
        "customer_id": row.get::<_, String>("customer_id")?,
        "status": row.get::<_, String>("status")?,
        "currency": row.get::<_, String>("currency")?,
        "issued": row.get::<_, String>("issued")?,
        "due": row.get::<_, String>("due")?,
        "total_cents": row.get::<_, i64>("total_cents")?,
        "paid_cents": row.get::<_, i64>("paid_cents")?,
        "void_reason": row.get::<_, Option<String>>("void_reason")?,
    }))
}

pub(super) fn summary_properties() -> Value {
    json!({
        "invoice_id": schema::invoice_id(),
        "customer_id": schema::customer_id(),
        "status": { "type": "string", "enum": STATUSES },
        "currency": schema::currency(),
        "issued": schema::date("Day of issue."),
        "due": schema::date("Last day to pay without a reminder."),
        "total_cents": schema::cents("Sum of all lines."),
        "paid_cents": schema::cents("Paid so far."),
        "void_reason": { "type": ["string", "null"], "description": "Only on a void invoice." },
    })
}

pub(super) fn line_schema() -> Value {
    schema::full_object(json!({
        "description": schema::text(DESCRIPTION_LENGTH_MAX, "What is charged for."),
        "quantity": { "type": "integer", "minimum": 1, "maximum": QUANTITY_MAX },
        "unit_cents": { "type": "integer", "minimum": 0, "maximum": UNIT_CENTS_MAX, "description": "Price of one, in cents." },
    }))
}
