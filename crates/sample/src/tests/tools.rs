//! The honest tools: what each answers, what each declines, and which effects are real.

use serde_json::{Value, json};

use super::{HONEST, call, converse, modern};
use crate::SampleOptions;

/// One call for every honest tool, and a part of its answer.
fn served() -> Vec<(&'static str, Value, Value)> {
    let line = json!({ "description": "Audit", "quantity": 3, "unit_cents": 2500 });
    let draft = json!({
        "customer_id": "cus_005", "currency": "EUR", "issued": "2026-11-16", "due": "2026-12-16",
        "lines": [line],
    });
    let meeting = json!({
        "title": "Kick-off", "start": "2026-11-20T09:00:00+01:00", "end": "2026-11-20T08:30:00Z",
        "attendees": ["mara@lindgren-roth.example"],
    });
    let mail = json!({ "to": "a@b.example", "subject": "Hello", "body": "Good day." });
    let payment = json!({ "invoice_id": "inv_1007", "amount_cents": 100_000, "currency": "USD" });
    let paid = json!({ "payment_id": "pay_005", "outstanding_cents": 378_800, "invoice_status": "open" });
    let october = json!({ "invoices_issued": 3, "invoices_open": 2, "invoices_paid": 1, "invoices_void": 0 });
    vec![
        ("find_customers", json!({ "query": "HERON", "limit": 1 }), json!({})),
        ("get_customer", json!({ "customer_id": "cus_003" }), json!({ "name": "Cobalt Instruments AG" })),
        (
            "update_customer_email",
            json!({ "customer_id": "cus_003", "email": "new@cobalt.example" }),
            json!({ "email": "new@cobalt.example", "country": "CH" }),
        ),
        ("list_invoices", json!({ "customer_id": "cus_001", "status": "void" }), json!({})),
        ("get_invoice", json!({ "invoice_id": "inv_1007" }), json!({ "total_cents": 478_800, "paid_cents": 0 })),
        ("create_invoice_draft", draft, json!({ "invoice_id": "inv_1011", "status": "draft", "total_cents": 7500 })),
        (
            "void_invoice",
            json!({ "invoice_id": "inv_1003", "reason": "customer_request" }),
            json!({ "status": "void", "void_reason": "customer_request" }),
        ),
        ("pay_invoice", payment, paid),
        ("list_outbox", json!({}), json!({})),
        ("send_mail", mail, json!({ "mail_id": "mail_003", "to": "a@b.example" })),
        (
            "read_file",
            json!({ "path": "/policies/payments.md" }),
            json!({ "content": "Payments above 5000.00 need a second pair of eyes." }),
        ),
        ("list_files", json!({ "prefix": "/policies/" }), json!({})),
        ("write_file", json!({ "path": "/notes/new.md", "content": "é" }), json!({ "bytes": 2, "replaced": false })),
        ("delete_file", json!({ "path": "/notes/standup.md" }), json!({ "path": "/notes/standup.md" })),
        ("book_meeting", meeting, json!({ "meeting_id": "mtg_002" })),
        ("monthly_report", json!({ "month": "2026-10" }), october),
        ("count_effects", json!({}), json!({ "total": 0 })),
        (
            "read_query",
            json!({ "query": "SELECT invoice_id FROM invoices WHERE status = 'void'" }),
            json!({ "rows": [{ "invoice_id": "inv_1004" }] }),
        ),
        ("write_query", json!({ "query": "DELETE FROM outbox" }), json!({ "rows_changed": 2 })),
    ]
}

#[test]
fn every_honest_tool_serves_what_its_schemas_promise() {
    let definitions = definitions();
    let names: Vec<&str> = definitions.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let tested: Vec<&str> = served().iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, tested, "every honest tool is tested, in the order of the list");

    for (definition, (name, arguments, expected)) in definitions.iter().zip(served()) {
        assert_valid(&definition["inputSchema"], &arguments, name);
        let result = converse(HONEST, &[call(1, name, arguments)]).result(1);
        assert_eq!(result["isError"], false, "{name}: {result}");
        let content = &result["structuredContent"];
        assert_valid(&definition["outputSchema"], content, name);
        let text = result["content"][0]["text"].as_str().unwrap();
        assert_eq!(serde_json::from_str::<Value>(text).unwrap(), *content);
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(content[key], *value, "{name}: {key}");
        }
    }
}

#[test]
fn lists_are_filtered() {
    let table = [
        ("find_customers", json!({ "query": "e", "limit": 2 }), "customers", 2),
        ("find_customers", json!({ "query": "heron" }), "customers", 1),
        ("find_customers", json!({ "query": "%" }), "customers", 0),
        ("list_invoices", json!({}), "invoices", 10),
        ("list_invoices", json!({ "status": "open" }), "invoices", 4),
        ("list_invoices", json!({ "customer_id": "cus_001" }), "invoices", 2),
        ("list_invoices", json!({ "customer_id": "cus_999" }), "invoices", 0),
        ("list_files", json!({}), "files", 4),
        ("list_files", json!({ "prefix": "/policies/" }), "files", 2),
        ("list_outbox", json!({}), "mails", 2),
    ];
    for (tool, arguments, key, count) in table {
        let result = converse(HONEST, &[call(1, tool, arguments.clone())]).result(1);
        let found = result["structuredContent"][key].as_array().map(Vec::len);
        assert_eq!(found, Some(count), "{tool} {arguments}");
    }
}

/// Calls that must be declined, and a part of the text that the agent reads.
fn declined() -> Vec<(&'static str, Value, &'static str)> {
    let draft = |key: &str, value: Value| {
        let mut draft = served()[5].1.clone();
        draft[key] = value;
        draft
    };
    let pay = |invoice: &str, cents: i64, currency: &str| json!({ "invoice_id": invoice, "amount_cents": cents, "currency": currency });
    let meet =
        |start: &str, end: &str| json!({ "title": "x", "start": start, "end": end, "attendees": ["a@b.example"] });
    let mail = |to: &str, subject: &str| json!({ "to": to, "subject": subject, "body": "x" });
    let noon = "2026-11-20T12:00:00Z";
    vec![
        ("get_customer", json!({}), "missing field `customer_id`"),
        ("get_customer", json!({ "customer_id": "cus_001", "x": 1 }), "unknown field `x`"),
        ("get_customer", json!({ "customer_id": "cus_999" }), "no such customer"),
        ("find_customers", json!({ "query": "a", "limit": 51 }), "between 1 and 50"),
        ("find_customers", json!({ "query": "" }), "length of query"),
        ("update_customer_email", json!({ "customer_id": "cus_999", "email": "a@b.example" }), "no such customer"),
        ("update_customer_email", json!({ "customer_id": "cus_001", "email": "a b@c.d" }), "e-mail address"),
        ("list_invoices", json!({ "status": "lost" }), "one of draft, open, paid, void"),
        ("get_invoice", json!({ "invoice_id": "inv_1" }), "no such invoice"),
        ("create_invoice_draft", draft("customer_id", json!("cus_999")), "no such customer"),
        ("create_invoice_draft", draft("currency", json!("GBP")), "one of EUR, USD, CHF"),
        ("create_invoice_draft", draft("issued", json!("2026-02-30")), "calendar date"),
        ("create_invoice_draft", draft("due", json!("2026-11-15")), "not be before"),
        ("create_invoice_draft", draft("lines", json!([])), "number of lines"),
        (
            "create_invoice_draft",
            draft("lines", json!([{ "description": "x", "quantity": 0, "unit_cents": 1 }])),
            "`quantity`",
        ),
        ("void_invoice", json!({ "invoice_id": "inv_1001", "reason": "duplicate" }), "is paid"),
        ("void_invoice", json!({ "invoice_id": "inv_1008", "reason": "duplicate" }), "partly paid"),
        ("void_invoice", json!({ "invoice_id": "inv_1003", "reason": "because" }), "one of duplicate"),
        ("pay_invoice", pay("inv_1007", 478_801, "USD"), "between 1 and 478800"),
        ("pay_invoice", pay("inv_1007", 0, "USD"), "between 1 and 478800"),
        ("pay_invoice", pay("inv_1007", 1, "EUR"), "the invoice is in USD"),
        ("pay_invoice", pay("inv_1009", 1, "CHF"), "only an open invoice"),
        ("pay_invoice", pay("inv_9999", 1, "EUR"), "no such invoice"),
        ("send_mail", mail("nobody", "x"), "e-mail address"),
        ("send_mail", mail("a@b.example", ""), "length of subject"),
        ("read_file", json!({ "path": "/etc/passwd" }), "no such file"),
        ("delete_file", json!({ "path": "/notes/" }), "no such file"),
        ("write_file", json!({ "path": "notes.md", "content": "" }), "must be absolute"),
        ("write_file", json!({ "path": "/a/../b", "content": "" }), "must not climb"),
        ("book_meeting", meet(noon, noon), "after `start`"),
        ("book_meeting", meet("2026-11-20T12:00:00+01:00", "2026-11-20T11:00:00Z"), "after `start`"),
        ("book_meeting", meet("2026-11-20 12:00:00Z", noon), "expected a moment"),
        ("book_meeting", meet("2026-11-20T12:00:00", noon), "expected a moment"),
        ("monthly_report", json!({ "month": "2026-13" }), "expected a month"),
        ("count_effects", json!({ "since": 1 }), "unknown field"),
        ("read_query", json!({ "query": "SELECT 1 FROM nowhere" }), "no such table"),
        ("write_query", json!({ "query": "" }), "length of query"),
    ]
}

#[test]
fn its_own_dry_run_says_what_would_be_and_has_no_effect() {
    let new = json!({ "customer_id": "cus_003", "email": "new@cobalt.example", "validate_only": true });
    let messages = [
        call(1, "update_customer_email", new),
        call(2, "get_customer", json!({ "customer_id": "cus_003" })),
        call(3, "count_effects", json!({})),
    ];
    let conversation = converse(HONEST, &messages);
    assert_eq!(conversation.result(1)["structuredContent"]["email"], "new@cobalt.example");
    assert_ne!(conversation.result(2)["structuredContent"]["email"], "new@cobalt.example");
    assert_eq!(conversation.result(3)["structuredContent"]["total"], 0);
}

#[test]
fn what_cannot_be_done_is_declined_and_has_no_effect() {
    for (tool, arguments, expected) in declined() {
        let messages = [call(1, tool, arguments.clone()), call(2, "count_effects", json!({}))];
        let conversation = converse(HONEST, &messages);
        let result = conversation.result(1);
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        assert!(result.get("structuredContent").is_none());
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{tool} {arguments}: {text}");
        assert_eq!(conversation.result(2)["structuredContent"]["total"], 0, "{tool}");
    }
}

#[test]
fn effects_are_counted_by_kind_and_survive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let options = SampleOptions { database: Some(folder.path().join("company.db")), ..HONEST };
    let messages: Vec<Value> =
        (1..).zip(served()).map(|(id, (name, arguments, _))| call(id, name, arguments)).collect();
    converse(options.clone(), &messages).ended.unwrap();
    let repeated = call(1, "pay_invoice", served()[7].1.clone());
    converse(options.clone(), &[repeated]).ended.unwrap();

    let count = converse(options, &[call(1, "count_effects", json!({}))]).result(1);
    let expected = json!({
        "payments": 2, "mails": 1, "meetings": 1, "invoice_drafts": 1, "invoice_voids": 1,
        "email_updates": 1, "file_writes": 1, "file_deletes": 1, "sql_changes": 1, "total": 10,
    });
    assert_eq!(count["structuredContent"], expected);
}

/// The carelessness against which the gateway protects.
#[test]
fn a_read_query_runs_whatever_it_is_given() {
    let delete = json!({ "query": "DELETE FROM payments" });
    let messages = [call(1, "read_query", delete), call(2, "count_effects", json!({}))];
    let conversation = converse(HONEST, &messages);
    assert_eq!(conversation.result(1)["structuredContent"], json!({ "rows": [] }));
    assert_eq!(conversation.result(2)["structuredContent"]["sql_changes"], 1);
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500) SELECT i FROM n";
    let result = converse(HONEST, &[call(1, "read_query", json!({ "query": many }))]).result(1);
    assert_eq!(result["structuredContent"]["rows"].as_array().map(Vec::len), Some(100));
}

#[test]
fn paying_in_full_closes_the_invoice() {
    let rest = json!({ "invoice_id": "inv_1008", "amount_cents": 375_000, "currency": "EUR" });
    let conversation = converse(HONEST, &[call(1, "pay_invoice", rest.clone()), call(2, "pay_invoice", rest)]);
    assert_eq!(conversation.result(1)["structuredContent"]["invoice_status"], "paid");
    assert_eq!(conversation.result(2)["isError"], true);
}

#[test]
fn hints_are_sensible_and_missing_where_real_ones_are() {
    let hints = |tool: &str| {
        let definitions = definitions();
        let tool = definitions.iter().find(|definition| definition["name"] == tool).unwrap();
        let hints = &tool["annotations"];
        (hints["readOnlyHint"].as_bool(), hints["destructiveHint"].as_bool())
    };
    assert_eq!(hints("get_invoice"), (Some(true), Some(false)));
    assert_eq!(hints("create_invoice_draft"), (Some(false), Some(false)));
    assert_eq!(hints("pay_invoice"), (Some(false), Some(true)));
    assert_eq!(hints("delete_file"), (Some(false), Some(true)));
    assert_eq!(hints("list_outbox"), (None, None));
    assert_eq!(hints("book_meeting"), (None, None));
}

/// Every honest tool as the list shows it.
fn definitions() -> Vec<Value> {
    let first = converse(HONEST, &[modern(1, "tools/list", json!({}))]).result(1);
    let next = json!({ "cursor": first["nextCursor"] });
    let second = converse(HONEST, &[modern(1, "tools/list", next)]).result(1);
    let pages = [first, second];
    let tools = pages.iter().flat_map(|page| page["tools"].as_array().unwrap());
    tools.cloned().collect()
}

fn assert_valid(schema: &Value, value: &Value, name: &str) {
    let validator = jsonschema::options().should_validate_formats(true).build(schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{name}: {errors:?} in {value}");
}
