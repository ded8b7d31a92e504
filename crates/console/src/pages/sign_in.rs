//! Signing in and out.

use askama::Template;
use http::{StatusCode, header};
use servanda_authority::{Secret, passkey::RelyingParty};
use servanda_doors::http::PageRequest;

use super::fault::sign_in_path;
use crate::{
    context::ConsoleContext,
    cookie,
    fault::PageFault,
    form::{self, Form},
    form_token,
    passkey::{PasskeyPurpose, PasskeyRejection, check_sign_in, relying_party, request_options},
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
    /// The identity provider's name, if there is one.
    provider: Option<String>,
    /// The form of passkeys, where browsers offer them.
    passkey: Option<PasskeySignIn>,
}

/// The form with which a passkey signs in.
struct PasskeySignIn {
    challenge: String,
    /// What the browser is asked.
    options: String,
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
    let ways = SignInWays { status: StatusCode::OK, notice: None, next: safe_target(next.as_deref()), is_again };
    Ok(ways.shown(context, request).await)
}

/// Signs in with an API key for people.
pub(crate) async fn with_key(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let form = Form::read(&request.headers, &request.body)?;
    let next = safe_target(form.field("next"));
    let key = form.field("key").map(str::trim).filter(|key| !key.is_empty() && key.len() <= KEY_BYTES_MAX);
    if context.authenticator.is_single_user() {
        let text = "This gateway asks for no credentials. Use a one-time link.".to_owned();
        return Ok(SignInWays::rejected("Keys are not used here", text, next).shown(context, request).await);
    }
    let Some(key) = key else {
        let text = "Paste a key that was made for people.".to_owned();
        return Ok(SignInWays::rejected("No key was entered", text, next).shown(context, request).await);
    };
    match context.authenticator.authenticate(&Secret::from(key.to_owned())).await {
        Ok(person) => begin(context, request, person, next).await,
        Err(PersonRejection::Wrong { message, why }) => {
            let rejected = SignInWays::rejected("This key was not accepted", message, next);
            Ok(rejected.shown(context, request).await.with_wrong_credential(why))
        }
        Err(PersonRejection::Unavailable(unavailable)) => Err(PageFault::StoreAway(unavailable.to_string())),
    }
}

/// Signs in with a passkey.
pub(crate) async fn with_passkey(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let form = Form::read(&request.headers, &request.body)?;
    let next = safe_target(form.field("next"));
    match person_of_passkey(context, request, &form).await {
        Ok(person) => begin(context, request, person, next).await,
        Err(PasskeyRejection::Unavailable(unavailable)) => Err(PageFault::StoreAway(unavailable.to_string())),
        Err(rejection) => {
            let rejected = SignInWays::rejected("This passkey was not accepted", rejection.words(), next);
            Ok(rejected.shown(context, request).await.with_wrong_credential(rejection.logged()))
        }
    }
}

async fn person_of_passkey(
    context: &ConsoleContext,
    request: &PageRequest,
    form: &Form<'_>,
) -> Result<AuthenticatedPerson, PasskeyRejection> {
    let party = party(context, request).ok_or(PasskeyRejection::NoAnswer)?;
    let asked = context.challenges.read(PasskeyPurpose::SignIn, form.field("challenge"), context.now()).await?;
    let authenticator = context.authenticator.as_ref();
    let checked = check_sign_in(authenticator, form.field("assertion"), (&party, &asked.challenge)).await?;
    context.challenges.use_up(&asked).await?;
    authenticator.person_of_passkey(&checked.stored).await?.ok_or(PasskeyRejection::Unknown)
}

/// Shows the page of a one-time link. It has a button, so that a program that only looks at the link does not use it up.
pub(crate) async fn link_page(context: &ConsoleContext, request: &PageRequest, token: &str) -> ConsoleReply {
    if context.authenticator.is_single_user() && context.links.is_usable(token) {
        let page = LinkPage { frame: PageFrame::open("Open the console"), action: format!("/sign-in/{token}") };
        return ConsoleReply::page(StatusCode::OK, &page);
    }
    unusable_link(context, request).await
}

/// Uses a one-time link up.
pub(crate) async fn with_link(
    context: &ConsoleContext,
    request: &PageRequest,
    token: &str,
) -> Result<ConsoleReply, PageFault> {
    let person = if context.authenticator.is_single_user() { context.links.take(token) } else { None };
    let Some(person) = person else {
        let why = "the one-time link is wrong, used or too old".to_owned();
        return Ok(unusable_link(context, request).await.with_wrong_credential(why));
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
pub(super) async fn begin(
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

async fn unusable_link(context: &ConsoleContext, request: &PageRequest) -> ConsoleReply {
    let notice = PageNotice {
        title: "This link does not open the console".to_owned(),
        text: "A link works once, for ten minutes, and only at the gateway that printed it.".to_owned(),
        link: None,
    };
    let ways = SignInWays { status: StatusCode::NOT_FOUND, notice: Some(notice), next: INBOX, is_again: false };
    ways.shown(context, request).await
}

/// The page of ways to sign in, with what a way came to.
pub(super) struct SignInWays<'a> {
    status: StatusCode,
    notice: Option<PageNotice>,
    next: &'a str,
    is_again: bool,
}

impl<'a> SignInWays<'a> {
    pub(super) fn rejected(title: &str, text: String, next: &'a str) -> Self {
        let notice = Some(PageNotice { title: title.to_owned(), text, link: None });
        Self { status: StatusCode::FORBIDDEN, notice, next, is_again: false }
    }

    pub(super) async fn shown(self, context: &ConsoleContext, request: &PageRequest) -> ConsoleReply {
        let page = SignInPage {
            frame: PageFrame::open("Sign in"),
            notice: self.notice,
            is_single_user: context.authenticator.is_single_user(),
            link_hint: context.link_hint.clone(),
            next: self.next.to_owned(),
            is_again: self.is_again,
            provider: context.authenticator.provider().map(|provider| provider.name),
            passkey: passkey_form(context, request).await,
        };
        ConsoleReply::page(self.status, &page)
    }
}

/// The form of passkeys. None where browsers offer none, and while the store does not answer: the other ways say so themselves.
async fn passkey_form(context: &ConsoleContext, request: &PageRequest) -> Option<PasskeySignIn> {
    let party = party(context, request)?;
    let minted = context.challenges.mint(PasskeyPurpose::SignIn, context.now()).await.ok()?;
    Some(PasskeySignIn { options: request_options(&party, &minted.challenge, &[]), challenge: minted.text })
}

fn party(context: &ConsoleContext, request: &PageRequest) -> Option<RelyingParty> {
    relying_party(context.engine.authorities().approvals().console_url.as_deref(), &request.headers)
}
