//! The list of grants, newest first.

use askama::Template;
use http::StatusCode;
use servanda_approval::{Ticket, TicketId, requester_in_words};
use servanda_contract::legibility;
use servanda_doors::http::PageRequest;
use servanda_engine::approvals::GRANTS_PAGE_MAX;

use super::standing_view::StandingView;
use crate::{
    context::ConsoleContext,
    fault::PageFault,
    form,
    reply::ConsoleReply,
    routing::{GRANTS, grant_path, is_name},
    view::PageFrame,
};

/// One grant in one line.
struct StandingLine {
    href: String,
    tool: String,
    requester: String,
    view: StandingView,
}

#[derive(Template)]
#[template(path = "grants.html")]
struct GrantsDocument {
    frame: PageFrame,
    lines: Vec<StandingLine>,
    /// The address of the page after this one.
    older: Option<String>,
    /// Whether this is not the first page.
    is_later: bool,
}

/// Shows the list.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let before = form::parameter(request.uri.query(), "before").filter(|id| is_name(id)).map(TicketId::from);
    let tickets = context.approvals().grants(Some(viewer.tenant()), before.as_ref(), GRANTS_PAGE_MAX).await?;
    let is_full = tickets.len() >= usize::try_from(GRANTS_PAGE_MAX).unwrap_or(usize::MAX);
    let older = tickets.last().filter(|_| is_full).map(|last| format!("{GRANTS}?before={}", last.id));
    let now = context.now();
    let line = |ticket: &Ticket| {
        Some(StandingLine {
            href: grant_path(ticket.id.as_str()),
            tool: legibility::one_line(&ticket.grant.as_ref()?.signed.grant.tools_in_words()),
            requester: requester_in_words(ticket),
            view: StandingView::new(ticket.grant.as_deref()?, now),
        })
    };
    let lines = tickets.iter().filter(|ticket| viewer.sees_ticket(ticket)).filter_map(line).collect();
    let frame = PageFrame::of("Grants", &viewer.signed_in);
    Ok(ConsoleReply::page(StatusCode::OK, &GrantsDocument { frame, lines, older, is_later: before.is_some() }))
}
