//! Signing in and out.

use askama::Template;
use http::{StatusCode, header};
use servanda_authority::Secret;
use servanda_doors::http::PageRequest;

use super::fault::sign_in_path;
use crate::{
    context::ConsoleContext,
    cookie,
    fault::PageFault,
    form::{self, Form},
    form_token,
    reply::ConsoleReply,
    routing::{INBOX, safe_target},
    session::SessionToken,
    sign_in::{AuthenticatedPerson, PersonRejection},
    view::{PageFrame, PageNotice},
};

/// The longest key that is looked at.
const KEY_BYTES_MAX: usize = 512;

/// The ways to sign in.
#[derive(Template)]
#[template(path = "sign_in.html")]
struct SignInPage {
    frame: PageFrame,
    notice: Option<PageNotice>,
    /// Whether a one-time link is the way in.
    is_single_user: bool,
    link_hint: String,
    /// Where the person goes afterwards.
    next: String,
    /// Whether the person is signed in already and proves it again.
    is_again: bool,
}

/// The page of a one-time link.
#[derive(Template)]
#[template(path = "link.html")]
struct LinkPage {
    frame: PageFrame,
    action: String,
}

/// Shows the ways to sign in.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let is_again = context.signed_in(&request.headers).await?.is_some();
    let next = form::parameter(request.uri.query(), "next");
    Ok(ways(context, StatusCode::OK, None, safe_target(next.as_deref()), is_again))
}

/// Signs in with an API key for people.
pub(crate) async fn with_key(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let form = Form::read(&request.headers, &request.body)?;
    let next = safe_target(form.field("next"));
    let key = form.field("key").map(str::trim).filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
    let rejected = |title: &str, text: String| {
        let notice = PageNotice { title: title.to_owned(), text, link: None };
        ways(context, StatusCode::FORBIDDEN, Some(notice), next, false)
    };
    if context.authenticator.is_single_user() {
        return Ok(rejected(
            "Keys are not used here",
            "This gateway asks for no credentials. Use a one-time link.".to_owned(),
        ));
    }
    let Some(key) = key else {
        return Ok(rejected("No key was entered", "Paste a key that was made for people.".to_owned()));
    };
    match context.authenticator.authenticate(&Secret::from(key.to_owned())).await {
        Ok(person) => begin(context, request, person, next).await,
        Err(PersonRejection::Wrong { message, why }) => {
            Ok(rejected("This key was not accepted", message).with_wrong_credential(why))
        }
        Err(PersonRejection::Unavailable(unavailable)) => Err(PageFault::StoreAway(unavailable.to_string())),
    }
}

/// Shows the page of a one-time link. It has a button, so that a program that only looks at the link does not use it up.
pub(crate) fn link_page(context: &ConsoleContext, token: &str) -> ConsoleReply {
    if context.authenticator.is_single_user() && context.links.is_usable(token) {
        let page = LinkPage { frame: PageFrame::open("Open the console"), action: format!("/sign-in/{token}") };
        return ConsoleReply::page(StatusCode::OK, &page);
    }
    unusable_link(context)
}

/// Uses a one-time link up.
pub(crate) async fn with_link(
    context: &ConsoleContext,
    request: &PageRequest,
    token: &str,
) -> Result<ConsoleReply, PageFault> {
    let person = if context.authenticator.is_single_user() { context.links.take(token) } else { None };
    let Some(person) = person else {
        return Ok(
            unusable_link(context).with_wrong_credential("the one-time link is wrong, used or too old".to_owned())
        );
    };
    begin(context, request, person, INBOX).await
}

/// Ends the session.
pub(crate) async fn sign_out(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let signed_in = context.signed_in(&request.headers).await?.ok_or(PageFault::SignedOut)?;
    let form = Form::read(&request.headers, &request.body)?;
    let is_own =
        form.field("form_token").is_some_and(|token| form_token::is_valid(&signed_in.token, request.uri.path(), token));
    if !is_own {
        return Err(PageFault::NoFormToken);
    }
    context.sessions.close(&signed_in.token).await?;
    tracing::info!(
        person = signed_in.person.principal,
        tenant = signed_in.person.tenant,
        "a person signed out of the console"
    );
    Ok(ConsoleReply::redirect(&sign_in_path(None)).with(header::SET_COOKIE, cookie::clear()))
}

/// Opens a session and ends the one that the browser had.
async fn begin(
    context: &ConsoleContext,
    request: &PageRequest,
    person: AuthenticatedPerson,
    next: &str,
) -> Result<ConsoleReply, PageFault> {
    let (tenant, principal, method) = (person.tenant.clone(), person.principal.clone(), person.method.recorded());
    let token = context.sessions.open(person).await?;
    if let Some(before) = cookie::read(&request.headers).and_then(SessionToken::read) {
        context.sessions.close(&before).await?;
    }
    tracing::info!(person = principal, tenant, method, "a person signed in to the console");
    Ok(ConsoleReply::redirect(next).with(header::SET_COOKIE, cookie::set(&token.text())))
}

fn unusable_link(context: &ConsoleContext) -> ConsoleReply {
    let notice = PageNotice {
        title: "This link does not open the console".to_owned(),
        text: "A link works once, for ten minutes, and only at the gateway that printed it.".to_owned(),
        link: None,
    };
    ways(context, StatusCode::NOT_FOUND, Some(notice), INBOX, false)
}

fn ways(
    context: &ConsoleContext,
    status: StatusCode,
    notice: Option<PageNotice>,
    next: &str,
    is_again: bool,
) -> ConsoleReply {
    let page = SignInPage {
        frame: PageFrame::open("Sign in"),
        notice,
        is_single_user: context.authenticator.is_single_user(),
        link_hint: context.link_hint.clone(),
        next: next.to_owned(),
        is_again,
    };
    ConsoleReply::page(status, &page)
}
