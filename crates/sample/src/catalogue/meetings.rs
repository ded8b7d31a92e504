//! Meetings: booking one.
//!
//! Checks no calendar for conflicts and sends no invitations: a booked meeting is a row, and an effect.

use rusqlite::params;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Arguments, check_between, check_length, decode};
use crate::company::{Company, CompanyEffect, next_number, record_effect};
use crate::failure::{SampleToolFailure, SampleToolOutcome};
use crate::formats::{DateTime, EmailAddress};
use crate::schema;
use crate::tool::{Hints, SampleTool, ToolRunner};

const TITLE_LENGTH_MAX: usize = 200;
const ATTENDEES_MAX: usize = 20;

pub(super) const TOOLS: &[SampleTool] = &[SampleTool {
    name: "book_meeting",
    title: "Book a meeting",
    description: "EXECUTE ONLY to put one meeting into the company calendar. Calling it twice books \
        two. Does not send invitations, does not reserve a room, and does not look for a free slot.",
    input: || {
        schema::full_object(json!({
            "title": schema::text(TITLE_LENGTH_MAX, "One line."),
            "start": moment_schema("When it starts, with an offset, e.g. 2026-11-20T09:00:00+01:00."),
            "end": moment_schema("When it ends; after `start`."),
            "attendees": {
                "type": "array",
                "minItems": 1,
                "maxItems": ATTENDEES_MAX,
                "items": schema::email("One attendee."),
            },
        }))
    },
    output: Some(|| {
        schema::full_object(json!({
            "meeting_id": { "type": "string", "description": "Identifier of the meeting, e.g. mtg_002." },
            "title": { "type": "string" },
            "start": moment_schema("When it starts."),
            "end": moment_schema("When it ends."),
            "attendees": schema::list(json!({ "type": "string", "format": "email" })),
        }))
    }),
    // One of two honest tools without annotations: a gateway must not depend on them.
    hints: Hints::Absent,
    run: ToolRunner::AtOnce(book_meeting),
}];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BookMeeting {
    title: String,
    start: DateTime,
    end: DateTime,
    attendees: Vec<EmailAddress>,
}

fn book_meeting(company: &Company, arguments: Arguments) -> SampleToolOutcome {
    let meeting: BookMeeting = decode(arguments)?;
    if !meeting.end.is_after(&meeting.start) {
        return Err(SampleToolFailure::declined("`end` must be after `start`"));
    }
    check_length("title", &meeting.title, TITLE_LENGTH_MAX)?;
    check_between("number of attendees", meeting.attendees.len(), 1, ATTENDEES_MAX)?;
    let attendees: Value = meeting.attendees.iter().map(EmailAddress::as_str).collect::<Vec<_>>().into();
    let (start, end) = (meeting.start.as_str(), meeting.end.as_str());
    company.change(|transaction| {
        let number = next_number(transaction, "meetings", "meeting_id")?;
        let meeting_id = format!("mtg_{number:03}");
        transaction.execute(
            "INSERT INTO meetings (meeting_id, title, start_at, end_at, attendees) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![meeting_id, meeting.title, start, end, attendees.to_string()],
        )?;
        record_effect(transaction, CompanyEffect::Meeting, &meeting_id)?;
        Ok(json!({
            "meeting_id": meeting_id,
            "title": meeting.title,
            "start": start,
            "end": end,
            "attendees": attendees,
        }))
    })
}

fn moment_schema(description: &str) -> Value {
    json!({ "type": "string", "format": "date-time", "description": description })
}
