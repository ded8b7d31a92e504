//! A person holds a tool back or releases it: the form is checked, and the engine decides whether it counts.

use http::StatusCode;
use servanda_doors::http::PageRequest;
use servanda_engine::{
    oversight::{HoldChange, HoldChangeError, STATEMENT_CHARS_MAX},
    quarantine::QuarantineChangeError,
};

use super::one;
use crate::{
    context::ConsoleContext, fault::PageFault, form::Form, pages::decide::check_token, reply::ConsoleReply,
    routing::tool_path, view::PageNotice,
};

/// Acts on the form of a tool's page.
pub(crate) async fn change(
    context: &ConsoleContext,
    request: &PageRequest,
    name: &str,
) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let form = Form::read(&request.headers, &request.body)?;
    check_token(&viewer, &form, request)?;
    let seen = form.field("seen").map(str::to_owned);
    let change = HoldChange {
        tool: name.to_owned(),
        seen: seen.ok_or(PageFault::BadForm("The form does not say what you were shown. Nothing was done."))?,
        holds: holds(&form)?,
        reason: form.field("reason").unwrap_or_default().to_owned(),
    };
    let notice = |title: &str, text: &str| PageNotice { title: title.to_owned(), text: text.to_owned(), link: None };
    let (status, notice) = match context.engine.oversight().change_hold(&viewer.signed_in.person, change).await {
        // A page that was posted is not shown: loading it again would post again.
        Ok(_) => return Ok(ConsoleReply::redirect(&tool_path(name))),
        Err(HoldChangeError::NoTool(_)) => return Err(PageFault::NotFound),
        Err(HoldChangeError::NotPermitted) => (
            StatusCode::FORBIDDEN,
            notice(
                "You may look and not change this",
                "Nothing was done. People with the role “operator” hold tools back and release them.",
            ),
        ),
        Err(HoldChangeError::Shared) => (
            StatusCode::FORBIDDEN,
            notice(
                "Other tenants use this tool",
                "Nothing was done. “servanda quarantine” changes it for all of them.",
            ),
        ),
        Err(HoldChangeError::Reason) => {
            let text =
                format!("Nothing was done. Give a reason in one line of at most {STATEMENT_CHARS_MAX} characters.");
            (StatusCode::BAD_REQUEST, notice("The reason is missing or too long", &text))
        }
        Err(HoldChangeError::NotMade(QuarantineChangeError::ChangedMeanwhile | QuarantineChangeError::NotHeld)) => (
            StatusCode::CONFLICT,
            notice(
                "The quarantine changed since you looked",
                "Nothing was done. What you see below is how the tool stands now: read it, then decide again.",
            ),
        ),
        Err(error @ HoldChangeError::NotMade(QuarantineChangeError::Store(_))) => {
            tracing::warn!(tool = name, %error, "a quarantine may not have been changed");
            let text =
                "It is not known whether your change was recorded. What you see below is what the store has now.";
            (StatusCode::SERVICE_UNAVAILABLE, notice("The store did not confirm your change", text))
        }
    };
    one::shown(context, &viewer, name, status, Some(notice)).await
}

fn holds(form: &Form<'_>) -> Result<bool, PageFault> {
    match form.field("change") {
        Some("hold") => Ok(true),
        Some("release") => Ok(false),
        _ => Err(PageFault::BadForm(
            "The form does not say whether the tool is held back or released. Nothing was done.",
        )),
    }
}
