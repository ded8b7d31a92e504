//! The list of tools, by name.

use askama::Template;
use http::StatusCode;
use servanda_contract::legibility;
use servanda_doors::http::PageRequest;
use servanda_engine::oversight::ToolOverview;

use super::standing_words::StandingWords;
use crate::{
    context::ConsoleContext,
    fault::PageFault,
    form,
    pages::words::RiskWords,
    reply::ConsoleReply,
    routing::{TOOLS, tool_path},
    view::{FilterLink, PageFrame},
};

/// The most tools on one page.
const PAGE_TOOLS: usize = 500;

/// One tool in one line.
struct ToolLine {
    href: String,
    name: String,
    contract: String,
    upstream: String,
    risk: RiskWords,
    standing: StandingWords,
    needs_approval: bool,
}

#[derive(Template)]
#[template(path = "tools.html")]
struct ToolsDocument {
    frame: PageFrame,
    filters: Vec<FilterLink>,
    lines: Vec<ToolLine>,
    empty: &'static str,
    left_out: usize,
}

/// Shows the list.
pub(crate) async fn page(context: &ConsoleContext, request: &PageRequest) -> Result<ConsoleReply, PageFault> {
    let viewer = context.viewer(&request.headers).await?;
    let reports = context.engine.oversight().tools(&viewer.signed_in.person).ok_or(PageFault::NoRole)?;
    let all: Vec<ToolLine> = reports.iter().map(ToolLine::new).collect();
    let held_only = form::parameter(request.uri.query(), "state").as_deref() == Some("held");
    let held = all.iter().filter(|line| line.standing.is_held).count();
    let link = |href: String, label: &'static str, is_chosen: bool, count: usize| FilterLink {
        href,
        label,
        is_chosen,
        count: Some(count.to_string()),
    };
    let filters = vec![
        link(TOOLS.to_owned(), "All", !held_only, all.len()),
        link(format!("{TOOLS}?state=held"), "Held back", held_only, held),
    ];
    let mut lines: Vec<ToolLine> = all.into_iter().filter(|line| !held_only || line.standing.is_held).collect();
    let left_out = lines.len().saturating_sub(PAGE_TOOLS);
    lines.truncate(PAGE_TOOLS);
    let empty = if held_only {
        "No tool is held back. A tool is held back when its definition changed, when it did what its contract does not say, or when a person \
         wants it."
    } else {
        "There are no tools yet. “servanda init” writes a contract for every tool of the servers in .mcp.json; each then appears here."
    };
    let frame = PageFrame::of("Tools", &viewer.signed_in);
    Ok(ConsoleReply::page(StatusCode::OK, &ToolsDocument { frame, filters, lines, empty, left_out }))
}

impl ToolLine {
    fn new(report: &ToolOverview) -> Self {
        let contract = report.contract.contract();
        let line = |text: &str| legibility::one_line(text);
        Self {
            href: tool_path(&report.name),
            name: line(&report.name),
            contract: format!("{} {}", line(&contract.identity.name), line(&contract.identity.version)),
            upstream: line(&contract.binding.upstream),
            risk: RiskWords::new(contract.transactional.side_effect_class),
            standing: StandingWords::new(report),
            needs_approval: report.contract.usually_needs_approval(),
        }
    }
}
