//! The page of a ticket's grant: how it stands and which calls drew on it, or the form that makes it, with its policy and what it would have
//! done.

use askama::Template;
use http::StatusCode;
use servanda_approval::{
    ApprovalGrant, CostCeiling, GRANT_USES_MAX, GrantedCall, PLAN_CALLS_MAX, StandingGrant, Ticket, requester_in_words,
};
use servanda_contract::legibility;
use servanda_doors::http::PageRequest;
use servanda_engine::approvals::{GrantFailure, GrantPreview, WantedGrant, grant_policy, may_revoke};

use super::{
    form_fields::{self, BoundField},
    plan_fields::{self, CallField},
    standing_view::{StandingView, source},
};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form_token,
    pages::ticket::{REASON_CHARS_MAX, find, ineligible_words},
    reply::ConsoleReply,
    routing::{grant_path, ticket_path},
    view::{PageFrame, PageNotice},
};

#[derive(Template)]
#[template(path = "grant.html")]
struct GrantDocument {
    frame: PageFrame,
    notice: Option<PageNotice>,
    source: String,
    tool: String,
    requester: String,
    /// The policy; none if a value in it is masked for this person.
    policy: Option<String>,
    action: String,
    token: String,
    body: GrantBody,
    reason_chars_max: usize,
}

/// What the page is about.
enum GrantBody {
    /// A grant that could be made.
    Make(MakeForm),
    /// The grant.
    Standing(Box<StandingBody>),
    /// None, for this reason.
    Closed(PageNotice),
}

/// A grant that was made.
struct StandingBody {
    view: StandingView,
    /// The calls; none if a value is masked.
    calls: Vec<AllowedCall>,
    can_revoke: bool,
}

/// A call of a grant, as people approved it.
struct AllowedCall {
    tool: String,
    /// The ticket; none if it was approved as a part of a plan.
    href: Option<String>,
    /// Pointer and words.
    bounds: Vec<(String, String)>,
    /// `2 of 5`.
    uses: String,
}

/// The form that makes a grant.
struct MakeForm {
    payload: String,
    shown: String,
    fields: Vec<BoundField>,
    further: Vec<CallField>,
    /// Whether the person wants further calls.
    is_plan: bool,
    calls_max: usize,
    uses: u32,
    uses_max: u32,
    /// The money, as a person wrote it; empty if there is no limit.
    cost_max: String,
    days: u32,
    days_max: u32,
    preview: GrantPreview,
}

/// Shows the grant of a ticket, or the form that makes it.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest, id: &str) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let ticket = find(context, &viewer, id).await?;
    shown(context, &viewer, &ticket, None, (StatusCode::OK, None)).await
}

/// The page of a ticket's grant; with what the person asked for, if they did.
pub(super) async fn shown(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    wanted: Option<WantedGrant>,
    outcome_of_try: (StatusCode, Option<PageNotice>),
) -> Result<ConsoleReply, PageFault> {
    let (status, notice) = outcome_of_try;
    let sees_all = viewer.sees_all_values(ticket);
    let (body, policy) = match &ticket.grant {
        Some(standing) => {
            let grant = &standing.signed.grant;
            let sees_all = sees_all && plan_fields::sees_granted(context, viewer, grant).await?;
            let view = StandingView::new(standing, context.now());
            let can_revoke = view.is_in_force && may_revoke(&viewer.signed_in.person, ticket, viewer.settings());
            let calls = if sees_all { allowed_calls(standing) } else { Vec::new() };
            (
                GrantBody::Standing(Box::new(StandingBody { view, calls, can_revoke })),
                sees_all.then(|| grant_policy(grant)),
            )
        }
        None if !sees_all => (GrantBody::Closed(masked()), None),
        None => make(context, viewer, ticket, wanted).await?,
    };
    let action = grant_path(ticket.id.as_str());
    let page = GrantDocument {
        frame: PageFrame::of("Grant", &viewer.signed_in),
        notice,
        source: source(ticket),
        tool: legibility::one_line(
            &ticket
                .grant
                .as_ref()
                .map_or_else(|| ticket.subject.contract.clone(), |standing| standing.signed.grant.tools_in_words()),
        ),
        requester: requester_in_words(ticket),
        policy,
        token: form_token::make(&viewer.signed_in.token, &action),
        action,
        body,
        reason_chars_max: REASON_CHARS_MAX,
    };
    Ok(ConsoleReply::page(status, &page))
}

/// The words for a grant that is not made or not taken back.
pub(super) fn refusal(error: &GrantFailure, ticket: &Ticket) -> (StatusCode, PageNotice) {
    let notice = |title: &str, text: String| PageNotice { title: title.to_owned(), text, link: None };
    match error {
        GrantFailure::Ineligible(ineligible) => (StatusCode::FORBIDDEN, ineligible_words(*ineligible, ticket)),
        GrantFailure::NotTheirs => (StatusCode::FORBIDDEN, notice("You may look and not change this", sentence(error))),
        GrantFailure::Obstacle(_) | GrantFailure::SwitchedOff => {
            (StatusCode::CONFLICT, notice("Calls like this cannot be allowed from now on", sentence(error)))
        }
        GrantFailure::OtherPayload | GrantFailure::Over(_) => {
            (StatusCode::CONFLICT, notice("Something changed since you looked", sentence(error)))
        }
        GrantFailure::Bound { .. }
        | GrantFailure::Uses
        | GrantFailure::Days { .. }
        | GrantFailure::Reason
        | GrantFailure::OtherCaller
        | GrantFailure::Repeated
        | GrantFailure::TooManyCalls => (StatusCode::BAD_REQUEST, notice("Nothing was done", sentence(error))),
        GrantFailure::Planned { .. } => {
            (StatusCode::CONFLICT, notice("One of the calls cannot be allowed with the others", sentence(error)))
        }
        GrantFailure::NoTicket(_) | GrantFailure::NoGrant(_) => {
            (StatusCode::NOT_FOUND, notice("There is no such grant", sentence(error)))
        }
        GrantFailure::Keys(_) | GrantFailure::Store(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            notice(
                "The store did not confirm it",
                "It is not known whether this was recorded. What you see below is what the store has now.".to_owned(),
            ),
        ),
    }
}

async fn make(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    wanted: Option<WantedGrant>,
) -> Result<(GrantBody, Option<String>), PageFault> {
    let days_max = viewer.settings().grant_days_max;
    let wanted = wanted.unwrap_or_else(|| form_fields::usual(ticket, days_max));
    let person = &viewer.signed_in.person;
    let draft = context.approvals().draft_grant(person, &wanted, viewer.settings()).await;
    let draft: ApprovalGrant = match draft {
        Ok((_, draft)) => draft,
        Err(error @ GrantFailure::Store(_)) => return Err(PageFault::StoreAway(error.to_string())),
        Err(error) => return Ok((GrantBody::Closed(refusal(&error, ticket).1), None)),
    };
    let form = MakeForm {
        payload: ticket.subject.payload.to_string(),
        shown: form_fields::digest_of_shown(&draft, &wanted).to_string(),
        fields: form_fields::fields(ticket, &draft, &wanted),
        uses: wanted.uses_max,
        uses_max: GRANT_USES_MAX,
        cost_max: wanted.cost_max.as_ref().map(CostCeiling::describe).unwrap_or_default(),
        days: wanted.days,
        days_max,
        further: plan_fields::fields(context, viewer, ticket, &wanted).await?,
        is_plan: !wanted.further.is_empty(),
        calls_max: PLAN_CALLS_MAX,
        preview: context.approvals().preview_grant(&draft).await?,
    };
    Ok((GrantBody::Make(form), Some(grant_policy(&draft))))
}

/// What a grant allows, call by call, and how often it was used.
fn allowed_calls(standing: &StandingGrant) -> Vec<AllowedCall> {
    let call = |(number, call): (usize, &GrantedCall)| AllowedCall {
        tool: legibility::one_line(&call.tool_name),
        href: call.ticket.as_ref().map(|ticket| ticket_path(ticket.as_str())),
        bounds: call.bounds.iter().map(plan_fields::bound_in_words).collect(),
        uses: format!("{} of {}", standing.uses(number), call.uses_max),
    };
    standing.signed.grant.calls.iter().enumerate().map(call).collect()
}

pub(super) fn masked() -> PageNotice {
    PageNotice {
        title: "Some arguments are masked for you".to_owned(),
        text: "A grant holds what the arguments were, so it is made by a person who sees all of them.".to_owned(),
        link: None,
    }
}

/// The error as a sentence.
fn sentence(error: &GrantFailure) -> String {
    let text = legibility::one_line(&error.to_string());
    let mut characters = text.chars();
    let first: String = characters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", characters.as_str())
}
