//! Payments: the company's one way to move money.
//!
//! Knows no refund and no scheduled payment. A repeated partial payment is a second payment: this
//! server has no idempotency key, like most, which is what a gateway in front of it is for.

use rusqlite::params;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Arguments, check_between, check_one_of, decode};
use crate::catalogue::invoice_record::invoice;
use crate::company::{Company, CompanyEffect, next_number, record_effect};
use crate::failure::{SampleToolFailure, SampleToolOutcome};
use crate::schema;
use crate::tool::{Hints, SampleTool, ToolRunner};

pub(super) const TOOLS: &[SampleTool] = &[SampleTool {
    name: "pay_invoice",
    title: "Pay an invoice",
    description: "EXECUTE ONLY to pay an open invoice, in part or in full, once the amount was \
        confirmed. Moves money at once and cannot be taken back; calling it twice pays twice. Does not \
        pay drafts, does not refund, and refuses more than is still owed.",
    input: || {
        schema::full_object(json!({
            "invoice_id": schema::invoice_id(),
            "amount_cents": { "type": "integer", "minimum": 1, "description": "Amount to pay, in cents." },
            "currency": schema::currency(),
        }))
    },
    output: Some(|| {
        schema::full_object(json!({
            "payment_id": { "type": "string", "description": "Identifier of the payment, e.g. pay_005." },
            "invoice_id": schema::invoice_id(),
            "amount_cents": schema::cents("What was paid now."),
            "currency": schema::currency(),
            "outstanding_cents": schema::cents("What is still owed."),
            "invoice_status": { "type": "string", "enum": ["open", "paid"] },
        }))
    }),
    hints: Hints::Commits,
    run: ToolRunner::AtOnce(pay_invoice),
}];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PayInvoice {
    invoice_id: String,
    amount_cents: i64,
    currency: String,
}

fn pay_invoice(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let PayInvoice { invoice_id, amount_cents, currency } = decode(arguments)?;
    check_one_of("currency", &currency, &schema::CURRENCIES)?;
    company.change(|transaction| {
        let current = invoice(transaction, &invoice_id)?;
        let owed_cents = owed_cents(&current, &currency)?;
        check_between("amount_cents", amount_cents, 1, owed_cents)?;
        let number = next_number(transaction, "payments", "payment_id")?;
        let payment_id = format!("pay_{number:03}");
        transaction.execute(
            "INSERT INTO payments (payment_id, invoice_id, amount_cents, currency) VALUES (?1, ?2, ?3, ?4)",
            params![payment_id, invoice_id, amount_cents, currency],
        )?;
        let outstanding_cents = owed_cents - amount_cents;
        let status = if outstanding_cents == 0 { "paid" } else { "open" };
        transaction.execute("UPDATE invoices SET status = ?2 WHERE invoice_id = ?1", [invoice_id.as_str(), status])?;
        record_effect(transaction, CompanyEffect::Payment, &payment_id)?;
        Ok(json!({
            "payment_id": payment_id,
            "invoice_id": invoice_id,
            "amount_cents": amount_cents,
            "currency": currency,
            "outstanding_cents": outstanding_cents,
            "invoice_status": status,
        }))
    })
}

/// What is still owed on an invoice, if it can be paid in that currency at all.
fn owed_cents(invoice: &Value, currency: &str) -> Result<i64, SampleToolFailure> {
    let text = |key| invoice.get(key).and_then(Value::as_str).unwrap_or_default();
    let cents = |key| invoice.get(key).and_then(Value::as_i64).unwrap_or_default();
    if text("status") != "open" {
        let message = format!("only an open invoice can be paid; `{}` is {}", text("invoice_id"), text("status"));
        return Err(SampleToolFailure::declined(message));
    }
    if text("currency") != currency {
        let message = format!("the invoice is in {}", text("currency"));
        return Err(SampleToolFailure::declined(message));
    }
    Ok(cents("total_cents") - cents("paid_cents"))
}
