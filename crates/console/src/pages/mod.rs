//! The pages: each takes a request to an answer. What is on them comes from the engine; how it looks is in the templates.

pub(crate) mod budgets;
pub(crate) mod calls;
pub(crate) mod decide;
pub(crate) mod effects;
pub(crate) mod events;
pub(crate) mod fault;
pub(crate) mod grants;
pub(crate) mod inbox;
pub(crate) mod overview;
mod packet_view;
pub(crate) mod passkeys;
mod plan_view;
pub(crate) mod policies;
pub(crate) mod provider;
pub(crate) mod review;
pub(crate) mod sign_in;
pub(crate) mod ticket;
mod ticket_line;
pub(crate) mod tools;
mod words;

use askama::Template;
use http::StatusCode;
use servanda_doors::http::PageRequest;

use crate::{reply::ConsoleReply, routing::safe_target, view::PageFrame};

/// A page that only leads on to another of this console.
#[derive(Template)]
#[template(path = "arrival.html")]
struct ArrivalPage {
    frame: PageFrame,
    target: String,
}

/// Receives a person who followed a link on another site. The browser did not send the session's cookie with it and sends it with the next step,
/// which this page makes.
pub(crate) fn arrival(request: &PageRequest) -> ConsoleReply {
    let asked = request.uri.path_and_query().map(http::uri::PathAndQuery::as_str);
    arrival_at(safe_target(asked).to_owned())
}

/// The same for an address of this console.
fn arrival_at(target: String) -> ConsoleReply {
    ConsoleReply::page(StatusCode::OK, &ArrivalPage { frame: PageFrame::open("One moment"), target })
}
