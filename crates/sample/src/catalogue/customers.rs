//! Customers: finding them, reading one, correcting an address.
//!
//! Never creates or removes a customer; no tool of this company does.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Arguments, check_between, check_length, decode};
use crate::company::{Company, CompanyEffect, record_effect};
use crate::failure::{SampleToolFailure, SampleToolOutcome};
use crate::formats::EmailAddress;
use crate::schema;
use crate::tool::{Hints, SampleTool, ToolRunner};

const QUERY_LENGTH_MAX: usize = 100;
const FOUND_MAX: u32 = 50;
const FOUND_DEFAULT: u32 = 10;

pub(super) const TOOLS: &[SampleTool] = &[
    SampleTool {
        name: "find_customers",
        title: "Find customers",
        description: "Find customers whose name or e-mail address contains the query, ignoring case. \
            Returns at most `limit` of them, ordered by identifier. Does not search invoices or files, \
            and changes nothing.",
        input: || {
            schema::object(
                &["query"],
                json!({
                    "query": schema::text(QUERY_LENGTH_MAX, "Part of a name or e-mail address, e.g. heron."),
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": FOUND_MAX,
                        "default": FOUND_DEFAULT,
                        "description": "Most customers to return.",
                    },
                }),
            )
        },
        output: Some(|| schema::full_object(json!({ "customers": schema::list(customer_schema()) }))),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(find_customers),
    },
    SampleTool {
        name: "get_customer",
        title: "Get one customer",
        description: "Read one customer by identifier. Use only with a customer_id that find_customers \
            or an invoice returned; if it is missing, ask rather than guess. Does not return invoices.",
        input: || schema::full_object(json!({ "customer_id": schema::customer_id() })),
        output: Some(customer_schema),
        hints: Hints::Reads,
        run: ToolRunner::AtOnce(get_customer),
    },
    SampleTool {
        name: "update_customer_email",
        title: "Update a customer's e-mail address",
        description: "EXECUTE ONLY to replace the billing e-mail address of one existing customer. The \
            old address is not kept. Does not notify anyone, and does not change the name or any other field.",
        input: || {
            schema::object(
                &["customer_id", "email"],
                json!({
                    "customer_id": schema::customer_id(),
                    "email": schema::email("The new billing address."),
                    "validate_only": {
                        "type": "boolean",
                        "description": "With true, nothing is changed: the answer is the customer as it would be.",
                    },
                }),
            )
        },
        output: Some(customer_schema),
        hints: Hints::Replaces,
        run: ToolRunner::AtOnce(update_customer_email),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindCustomers {
    query: String,
    limit: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct GetCustomer {
    customer_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UpdateCustomerEmail {
    customer_id: String,
    email: EmailAddress,
    #[serde(default)]
    validate_only: bool,
}

/// Reads one customer, or declines if there is none.
pub(super) fn customer(connection: &Connection, customer_id: &str) -> SampleToolOutcome {
    connection
        .prepare_cached("SELECT * FROM customers WHERE customer_id = ?1")?
        .query_row([customer_id], customer_from_row)
        .optional()?
        .ok_or_else(|| SampleToolFailure::declined(format!("no such customer: `{customer_id}`")))
}

fn find_customers(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let FindCustomers { query, limit } = decode(arguments)?;
    let limit = limit.unwrap_or(FOUND_DEFAULT);
    check_length("query", &query, QUERY_LENGTH_MAX)?;
    check_between("limit", limit, 1, FOUND_MAX)?;
    company.read(|connection| {
        let mut statement = connection.prepare_cached(
            "SELECT * FROM customers
              WHERE INSTR(LOWER(name), LOWER(?1)) > 0 OR INSTR(LOWER(email), LOWER(?1)) > 0
              ORDER BY customer_id LIMIT ?2",
        )?;
        let rows = statement.query_map(params![query, limit], customer_from_row)?;
        let customers = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
        Ok(json!({ "customers": customers }))
    })
}

fn get_customer(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let GetCustomer { customer_id } = decode(arguments)?;
    company.read(|connection| customer(connection, &customer_id))
}

fn update_customer_email(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let UpdateCustomerEmail { customer_id, email, validate_only } = decode(arguments)?;
    if validate_only {
        return company.read(|connection| {
            let mut customer = customer(connection, &customer_id)?;
            schema::set(&mut customer, "email", email.as_str().into());
            Ok(customer)
        });
    }
    company.change(|transaction| {
        let updated = transaction
            .execute("UPDATE customers SET email = ?2 WHERE customer_id = ?1", [&customer_id, email.as_str()])?;
        if updated > 0 {
            record_effect(transaction, CompanyEffect::EmailUpdate, &customer_id)?;
        }
        customer(transaction, &customer_id)
    })
}

fn customer_from_row(row: &Row<'_>) -> rusqlite::Result<Value> {
    Ok(json!({
        "customer_id": row.get::<_, String>("customer_id")?,
        "name": row.get::<_, String>("name")?,
        "email": row.get::<_, String>("email")?,
        "country": row.get::<_, String>("country")?,
        "currency": row.get::<_, String>("currency")?,
    }))
}

fn customer_schema() -> Value {
    schema::full_object(json!({
        "customer_id": schema::customer_id(),
        "name": { "type": "string" },
        "email": { "type": "string", "format": "email" },
        "country": { "type": "string", "description": "ISO 3166-1 alpha-2 code." },
        "currency": schema::currency(),
    }))
}
