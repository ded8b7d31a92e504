//! Invoices: listing, reading, drafting and voiding them.
//!
//! Never moves money: paying is `payments`. Never sends an invoice: no tool of this company does.

use rusqlite::{Transaction, params};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Arguments, check_between, check_length, check_one_of, decode};
use crate::catalogue::customers::customer;
use crate::catalogue::invoice_record::{
    DESCRIPTION_LENGTH_MAX, QUANTITY_MAX, STATUSES, UNIT_CENTS_MAX, invoice, invoice_schema, line_schema,
    summary_from_row, summary_properties,
};
use crate::company::{Company, CompanyEffect, next_number, record_effect};
use crate::failure::{SampleToolFailure, SampleToolOutcome};
use crate::formats::Date;
use crate::schema;
use crate::tool::{Hints, SampleTool, ToolRunner};

const LINES_MAX: usize = 50;
const VOID_REASONS: [&str; 4] = ["duplicate", "customer_request", "fraud_review", "internal_error"];

pub(super) const TOOLS: &[SampleTool] = &[
    SampleTool {
        name: "list_invoices",
        title: "List invoices",
        description: "List invoices with their totals, oldest first, optionally of one customer or in \
            one status. Does not return line items; use get_invoice for those. Changes nothing.",
        input: || {
            schema::object(
                &[],
                json!({
                    "customer_id": schema::customer_id(),
                    "status": { "type": "string", "enum": STATUSES, "description": "Only invoices in this status." },
                }),
            )
        },
        output: Some(|| {
            schema::full_object(json!({ "invoices": schema::list(schema::full_object(summary_properties())) }))
        }),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(list_invoices),
    },
    SampleTool {
        name: "get_invoice",
        title: "Get one invoice",
        description: "Read one invoice with its line items, total and what was paid so far. Use only \
            with an invoice_id that list_invoices returned. Does not change, send or charge anything.",
        input: || schema::full_object(json!({ "invoice_id": schema::invoice_id() })),
        output: Some(invoice_schema),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(get_invoice),
    },
    SampleTool {
        name: "create_invoice_draft",
        title: "Create an invoice draft",
        description: "EXECUTE ONLY to create a draft invoice for an existing customer. Does not send, \
            charge or finalize it, and does not notify the customer. Calling it twice creates two \
            drafts. If customer_id is missing, ask rather than guess.",
        input: draft_input,
        output: Some(invoice_schema),
        hints: Hints::Adds,
        run: ToolRunner::AtOnce(create_invoice_draft),
    },
    SampleTool {
        name: "void_invoice",
        title: "Void an invoice",
        description: "EXECUTE ONLY to cancel a draft or open invoice for one of the listed reasons. A \
            void invoice cannot be reopened. Do not use for refunds: an invoice on which anything was \
            paid is refused.",
        input: || {
            schema::full_object(json!({
                "invoice_id": schema::invoice_id(),
                "reason": { "type": "string", "enum": VOID_REASONS, "description": "Why it is cancelled." },
            }))
        },
        output: Some(invoice_schema),
        hints: Hints::Replaces,
        run: ToolRunner::AtOnce(void_invoice),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListInvoices {
    customer_id: Option<String>,
    status: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetInvoice {
    invoice_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CreateInvoiceDraft {
    customer_id: String,
    currency: String,
    issued: Date,
    due: Date,
    lines: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    description: String,
    quantity: i64,
    unit_cents: i64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct VoidInvoice {
    invoice_id: String,
    reason: String,
}

fn list_invoices(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let ListInvoices { customer_id, status } = decode(arguments)?;
    if let Some(status) = &status {
        check_one_of("status", status, &STATUSES)?;
    }
    company.read(|connection| {
        let mut statement = connection.prepare_cached(
            "SELECT * FROM invoice_summaries
              WHERE (?1 IS NULL OR customer_id = ?1) AND (?2 IS NULL OR status = ?2)
              ORDER BY issued, invoice_id",
        )?;
        let rows = statement.query_map(params![customer_id, status], summary_from_row)?;
        let invoices = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
        Ok(json!({ "invoices": invoices }))
    })
}

fn get_invoice(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let GetInvoice { invoice_id } = decode(arguments)?;
    company.read(|connection| invoice(connection, &invoice_id))
}

fn create_invoice_draft(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let draft: CreateInvoiceDraft = decode(arguments)?;
    check_draft(&draft)?;
    company.change(|transaction| {
        customer(transaction, &draft.customer_id)?;
        let number = next_number(transaction, "invoices", "invoice_id")?;
        let invoice_id = format!("inv_{number}");
        insert_draft(transaction, &invoice_id, &draft)?;
        record_effect(transaction, CompanyEffect::InvoiceDraft, &invoice_id)?;
        invoice(transaction, &invoice_id)
    })
}

fn check_draft(draft: &CreateInvoiceDraft) -> Result<(), SampleToolFailure> {
    check_one_of("currency", &draft.currency, &schema::CURRENCIES)?;
    if draft.due < draft.issued {
        return Err(SampleToolFailure::declined("`due` must not be before `issued`"));
    }
    check_between("number of lines", draft.lines.len(), 1, LINES_MAX)?;
    for line in &draft.lines {
        check_length("description", &line.description, DESCRIPTION_LENGTH_MAX)?;
        check_between("quantity", line.quantity, 1, QUANTITY_MAX)?;
        check_between("unit_cents", line.unit_cents, 0, UNIT_CENTS_MAX)?;
    }
    Ok(())
}

fn insert_draft(transaction: &Transaction<'_>, invoice_id: &str, draft: &CreateInvoiceDraft) -> rusqlite::Result<()> {
    transaction.execute(
        "INSERT INTO invoices (invoice_id, customer_id, status, currency, issued, due)
         VALUES (?1, ?2, 'draft', ?3, ?4, ?5)",
        params![invoice_id, draft.customer_id, draft.currency, draft.issued.as_str(), draft.due.as_str()],
    )?;
    let mut statement = transaction.prepare_cached(
        "INSERT INTO invoice_lines (invoice_id, position, description, quantity, unit_cents)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for (position, line) in (1_i64..).zip(&draft.lines) {
        statement.execute(params![invoice_id, position, line.description, line.quantity, line.unit_cents])?;
    }
    Ok(())
}

fn void_invoice(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let VoidInvoice { invoice_id, reason } = decode(arguments)?;
    check_one_of("reason", &reason, &VOID_REASONS)?;
    company.change(|transaction| {
        let current = invoice(transaction, &invoice_id)?;
        let status = current.get("status").and_then(Value::as_str);
        let paid_cents = current.get("paid_cents").and_then(Value::as_i64);
        if !matches!(status, Some("draft" | "open")) || paid_cents != Some(0) {
            let text = format!("`{invoice_id}` is paid, partly paid or already void");
            return Err(SampleToolFailure::declined(text));
        }
        transaction.execute(
            "UPDATE invoices SET status = 'void', void_reason = ?2 WHERE invoice_id = ?1",
            [&invoice_id, &reason],
        )?;
        record_effect(transaction, CompanyEffect::InvoiceVoid, &invoice_id)?;
        invoice(transaction, &invoice_id)
    })
}

fn draft_input() -> Value {
    schema::full_object(json!({
        "customer_id": schema::customer_id(),
        "currency": schema::currency(),
        "issued": schema::date("Day of issue, e.g. 2026-11-16."),
        "due": schema::date("Not before `issued`."),
        "lines": { "type": "array", "minItems": 1, "maxItems": LINES_MAX, "items": line_schema() },
    }))
}
