//! The pages that say why there is no other page.

use askama::Template;
use http::{HeaderValue, Method, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use servanda_doors::http::PageRequest;

use crate::{
    fault::PageFault,
    reply::ConsoleReply,
    routing::{CALL_EVENTS, INBOX, INBOX_EVENTS, SIGN_IN, safe_target},
    view::{PageFrame, PageNotice},
};

#[derive(Template)]
#[template(path = "fault.html")]
struct FaultPage {
    frame: PageFrame,
    notice: PageNotice,
}

/// Says why there is no page. A person who is not signed in is led to the page of ways to sign in, and comes back.
pub(crate) fn reply(fault: &PageFault, request: &PageRequest) -> ConsoleReply {
    if let PageFault::SignedOut = fault
        && matches!(request.method, Method::GET | Method::HEAD)
        // A script that asks for news is not a person who could sign in.
        && !wants_events(request)
    {
        return ConsoleReply::redirect(&sign_in_path(
            request.uri.path_and_query().map(http::uri::PathAndQuery::as_str),
        ));
    }
    let (status, title, text) = words(fault);
    let link = match fault {
        PageFault::SignedOut => Some((SIGN_IN.to_owned(), "Sign in")),
        _ => Some((INBOX.to_owned(), "Go to the inbox")),
    };
    let notice = PageNotice { title: title.to_owned(), text: text.to_owned(), link };
    let reply = ConsoleReply::page(status, &FaultPage { frame: PageFrame::open(title), notice });
    match fault {
        PageFault::Method(allowed) => reply.with(header::ALLOW, HeaderValue::from_str(allowed).ok()),
        PageFault::StoreAway(_) => reply.with(header::RETRY_AFTER, Some(HeaderValue::from_static("5"))),
        _ => reply,
    }
}

fn wants_events(request: &PageRequest) -> bool {
    [INBOX_EVENTS, CALL_EVENTS].contains(&request.uri.path())
}

/// The page of ways to sign in, from which a person comes back to an address.
pub(crate) fn sign_in_path(back_to: Option<&str>) -> String {
    let target = safe_target(back_to);
    if target == INBOX {
        return SIGN_IN.to_owned();
    }
    format!("{SIGN_IN}?next={}", utf8_percent_encode(target, NON_ALPHANUMERIC))
}

fn words(fault: &PageFault) -> (StatusCode, &'static str, &'static str) {
    match fault {
        PageFault::NotFound => (
            StatusCode::NOT_FOUND,
            "There is no such page",
            "The address is wrong, or what it named is gone or belongs to another tenant.",
        ),
        PageFault::Method(_) => (
            StatusCode::METHOD_NOT_ALLOWED,
            "This address is not used that way",
            "Go back and use the page's own buttons.",
        ),
        PageFault::NoRole => (
            StatusCode::FORBIDDEN,
            "Your role does not include this page",
            "People with a role see this page. An operator of the gateway gives roles in its configuration, under approvals. The inbox, the \
             effects and the budgets of your own agents are open to you.",
        ),
        PageFault::Foreign => (
            StatusCode::FORBIDDEN,
            "Another page sent this",
            "Nothing was done. The console acts only on its own forms, sent from its own address. If you used a form of the console, open the \
             console again at the address that the gateway names, and repeat it there.",
        ),
        PageFault::NoFormToken => (
            StatusCode::FORBIDDEN,
            "This form is from another session",
            "Nothing was done. You may have signed in again since the page was opened: open it again and repeat what you did.",
        ),
        PageFault::BadForm(why) => (StatusCode::BAD_REQUEST, "This form cannot be read", why),
        PageFault::SignedOut => (
            StatusCode::UNAUTHORIZED,
            "You are signed out",
            "Nothing was done. A session ends after an hour without use and after twelve hours at the latest. Sign in and repeat what you did.",
        ),
        PageFault::StoreAway(why) => {
            tracing::warn!(why, "a page cannot be shown");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "The store does not answer",
                "Nothing can be shown or decided at present, and nothing is approved by that. Try again in a moment; the log of the gateway has \
                 the reason.",
            )
        }
    }
}
