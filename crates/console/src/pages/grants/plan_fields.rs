//! The part of a grant's form that adds other approved calls, and whether a person may see what a plan holds.

use servanda_approval::{ApprovalGrant, Ticket, TicketId};
use servanda_contract::legibility;
use servanda_engine::approvals::{GRANT_USES_USUAL, WantedCall, WantedGrant};

use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form::Form,
    pages::{decide, ticket::find},
    routing::ticket_path,
};

/// The field that names a further call, with the digest that was shown: `apr_… sha256:…`.
const FURTHER: &str = "further";
/// The field that says which further calls are exactly as approved.
const EXACT: &str = "further-exact";

/// Another approved call in the form.
pub(super) struct CallField {
    /// The value that names it.
    pub(super) value: String,
    pub(super) ticket: String,
    pub(super) href: String,
    pub(super) tool: String,
    /// Pointer and words of each proposed bound.
    pub(super) bounds: Vec<(String, String)>,
    pub(super) is_chosen: bool,
    pub(super) is_exact: bool,
    /// The name of the field that says how many times, and what it says.
    pub(super) uses_name: String,
    pub(super) uses: u32,
}

/// The further calls that a form asks for.
pub(super) fn wanted(form: &Form<'_>) -> Result<Vec<WantedCall>, PageFault> {
    let exact: Vec<&str> = form.fields(EXACT).collect();
    let call = |field: &str| {
        let (ticket, payload) = field.split_once(' ').unwrap_or((field, ""));
        let (is_exact, payload) = (exact.contains(&ticket), decide::payload(Some(payload))?);
        let uses_max = match form.field(&uses_name(ticket)).map(str::trim) {
            None => GRANT_USES_USUAL,
            Some(text) => text.parse().map_err(|_| {
                PageFault::BadForm("The form does not say how many times each call may be made. Nothing was done.")
            })?,
        };
        Ok(WantedCall { ticket: TicketId::from(ticket.to_owned()), payload, is_exact, uses_max })
    };
    form.fields(FURTHER).map(call).collect()
}

/// The other approved calls that the person could add.
pub(super) async fn fields(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    wanted: &WantedGrant,
) -> Result<Vec<CallField>, PageFault> {
    let person = &viewer.signed_in.person;
    let found = context.approvals().plannable_tickets(person, ticket, viewer.settings()).await?;
    let is_shown = |other: &&Ticket| viewer.sees_ticket(other) && viewer.sees_all_values(other);
    let field = |other: &Ticket| {
        let chosen = wanted.further.iter().find(|call| call.ticket == other.id);
        let bounds = other.proposed_bounds().unwrap_or_default();
        CallField {
            value: format!("{} {}", other.id, other.subject.payload),
            ticket: other.id.to_string(),
            href: ticket_path(other.id.as_str()),
            tool: legibility::one_line(&other.subject.contract),
            bounds: bounds.iter().map(bound_in_words).collect(),
            is_chosen: chosen.is_some(),
            is_exact: chosen.is_some_and(|call| call.is_exact),
            uses_name: uses_name(other.id.as_str()),
            uses: chosen.map_or(GRANT_USES_USUAL, |call| call.uses_max),
        }
    };
    Ok(found.iter().filter(is_shown).map(field).collect())
}

/// Whether a person sees every value of the further calls that they ask for. A ticket that does not exist for them hides its values too.
pub(super) async fn sees_wanted(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    wanted: &WantedGrant,
) -> Result<bool, PageFault> {
    sees_all(context, viewer, wanted.further.iter().map(|call| &call.ticket)).await
}

/// Whether a person sees every value that the calls of a grant hold, but for those that its own ticket has. Those of a ticket that was forgotten are masked.
pub(super) async fn sees_granted(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    grant: &ApprovalGrant,
) -> Result<bool, PageFault> {
    sees_all(context, viewer, grant.calls.iter().filter_map(|call| call.ticket.as_ref())).await
}

async fn sees_all(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    tickets: impl Iterator<Item = &TicketId>,
) -> Result<bool, PageFault> {
    for id in tickets {
        match find(context, viewer, id.as_str()).await {
            Ok(ticket) if viewer.sees_all_values(&ticket) => {}
            Ok(_) | Err(PageFault::NotFound) => return Ok(false),
            Err(fault) => return Err(fault),
        }
    }
    Ok(true)
}

fn uses_name(ticket: &str) -> String {
    format!("uses:{ticket}")
}

/// The argument and its bound, for people.
pub(super) fn bound_in_words(bound: &servanda_approval::ArgumentBound) -> (String, String) {
    (legibility::reveal(&bound.pointer).into_owned(), legibility::one_line(&bound.describe()))
}
