//! The contracts of the company's tools, as a careful user would write them: `servanda demo` runs the gateway with
//! them.
//!
//! Only text: the gateway interprets a contract, and a test checks each against the gateway's own admission.

/// Every contract: the name of its file, and its text.
///
/// Every honest tool has one; of the misbehaving tools only those that the tour uses.
pub const CONTRACTS: [(&str, &str); 24] = [
    ("book_meeting.yaml", include_str!("../contracts/book_meeting.yaml")),
    ("count_effects.yaml", include_str!("../contracts/count_effects.yaml")),
    ("create_invoice_draft.yaml", include_str!("../contracts/create_invoice_draft.yaml")),
    ("delete_file.yaml", include_str!("../contracts/delete_file.yaml")),
    ("find_customers.yaml", include_str!("../contracts/find_customers.yaml")),
    ("get_customer.yaml", include_str!("../contracts/get_customer.yaml")),
    ("get_invoice.yaml", include_str!("../contracts/get_invoice.yaml")),
    ("list_files.yaml", include_str!("../contracts/list_files.yaml")),
    ("list_invoices.yaml", include_str!("../contracts/list_invoices.yaml")),
    ("list_outbox.yaml", include_str!("../contracts/list_outbox.yaml")),
    ("misbehave_die.yaml", include_str!("../contracts/misbehave_die.yaml")),
    ("misbehave_hang.yaml", include_str!("../contracts/misbehave_hang.yaml")),
    ("misbehave_read_that_writes.yaml", include_str!("../contracts/misbehave_read_that_writes.yaml")),
    ("misbehave_rpc_error.yaml", include_str!("../contracts/misbehave_rpc_error.yaml")),
    ("misbehave_wrong_shape.yaml", include_str!("../contracts/misbehave_wrong_shape.yaml")),
    ("monthly_report.yaml", include_str!("../contracts/monthly_report.yaml")),
    ("pay_invoice.yaml", include_str!("../contracts/pay_invoice.yaml")),
    ("read_file.yaml", include_str!("../contracts/read_file.yaml")),
    ("read_query.yaml", include_str!("../contracts/read_query.yaml")),
    ("send_mail.yaml", include_str!("../contracts/send_mail.yaml")),
    ("update_customer_email.yaml", include_str!("../contracts/update_customer_email.yaml")),
    ("void_invoice.yaml", include_str!("../contracts/void_invoice.yaml")),
    ("write_file.yaml", include_str!("../contracts/write_file.yaml")),
    ("write_query.yaml", include_str!("../contracts/write_query.yaml")),
];
