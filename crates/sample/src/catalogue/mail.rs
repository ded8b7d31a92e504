//! Mail: sending it and reading the outbox.
//!
//! Nothing really leaves the machine: a sent mail is a row in the outbox, and an effect.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Arguments, check_length, decode};
use crate::company::{Company, CompanyEffect, next_number, record_effect};
use crate::failure::SampleToolOutcome;
use crate::formats::EmailAddress;
use crate::schema;
use crate::tool::{Hints, SampleTool, ToolRunner};

const SUBJECT_LENGTH_MAX: usize = 200;
const BODY_LENGTH_MAX: usize = 20_000;

pub(super) const TOOLS: &[SampleTool] = &[
    SampleTool {
        name: "list_outbox",
        title: "List sent mail",
        description: "List every mail the company sent, oldest first. Does not read received mail, and \
            sends nothing.",
        input: schema::no_properties,
        output: Some(|| schema::full_object(json!({ "mails": schema::list(mail_schema()) }))),
        // One of two honest tools without annotations: a gateway must not depend on them.
        hints: Hints::Absent,
        run: ToolRunner::AtOnce(list_outbox),
    },
    SampleTool {
        name: "send_mail",
        title: "Send a mail",
        description: "EXECUTE ONLY to send one plain-text mail to one recipient. It leaves at once and \
            cannot be recalled; calling it twice sends two. Does not attach files, and does not save drafts.",
        input: || {
            schema::full_object(json!({
                "to": schema::email("The one recipient."),
                "subject": schema::text(SUBJECT_LENGTH_MAX, "One line."),
                "body": schema::text(BODY_LENGTH_MAX, "Plain text."),
            }))
        },
        output: Some(mail_schema),
        hints: Hints::Commits,
        run: ToolRunner::AtOnce(send_mail),
    },
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListOutbox {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SendMail {
    to: EmailAddress,
    subject: String,
    body: String,
}

fn list_outbox(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let ListOutbox {} = decode(arguments)?;
    company.read(|connection| {
        let mut statement = connection.prepare_cached("SELECT * FROM outbox ORDER BY rowid")?;
        let rows = statement.query_map([], |row| {
            Ok(json!({
                "mail_id": row.get::<_, String>("mail_id")?,
                "to": row.get::<_, String>("recipient")?,
                "subject": row.get::<_, String>("subject")?,
                "body": row.get::<_, String>("body")?,
            }))
        })?;
        let mails = rows.collect::<rusqlite::Result<Vec<Value>>>()?;
        Ok(json!({ "mails": mails }))
    })
}

fn send_mail(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let SendMail { to, subject, body } = decode(arguments)?;
    check_length("subject", &subject, SUBJECT_LENGTH_MAX)?;
    check_length("body", &body, BODY_LENGTH_MAX)?;
    company.change(|transaction| {
        let number = next_number(transaction, "outbox", "mail_id")?;
        let mail_id = format!("mail_{number:03}");
        transaction.execute(
            "INSERT INTO outbox (mail_id, recipient, subject, body) VALUES (?1, ?2, ?3, ?4)",
            [&mail_id, to.as_str(), &subject, &body],
        )?;
        record_effect(transaction, CompanyEffect::Mail, &mail_id)?;
        Ok(json!({ "mail_id": mail_id, "to": to.as_str(), "subject": subject, "body": body }))
    })
}

fn mail_schema() -> Value {
    schema::full_object(json!({
        "mail_id": { "type": "string", "description": "Identifier of the mail, e.g. mail_001." },
        "to": { "type": "string", "format": "email" },
        "subject": { "type": "string" },
        "body": { "type": "string" },
    }))
}
