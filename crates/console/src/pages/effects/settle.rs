//! A person settles an effect: the form is checked, and the engine and the store decide whether it counts.

use http::StatusCode;
use servanda_doors::http::PageRequest;
use servanda_effects::effect::EffectId;
use servanda_engine::oversight::{PersonSettlement, STATEMENT_CHARS_MAX, SettlementError};

use super::one;
use crate::{
    context::ConsoleContext,
    fault::PageFault,
    form::Form,
    pages::decide::check_token,
    reply::ConsoleReply,
    routing::{effect_path, read_id},
    view::PageNotice,
};

/// Acts on the form of an effect's page.
pub(crate) async fn settle(
    context: &ConsoleContext,
    request: &PageRequest,
    id: &str,
) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let form = Form::read(&request.headers, &request.body)?;
    check_token(&viewer, &form, request)?;
    let epoch = form.field("epoch").and_then(|text| text.parse().ok());
    let settlement = PersonSettlement {
        effect: read_id::<EffectId>(id).ok_or(PageFault::NotFound)?,
        epoch: epoch.ok_or(PageFault::BadForm("The form does not say what you were shown. Nothing was done."))?,
        completed: happened(&form)?,
        evidence: form.field("evidence").unwrap_or_default().to_owned(),
    };
    let notice = |title: &str, text: String| PageNotice { title: title.to_owned(), text, link: None };
    let settled = context.engine.oversight().settle(&viewer.signed_in.person, settlement).await;
    let (status, notice) = match settled {
        // A page that was posted is not shown: loading it again would post again.
        Ok(_) => return Ok(ConsoleReply::redirect(&effect_path(id))),
        Err(SettlementError::NoEffect(_)) => return Err(PageFault::NotFound),
        Err(SettlementError::NotPermitted) => {
            let text = "Nothing was recorded. People with the role “operator” settle effects.".to_owned();
            (StatusCode::FORBIDDEN, notice("You may look and not settle", text))
        }
        Err(SettlementError::Evidence) => {
            let text = format!(
                "Nothing was recorded. Say in one line of at most {STATEMENT_CHARS_MAX} characters how you know it."
            );
            (StatusCode::BAD_REQUEST, notice("The evidence is missing or too long", text))
        }
        Err(SettlementError::NotUnknown(_)) => {
            let text = "Your settlement was not recorded: read below what is known by now.".to_owned();
            (StatusCode::CONFLICT, notice("This is settled already", text))
        }
        Err(SettlementError::WentOn) => {
            let text = "Your settlement was not recorded. The call was made again since you opened the page: what you found out may be about \
                        the earlier one. Look again."
                .to_owned();
            (StatusCode::CONFLICT, notice("The effect went on since you looked", text))
        }
        Err(error @ SettlementError::Store(_)) => {
            tracing::warn!(effect = id, %error, "a settlement may not have been recorded");
            let text =
                "It is not known whether your settlement was recorded. What you see below is what the store has now."
                    .to_owned();
            (StatusCode::SERVICE_UNAVAILABLE, notice("The store did not confirm your settlement", text))
        }
    };
    one::shown(context, &viewer, id, status, Some(notice)).await
}

fn happened(form: &Form<'_>) -> Result<bool, PageFault> {
    match form.field("outcome") {
        Some("happened") => Ok(true),
        Some("not_happened") => Ok(false),
        _ => Err(PageFault::BadForm("Say whether it happened or did not happen. Nothing was done.")),
    }
}
