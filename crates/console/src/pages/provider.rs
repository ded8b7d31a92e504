//! Signing in through the identity provider: the step to it, and the way back.
//!
//! The step is a page with a link and not a redirection, because the console's forms lead nowhere else: browsers hold redirections of a form to
//! the content policy. The way back begins at another site, so the browser brings no cookie at first; a step from our own page brings it.

use std::borrow::Cow;

use askama::Template;
use http::{HeaderMap, Method, StatusCode, Uri, header};
use servanda_doors::http::PageRequest;
use servanda_effects::JournalError;

use super::sign_in::{self, SignInWays};
use crate::{
    context::ConsoleContext,
    cookie,
    fault::PageFault,
    form::{self, Form},
    reply::ConsoleReply,
    routing::{INBOX, PROVIDER_ANSWER, safe_target},
    sign_in::{AttemptRequest, OpenAttempt, ProviderRefusal},
    view::PageFrame,
};

/// The longest answer that is looked at.
const QUERY_BYTES_MAX: usize = 8 << 10;
/// What of an answer is taken along to the second step.
const ANSWER_PARAMETERS: [&str; 4] = ["code", "state", "iss", "error"];
/// The most of those.
const PARAMETERS_MAX: usize = 16;
/// Says that the second step was made.
const ARRIVED: &str = "arrived";

/// The step to the provider.
#[derive(Template)]
#[template(path = "provider.html")]
struct ProviderPage {
    frame: PageFrame,
    name: String,
    host: String,
    address: String,
}

/// Sends a person to the provider.
pub(crate) async fn begin(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let form = Form::read(&request.headers, &request.body)?;
    let next = safe_target(form.field("next"));
    let Some(provider) = context.authenticator.provider() else { return Err(PageFault::NotFound) };
    let settings = context.engine.authorities();
    let console_url = settings.approvals().console_url.as_deref().unwrap_or_default();
    if !is_at(console_url, &request.headers) {
        let text = format!("You come back to {console_url} from there, so begin there: open that address and sign in.");
        let ways = SignInWays::rejected("The console has another address", text, next);
        return Ok(ways.shown(context, request).await);
    }
    let asked = AttemptRequest {
        next,
        redirect: format!("{console_url}{PROVIDER_ANSWER}"),
        settings: provider.settings,
        asks_again: context.signed_in(&request.headers).await?.is_some(),
    };
    let open = context.attempts.begin(asked)?;
    let address = match context.authenticator.provider_address(&open.attempt).await {
        Ok(address) => address,
        Err(refusal) => return Ok(refused(context, request, &refusal, next).await),
    };
    context.attempts.keep(&open).await?;
    let host = address.parse::<Uri>().ok().and_then(|uri| uri.host().map(str::to_owned)).unwrap_or_default();
    let frame = PageFrame::open("Sign in");
    let reply = ConsoleReply::page(StatusCode::OK, &ProviderPage { frame, name: provider.name, host, address });
    Ok(reply.with(header::SET_COOKIE, cookie::set_attempt(&open.cookie_text())))
}

/// Receives a person who comes back from the provider.
pub(crate) async fn answer(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    if request.method != Method::GET {
        return Err(PageFault::Method("GET"));
    }
    let query = request.uri.query().unwrap_or_default();
    if query.len() > QUERY_BYTES_MAX {
        return Ok(refused(context, request, &refusal("malformed_answer", TOO_LONG), INBOX).await);
    }
    let Some(token) = cookie::read_attempt(&request.headers) else {
        if form::parameter(Some(query), ARRIVED).is_none() {
            return Ok(super::arrival_at(second_step(query)));
        }
        return Ok(refused(context, request, &refusal("other_browser", NO_ATTEMPT), INBOX).await);
    };
    let Some(open) = context.attempts.find(token).await? else {
        return Ok(refused(context, request, &refusal("no_attempt", NO_ATTEMPT), INBOX).await);
    };
    match finish(context, request, &open, query).await {
        Ok(reply) => Ok(reply),
        Err(AnswerFault::Refused(refusal)) => {
            Ok(refused(context, request, &refusal, safe_target(Some(&open.next))).await)
        }
        Err(AnswerFault::Page(fault)) => Err(fault),
    }
}

const TOO_LONG: &str = "The answer of the identity provider cannot be read. Sign in again.";
const NO_ATTEMPT: &str = "This browser has not begun to sign in, or more than ten minutes ago, or has finished already. Sign in again from here.";

/// Why an answer signs nobody in.
enum AnswerFault {
    Refused(ProviderRefusal),
    Page(PageFault),
}

async fn finish(
    context: &ConsoleContext,
    request: &PageRequest,
    open: &OpenAttempt,
    query: &str,
) -> Result<ConsoleReply, AnswerFault> {
    let code = context.authenticator.read_answer(&open.attempt, query).await?;
    // Only an answer to this very attempt uses it up: another page could send the browser here with anything.
    if !context.attempts.use_up(open).await? {
        return Err(refusal("no_attempt", NO_ATTEMPT).into());
    }
    let person = context.authenticator.person_of_code(&open.attempt, &code).await?;
    let reply = sign_in::begin(context, request, person, safe_target(Some(&open.next))).await?;
    Ok(reply.with_another(header::SET_COOKIE, cookie::clear_attempt()))
}

/// Why there is no session, with the other ways to sign in.
async fn refused(
    context: &ConsoleContext,
    request: &PageRequest,
    refusal: &ProviderRefusal,
    next: &str,
) -> ConsoleReply {
    let ProviderRefusal { reason, code, message, detail } = refusal;
    let code = code.as_ref().map_or_else(String::new, |code| format!(", {code}"));
    let text = format!("{message} (Reason: {reason}{code}.)");
    let ways = SignInWays::rejected("You are not signed in", text, next);
    let logged = format!("the identity provider signs nobody in: {reason}{code}: {detail}");
    ways.shown(context, request).await.with_wrong_credential(logged)
}

fn refusal(reason: &'static str, message: &'static str) -> ProviderRefusal {
    let detail = "the answer belongs to no attempt of this browser".to_owned();
    ProviderRefusal { reason, code: None, message, detail }
}

/// The address of the second step: what counts of the answer, written anew.
fn second_step(query: &str) -> String {
    let mut kept = form_urlencoded::Serializer::new(String::new());
    let counts = |name: &Cow<'_, str>| ANSWER_PARAMETERS.contains(&&**name);
    for (name, value) in form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| counts(name)).take(PARAMETERS_MAX)
    {
        kept.append_pair(&name, &value);
    }
    kept.append_pair(ARRIVED, "1");
    format!("{PROVIDER_ANSWER}?{}", kept.finish())
}

/// Whether a request came to that address of the console, as far as its host says.
fn is_at(console_url: &str, headers: &HeaderMap) -> bool {
    let Some((scheme, authority)) = console_url.split_once("://") else { return false };
    let default_port = if scheme == "https" { ":443" } else { ":80" };
    let bare = |authority: &str| authority.strip_suffix(default_port).unwrap_or(authority).to_ascii_lowercase();
    let mut hosts = headers.get_all(header::HOST).iter().filter_map(|host| host.to_str().ok());
    matches!((hosts.next(), hosts.next()), (Some(host), None) if bare(host) == bare(authority))
}

impl From<ProviderRefusal> for AnswerFault {
    fn from(refusal: ProviderRefusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<PageFault> for AnswerFault {
    fn from(fault: PageFault) -> Self {
        Self::Page(fault)
    }
}

impl From<JournalError> for AnswerFault {
    fn from(error: JournalError) -> Self {
        Self::Page(error.into())
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn the_step_is_made_where_the_person_comes_back() {
        for (console_url, host, expected) in [
            ("https://gateway.example", "gateway.example", true),
            ("https://gateway.example", "Gateway.Example:443", true),
            ("https://gateway.example:443", "gateway.example", true),
            ("https://gateway.example", "gateway.example:80", false),
            ("http://127.0.0.1:7332", "127.0.0.1:7332", true),
            ("http://servanda.localhost:7332", "127.0.0.1:7332", false),
            ("https://gateway.example", "evil.example", false),
            ("", "gateway.example", false),
        ] {
            let headers = HeaderMap::from_iter([(header::HOST, HeaderValue::from_static(host))]);
            assert_eq!(is_at(console_url, &headers), expected, "{console_url} {host}");
        }
        assert!(!is_at("https://gateway.example", &HeaderMap::new()));
    }

    #[test]
    fn the_second_step_has_what_counts_and_nothing_that_a_page_would_run() {
        assert_eq!(
            second_step("code=a%2Fb%22%3E&state=s&iss=https%3A%2F%2Flogin.test&session_state=x&next=//evil.test"),
            "/sign-in/oidc/answer?code=a%2Fb%22%3E&state=s&iss=https%3A%2F%2Flogin.test&arrived=1"
        );
        assert_eq!(second_step("code=1&code=2"), "/sign-in/oidc/answer?code=1&code=2&arrived=1");
        assert_eq!(second_step(""), "/sign-in/oidc/answer?arrived=1");
    }
}
