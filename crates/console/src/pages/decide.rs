//! A person's decision about one ticket: the form is checked, and the engine decides whether it counts.

use http::StatusCode;
use servanda_approval::{ApprovalVerdict, PasskeyAssertionRecord, TicketId, passkey_decision_challenge};
use servanda_authority::passkey::passkey_handle;
use servanda_contract::{Digest, tool::Presence};
use servanda_doors::http::PageRequest;
use servanda_engine::approvals::{DecideError, DecisionOutcome, PersonDecision};

use super::ticket::{self, REASON_CHARS_MAX, ineligible_words};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form::Form,
    form_token,
    passkey::{PasskeyRejection, check_assertion, relying_party},
    reply::ConsoleReply,
    routing::{read_id, ticket_path},
    view::PageNotice,
};

/// Acts on the form of a ticket's page.
pub(crate) async fn decide(
    context: &ConsoleContext,
    request: &PageRequest,
    id: &str,
) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let form = Form::read(&request.headers, &request.body)?;
    check_token(&viewer, &form, request)?;
    let decision = PersonDecision {
        ticket: read_id::<TicketId>(id).ok_or(PageFault::NotFound)?,
        payload: payload(form.field("payload"))?,
        verdict: verdict(&form)?,
        reason: form.field("reason").map(str::to_owned),
        passkey: None,
        break_glass: form.field("break_glass") == Some("yes"),
    };
    let decision = match form.field("assertion") {
        None => decision,
        answer => match signed_by_passkey(context, &viewer, request, &decision, answer).await {
            Ok(record) => PersonDecision { passkey: Some(record), ..decision },
            Err(rejection) => return rejected_passkey(context, &viewer, request, id, rejection).await,
        },
    };
    match act(context, &viewer, decision).await {
        // A page that was posted is not shown: loading it again would post again.
        Ok(_) => Ok(ConsoleReply::redirect(&ticket_path(id))),
        Err(error) => refused(context, &viewer, request, id, error).await,
    }
}

/// Checks that a passkey of this person signed this decision about this ticket.
async fn signed_by_passkey(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    decision: &PersonDecision,
    answer: Option<&str>,
) -> Result<PasskeyAssertionRecord, PasskeyRejection> {
    let party = relying_party(viewer.settings().console_url.as_deref(), &request.headers);
    let party = party.ok_or(PasskeyRejection::NoAnswer)?;
    let person = &viewer.signed_in.person;
    let approver = (person.tenant.as_str(), person.principal.as_str());
    let challenge = passkey_decision_challenge(&decision.ticket, &decision.payload, decision.verdict, approver);
    let handle = passkey_handle(approver.0, approver.1);
    let asked = (&party, challenge.as_bytes());
    let checked = check_assertion(context.authenticator.as_ref(), &handle, answer, asked).await?;
    Ok(PasskeyAssertionRecord::from(&checked.verified))
}

async fn rejected_passkey(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    id: &str,
    rejection: PasskeyRejection,
) -> Result<ConsoleReply, PageFault> {
    if let PasskeyRejection::Unavailable(unavailable) = rejection {
        return Err(PageFault::StoreAway(unavailable.to_string()));
    }
    let person = &viewer.signed_in.person;
    let why = rejection.logged();
    tracing::warn!(
        ticket = id,
        person = person.principal,
        tenant = person.tenant,
        why,
        "a passkey's signature does not count"
    );
    let ticket = ticket::find(context, viewer, id).await?;
    let text = format!("Your decision was not recorded. {}", rejection.words());
    let notice = PageNotice { title: "Your passkey was not accepted".to_owned(), text, link: None };
    ticket::shown(context, viewer, request, &ticket, (StatusCode::FORBIDDEN, Some(notice))).await
}

/// Hands a decision to the engine. A person who does not see the ticket cannot decide about it.
pub(crate) async fn act(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    decision: PersonDecision,
) -> Result<DecisionOutcome, DecideError> {
    let mut person = viewer.signed_in.person.clone();
    if decision.passkey.is_some() {
        // Upholds: a decision has an assertion only after it was checked against this person's passkeys.
        person.presence = Presence::Passkey;
    }
    let seen = context.approvals().visible_ticket(&person, &decision.ticket).await?;
    if !viewer.sees_ticket(&seen) {
        return Err(DecideError::NoTicket(decision.ticket));
    }
    let (id, verdict) = (decision.ticket.clone(), decision.verdict.word());
    let decided = context.approvals().decide(&person, decision, viewer.settings()).await;
    match &decided {
        Ok(_) => {
            tracing::info!(ticket = %id, person = person.principal, tenant = person.tenant, verdict, "a person decided");
        }
        Err(error) => {
            tracing::info!(ticket = %id, person = person.principal, tenant = person.tenant, verdict, %error, "a decision does not count");
        }
    }
    decided
}

/// Checks that this session's own page made the form.
pub(crate) fn check_token(viewer: &ConsoleViewer, form: &Form<'_>, request: &PageRequest) -> Result<(), PageFault> {
    let token = form.field("form_token").unwrap_or_default();
    if form_token::is_valid(&viewer.signed_in.token, request.uri.path(), token) {
        Ok(())
    } else {
        Err(PageFault::NoFormToken)
    }
}

/// The decision that a form says.
pub(crate) fn verdict(form: &Form<'_>) -> Result<ApprovalVerdict, PageFault> {
    match form.field("verdict") {
        Some("approve") => Ok(ApprovalVerdict::Approve),
        Some("deny") => Ok(ApprovalVerdict::Deny),
        _ => Err(PageFault::BadForm("The form does not say whether you approve or deny. Nothing was done.")),
    }
}

/// The payload that a form was made for.
pub(crate) fn payload(text: Option<&str>) -> Result<Digest, PageFault> {
    let digest = text.and_then(|text| Digest::try_from(text.to_owned()).ok());
    digest.ok_or(PageFault::BadForm("The form does not say what you were shown. Nothing was done."))
}

async fn refused(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    request: &PageRequest,
    id: &str,
    error: DecideError,
) -> Result<ConsoleReply, PageFault> {
    // The ticket as it is now, so that the person reads what they would decide about.
    let ticket = ticket::find(context, viewer, id).await?;
    let notice = |title: &str, text: String| PageNotice { title: title.to_owned(), text, link: None };
    let (status, notice) = match error {
        DecideError::NoTicket(_) => return Err(PageFault::NotFound),
        DecideError::Ineligible(ineligible) => (StatusCode::FORBIDDEN, ineligible_words(ineligible, &ticket)),
        DecideError::Over(state) => {
            let text = format!("Your decision was not recorded: the ticket is over ({}).", state.describe());
            (StatusCode::CONFLICT, notice("Somebody or the clock was faster", text))
        }
        DecideError::OtherPayload => {
            let text = "Your decision was not recorded. Read the call below again, and decide about that.".to_owned();
            (StatusCode::CONFLICT, notice("This is not the call that you were shown", text))
        }
        DecideError::Reason => {
            let text = format!("Your decision was not recorded: a reason has at most {REASON_CHARS_MAX} characters.");
            (StatusCode::BAD_REQUEST, notice("The reason is too long", text))
        }
        error @ (DecideError::NoGrants | DecideError::Masked) => (
            StatusCode::FORBIDDEN,
            notice("This plan cannot be approved by you here", format!("Nothing was recorded: {error}.")),
        ),
        DecideError::Passkey => {
            let text = "Your decision was not recorded: a passkey has to sign it, which needs JavaScript.".to_owned();
            (StatusCode::FORBIDDEN, notice("This decision needs your passkey", text))
        }
        error @ (DecideError::Keys(_) | DecideError::Store(_)) => {
            tracing::warn!(ticket = id, %error, "a decision may not have been recorded");
            let text = "It is not known whether your decision was recorded. What you see below is what the store has now; if your decision is \
                        not among it, decide again."
                .to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, notice("The store did not confirm your decision", text))
        }
    };
    ticket::shown(context, viewer, request, &ticket, (status, Some(notice))).await
}
