//! A person makes a grant or takes one back: the form is checked, and the engine decides whether it counts.

use http::StatusCode;
use servanda_approval::{Ticket, TicketId};
use servanda_doors::http::PageRequest;
use servanda_engine::approvals::{GrantFailure, WantedGrant};

use super::{form_fields, one, plan_fields};
use crate::{
    context::{ConsoleContext, ConsoleViewer},
    fault::PageFault,
    form::Form,
    pages::{decide::check_token, ticket::find},
    reply::ConsoleReply,
    routing::grant_path,
    view::PageNotice,
};

/// Acts on the forms of a grant's page.
pub(crate) async fn change(
    context: &ConsoleContext,
    request: &PageRequest,
    id: &str,
) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let form = Form::read(&request.headers, &request.body)?;
    check_token(&viewer, &form, request)?;
    let ticket = find(context, &viewer, id).await?;
    match form.field("change") {
        Some("make") => make(context, &viewer, &ticket, &form).await,
        Some("revoke") => revoke(context, &viewer, &ticket, form.field("reason").unwrap_or_default()).await,
        _ => Err(PageFault::BadForm("The form does not say what to do. Nothing was done.")),
    }
}

async fn make(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    form: &Form<'_>,
) -> Result<ConsoleReply, PageFault> {
    if !viewer.sees_all_values(ticket) {
        // The page says why.
        return one::shown(context, viewer, ticket, None, (StatusCode::FORBIDDEN, None)).await;
    }
    let wanted = form_fields::wanted(form, ticket, ticket.id.as_str())?;
    if !plan_fields::sees_wanted(context, viewer, &wanted).await? {
        return one::shown(context, viewer, ticket, None, (StatusCode::FORBIDDEN, Some(one::masked()))).await;
    }
    let person = &viewer.signed_in.person;
    let draft = match context.approvals().draft_grant(person, &wanted, viewer.settings()).await {
        Ok((_, draft)) => draft,
        Err(error) => return refused(context, viewer, ticket, &error).await,
    };
    let was_shown = form.field("shown") == Some(form_fields::digest_of_shown(&draft, &wanted).to_string().as_str());
    if !was_shown {
        return read_first(context, viewer, ticket, wanted).await;
    }
    match context.approvals().make_grant(person, &wanted, viewer.settings()).await {
        // A page that was posted is not shown: loading it again would post again.
        Ok(made) => {
            tracing::warn!(ticket = %made.id, person = person.principal, tenant = person.tenant, tool = made.subject.contract, uses = wanted.uses_max, days = wanted.days, "a person allows calls from now on");
            Ok(ConsoleReply::redirect(&grant_path(made.id.as_str())))
        }
        Err(error) => refused(context, viewer, ticket, &error).await,
    }
}

/// Shows what the person asked for. Nothing holds that they have not read.
async fn read_first(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    wanted: WantedGrant,
) -> Result<ConsoleReply, PageFault> {
    let notice = PageNotice {
        title: "Read what you would allow now".to_owned(),
        text: "You changed the bounds, so nothing is allowed yet. The policy and what it would have done are shown anew below. Press the \
               button again if this is what you want."
            .to_owned(),
        link: None,
    };
    one::shown(context, viewer, ticket, Some(wanted), (StatusCode::OK, Some(notice))).await
}

async fn revoke(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    reason: &str,
) -> Result<ConsoleReply, PageFault> {
    let person = &viewer.signed_in.person;
    match context.approvals().revoke_grant(person, &ticket.id, reason, viewer.settings()).await {
        Ok(changed) => {
            tracing::warn!(ticket = %changed.id, person = person.principal, tenant = person.tenant, "a person takes a grant back");
            Ok(ConsoleReply::redirect(&grant_path(changed.id.as_str())))
        }
        Err(error) => refused(context, viewer, ticket, &error).await,
    }
}

async fn refused(
    context: &ConsoleContext,
    viewer: &ConsoleViewer,
    ticket: &Ticket,
    error: &GrantFailure,
) -> Result<ConsoleReply, PageFault> {
    if matches!(error, GrantFailure::Keys(_) | GrantFailure::Store(_)) {
        tracing::warn!(ticket = %ticket.id, %error, "a grant may not have been changed");
    }
    // The ticket as it is now.
    let ticket = find(context, viewer, TicketId::as_str(&ticket.id)).await?;
    let (status, notice) = one::refusal(error, &ticket);
    one::shown(context, viewer, &ticket, None, (status, Some(notice))).await
}
